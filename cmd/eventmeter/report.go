package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/results"
)

func newReportCommand(io streams) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "report DIR...",
		Short: "Rebuild the report of a run or a capacity search from its archive",
		Long: `Report reads the archive of a run strictly, computes its latencies again from the
archived histograms, and prints the report. With --format text the output is, byte
for byte, the report.txt of the run. Report refuses an archive whose histograms do
not give the figures of its result.

With --format html the output is one self-contained file, which overlays the curves
of several archives; the other formats show one archive.`,
		Example: `  eventmeter report results/runs/20261120T100000Z-compare
  eventmeter report before --format junit > junit.xml
  eventmeter report before after --format html > both.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if format == "html" {
				return pageOf(io.out, args)
			}
			if len(args) > 1 {
				return usageError{fmt.Errorf("%d archives with --format %s: give one archive, or use --format html", len(args), format)}
			}
			return rebuild(io.out, args[0], format)
		},
	}
	c.Flags().StringVarP(&format, "format", "f", "text", "text, html, markdown, junit, json, "+strings.Join(report.Systems(), ", "))
	return c
}

// rebuild is the report command.
func rebuild(w io.Writer, dir, format string) error {
	if results.IsCapacity(dir) {
		return rebuildCapacity(w, dir, format)
	}
	r, err := results.Rebuild(dir)
	if err != nil {
		return usageError{err}
	}
	return write(w, r, format)
}

// write prints a result in a format by name.
func write(w io.Writer, r *results.Result, format string) error {
	switch format {
	case "text":
		return report.Text(w, r)
	case "markdown":
		return report.Markdown(w, r)
	case "junit":
		if r.Part != nil {
			return usageError{fmt.Errorf("--format junit: this is shard %d of %d, and thresholds are judged on the merged run; use eventmeter merge", r.Part.Index, r.Part.Count)}
		}
		return report.JUnit(w, r)
	case "json":
		return r.Write(w)
	}
	for _, system := range report.Systems() {
		if format == system {
			return report.Annotations(w, r, system)
		}
	}
	return usageError{fmt.Errorf("--format %q: want text, html, markdown, junit, json, %s", format, strings.Join(report.Systems(), ", "))}
}

// extraFlags select further output of a run: JUnit XML, a summary, and annotations
// for CI systems.
type extraFlags struct {
	junit, summary, annotate string

	written []*results.Result // by the runs so far
}

func (e *extraFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&e.junit, "junit", "", "write the thresholds as JUnit XML to this file")
	fl.StringVar(&e.summary, "summary", "", "append a summary in Markdown to this file, such as $GITHUB_STEP_SUMMARY")
	fl.StringVar(&e.annotate, "annotate", "auto", "print annotations for "+strings.Join(report.Systems(), ", ")+"; auto: for the CI system that is found, none: never")
}

// check refuses an unknown system before the run.
func (e *extraFlags) check() error {
	switch e.annotate {
	case "auto":
		e.annotate = report.DetectCI(os.Getenv)
		return nil
	case "none", "":
		e.annotate = ""
		return nil
	}
	for _, system := range report.Systems() {
		if e.annotate == system {
			return nil
		}
	}
	return usageError{fmt.Errorf("--annotate %q: want auto, none, %s", e.annotate, strings.Join(report.Systems(), ", "))}
}

// write writes the requested outputs. Annotations go to standard error if standard
// output is the result.
func (e *extraFlags) write(r *results.Result, annotations io.Writer) error {
	e.written = append(e.written, r)
	return e.files(annotations,
		func(w io.Writer) error { return report.JUnit(w, e.written...) },
		func(w io.Writer) error { return report.Markdown(w, r) },
		func(w io.Writer) error { return report.Annotations(w, r, e.annotate) })
}

// writeCalibration is [extraFlags.write] for a profile with cases.
func (e *extraFlags) writeCalibration(c *report.Calibration, annotations io.Writer) error {
	return e.files(annotations,
		func(w io.Writer) error { return report.CalibrationJUnit(w, c) },
		func(w io.Writer) error { return report.CalibrationMarkdown(w, c) },
		func(w io.Writer) error { return report.CalibrationAnnotations(w, c, e.annotate) })
}

// files writes each requested output, even if another one cannot be written.
func (e *extraFlags) files(annotations io.Writer, junit, summary, annotate func(io.Writer) error) error {
	var errs []error
	if e.junit != "" {
		if err := toFile(e.junit, os.O_TRUNC, junit); err != nil {
			errs = append(errs, fmt.Errorf("--junit: %w", err))
		}
	}
	if e.summary != "" {
		if err := toFile(e.summary, os.O_APPEND, summary); err != nil {
			errs = append(errs, fmt.Errorf("--summary: %w", err))
		}
	}
	if e.annotate != "" {
		errs = append(errs, annotate(annotations))
	}
	return errors.Join(errs...)
}

func toFile(name string, mode int, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
