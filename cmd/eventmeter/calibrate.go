package main

import (
	"context"
	"errors"
	"fmt"
	goio "io"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/calibrate"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
)

// errCalibration is returned if a calibration measured anything else than planned.
var errCalibration = fmt.Errorf("plan and measurement differ: %w", errThreshold)

// checkCalibration refuses flags that have no effect on a profile with cases: its
// cases run side by side, each with a target of its own, and leave no archive.
func (f *runFlags) checkCalibration() error {
	for _, x := range []struct {
		given bool
		flag  string
	}{
		{f.out != "", "--out"},
		{f.name != "", "--name"},
		{f.output.format.has(formatJSON), "--format json"},
		{f.output.full, "--full"},
		{slices.ContainsFunc(f.output.format.files, func(x formatFile) bool { return x.format == formatText }), "--format text=FILE"},
		{f.output.format.has(formatJUnit) && len(f.profiles) > 1, "--format junit with other profiles"},
		{f.trials > 1, "--trials"},
		{f.record != "", "--record"},
		{f.shards.processes > 1, "--processes"},
		{f.shards.shard != "", "--shard"},
		{f.metrics.addr != "", "--metrics"},
		{f.metrics.remoteWrite != "", "--remote-write"},
		{f.metrics.otlp != "", "--otlp"},
		{f.ofTarget != "", "--target-metrics"},
		{f.target.tokenFile != "" || len(f.target.tokens) > 0, "--token and --token-file"},
		{len(f.target.headers) > 0, "--header"},
	} {
		if x.given {
			return usagef("a profile with cases prints only a table of them and has no use for %s; remove the flag", x.flag)
		}
	}
	return nil
}

// runCalibration runs a profile with cases and prints plan beside measurement.
func runCalibration(ctx context.Context, stop <-chan struct{}, f runFlags, p *profiles.Profile, io streams) error {
	told := &report.Calibration{Profile: p.Name, Version: version(), Started: time.Now()}
	failed := 0
	rows := io.out // printed as they come
	if !f.output.format.isText() {
		rows = goio.Discard
	}
	fmt.Fprintf(rows, "%-26s %-9s %s\n%s\n", "case", "lane", "plan = measured", strings.Repeat("─", 100))
	err := calibrate.Run(ctx, run.Options{
		Profile: p, Embedded: startEmbedded, EmbeddedCommand: embeddedCommand, Stop: stop, Version: version(),
	}, func(done []calibrate.Row) {
		for _, r := range done {
			if !r.Passed {
				failed++
			}
			told.Rows = append(
				told.Rows,
				report.CalibrationRow{Case: r.Case, Lane: r.Lane, Passed: r.Passed, Text: strings.Join(checkTexts(r), ", ")},
			)
			printRow(rows, r)
		}
	})
	told.Took = time.Since(told.Started)
	if err != nil {
		told.Broken = err.Error()
		return errors.Join(err, f.output.calibration(told, io))
	}
	fmt.Fprintf(rows, "\n%d of %d rows equal\n", len(told.Rows)-failed, len(told.Rows))
	if err := f.output.calibration(told, io); err != nil {
		return err
	}
	if failed > 0 {
		return errCalibration
	}
	return nil
}

// calibration prints a calibration in another format than text, which was printed as
// its rows came, and writes its files and annotations.
func (o *outputFlags) calibration(c *report.Calibration, io streams) error {
	forms := rendering{
		formatText:     func(goio.Writer) error { return nil },
		formatMarkdown: reportOf(report.CalibrationMarkdown, c),
		formatJUnit:    reportOf(report.CalibrationJUnit, c),
		formatHTML:     reportOf(report.CalibrationHTML, c),
	}
	err := o.format.all(io, forms)
	if o.annotate != "" {
		err = errors.Join(err, report.CalibrationAnnotations(o.format.notes(io), c, o.annotate))
	}
	return err
}

// checkTexts formats the figures of a row, planned and measured.
func checkTexts(r calibrate.Row) []string {
	var parts []string
	for _, c := range r.Checks {
		sign := "="
		if strings.HasPrefix(c.Want, ">=") {
			sign = ","
		}
		if !c.Passed {
			sign = "≠"
		}
		parts = append(parts, fmt.Sprintf("%s %s %s %d", c.Name, c.Want, sign, c.Got))
	}
	return parts
}

func printRow(w goio.Writer, r calibrate.Row) {
	mark := "ok  "
	if !r.Passed {
		mark = "FAIL"
	}
	for i, line := range wrap(checkTexts(r), 58) {
		if i == 0 {
			fmt.Fprintf(w, "%-26s %-9s %s %s\n", r.Case, r.Lane, mark, line)
		} else {
			fmt.Fprintf(w, "%-26s %-9s      %s\n", "", "", line)
		}
	}
}

// wrap joins parts with commas into lines of about width columns.
func wrap(parts []string, width int) []string {
	lines := []string{""}
	for _, p := range parts {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = p
		case len(*last)+2+len(p) > width:
			*last += ","
			lines = append(lines, p)
		default:
			*last += ", " + p
		}
	}
	return lines
}
