package main

import (
	"errors"
	"fmt"
	goio "io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
)

func newReportCommand(io streams) *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use:   "report DIR...",
		Short: "Rebuild the report of a run or a capacity search from its archive",
		Long: `Report reads the archive of a run, computes its latencies again from the archived
histograms, and prints the report with all figures.

The archive is read strictly. As text, the output is, byte for byte, the report.txt of
the run. Report refuses an archive whose histograms do not give the figures of its
result.

As html, the output is one self-contained file, which overlays the curves of several
archives; the other formats show one archive.`,
		Example: `  eventmeter report results/runs/20261120T100000Z-compare
  eventmeter report before --format junit > junit.xml
  eventmeter report before after --format html > both.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return rebuild(io, args, &f)
		},
	}
	f.add(c, append([]string{formatText, formatHTML, formatMarkdown, formatJUnit, formatJSON}, report.Systems()...)...)
	return c
}

// rebuild is the report command.
func rebuild(io streams, dirs []string, f *formatFlags) error {
	for _, dir := range dirs {
		if len(dirs) > 1 && results.IsCapacity(dir) {
			return usagef(
				"%s holds a capacity search, which cannot be laid over other archives; name it alone, or one of its steps, such as %s",
				dir, filepath.Join(dir, "steps", "001"),
			)
		}
	}
	page := func(w goio.Writer) error { return overlay(w, dirs) }
	if len(dirs) > 1 {
		for _, format := range f.can {
			if format != formatHTML && f.has(format) {
				return usagef("%d archives with --format %s: give one archive, or use --format html", len(dirs), format)
			}
		}
		return f.all(io, rendering{formatHTML: page})
	}
	if results.IsCapacity(dirs[0]) {
		return rebuildCapacity(io, dirs[0], f)
	}
	r, err := results.Rebuild(dirs[0])
	if err != nil {
		return usageError{err}
	}
	if f.has(formatJUnit) && r.Part != nil {
		return usagef("--format junit: this is shard %d of %d, and thresholds are judged on the merged run; use eventmeter merge",
			r.Part.Index, r.Part.Count)
	}
	forms := formsOf(r)
	forms[formatHTML] = page
	for _, system := range report.Systems() {
		forms[system] = func(w goio.Writer) error { return report.Annotations(w, r, system) }
	}
	return f.all(io, forms)
}

// formsOf are the formats of one result, except for html, which needs its archive.
func formsOf(r *results.Result) rendering {
	return rendering{
		formatText:     reportOf(report.Text, r),
		formatJSON:     r.Write,
		formatMarkdown: reportOf(report.Markdown, r),
		formatJUnit:    func(w goio.Writer) error { return report.JUnit(w, r) },
	}
}

// outputFlags select the output of a run: its formats and annotations for CI systems.
type outputFlags struct {
	format   formatFlags
	annotate string
	full     bool

	written []*results.Result // by the runs so far
	dirs    []string          // their archives
}

func (o *outputFlags) add(c *cobra.Command) {
	o.format.add(c, formatText, formatJSON, formatMarkdown, formatHTML, formatJUnit)
	o.annotate = "auto"
	addFlags(c, []flagSpec{
		{&o.full, "full", "print all figures, as in report.txt, instead of a summary"},
		{
			&o.annotate, "annotate",
			"print annotations for " + strings.Join(report.Systems(), ", ") + "; auto: for the CI system that is found, none: never",
		},
	})
	_ = c.RegisterFlagCompletionFunc("annotate", fixed(append([]string{"auto", "none"}, report.Systems()...)...))
}

// check reads the flags before the run.
func (o *outputFlags) check() error {
	if err := o.format.check(); err != nil {
		return err
	}
	switch o.annotate {
	case "auto":
		o.annotate = report.DetectCI(os.Getenv)
		return nil
	case "none", "":
		o.annotate = ""
		return nil
	}
	for _, system := range report.Systems() {
		if o.annotate == system {
			return nil
		}
	}
	return usagef("--annotate %q: want auto, none, %s", o.annotate, strings.Join(report.Systems(), ", "))
}

// forms are the formats of a run whose archive is dir. As html and junit, several runs
// of one command are one document. page is empty if the archive has no report.html.
func (o *outputFlags) forms(r *results.Result, dir, page string) rendering {
	o.written, o.dirs = append(o.written, r), append(o.dirs, dir)
	forms := formsOf(r)
	if !o.full {
		forms[formatText] = func(w goio.Writer) error {
			return report.Summary(w, r, report.SummaryOptions{Width: widthOf(w), Ink: inkOf(w), Page: page})
		}
	}
	forms[formatJUnit] = func(w goio.Writer) error { return report.JUnit(w, o.written...) }
	forms[formatHTML] = func(w goio.Writer) error { return overlay(w, o.dirs) }
	return forms
}

// all saves a run in dir, prints it, and writes its files and annotations. It saves first: standard
// output may be closed, and the measurement cannot be repeated. A failure to write one file does not
// keep the others from being written.
func (o *outputFlags) all(outcome *run.Outcome, dir string, io streams) error {
	r := outcome.Result
	saved := archive(dir, outcome)
	page := filepath.Join(dir, reportPage)
	if saved != nil {
		page = ""
	}
	forms := o.forms(r, dir, page)
	err := o.format.print(io, forms)
	saved = unsaved(dir, saved, err == nil)
	err = errors.Join(err, saved, o.format.write(forms))
	if o.annotate != "" {
		err = errors.Join(err, report.Annotations(o.format.notes(io), r, o.annotate))
	}
	if saved == nil && o.format.isText() && o.full {
		fmt.Fprintf(io.out, "\nresult in %s\n", dir)
	}
	return err
}

// widthOf returns the width of a terminal, or that of a page of text elsewhere.
func widthOf(w goio.Writer) int {
	if fd, ok := terminalOf(w); ok {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return min(width, 120)
		}
	}
	return 110
}
