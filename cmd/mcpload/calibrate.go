package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mcpload/mcpload/internal/bench"
	"github.com/mcpload/mcpload/profiles"
)

// errCalibration ends a calibration in which something differed.
var errCalibration = fmt.Errorf("plan and measurement differ: %w", errThreshold)

// calibrate runs a profile with cases and prints plan beside measurement.
func calibrate(ctx context.Context, stop <-chan struct{}, f runFlags, p *profiles.Profile, io streams) error {
	if f.out != "" || f.json || f.trials > 1 {
		return usageError{errors.New("a profile with cases only prints its table: leave --out, --json and --trials away")}
	}
	rows, failed := 0, 0
	fmt.Fprintf(io.out, "%-26s %-9s %s\n%s\n", "case", "lane", "plan = measured", strings.Repeat("─", 100))
	err := bench.Calibrate(ctx, bench.Options{
		Profile: p, Embedded: startEmbedded, EmbeddedCommand: embeddedCommand, Stop: stop, Version: version(), Collector: f.collector,
	}, func(done []bench.CalibrationRow) {
		for _, r := range done {
			rows++
			if !r.Passed {
				failed++
			}
			printRow(io.out, r)
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "\n%d of %d rows equal\n", rows-failed, rows)
	if failed > 0 {
		return errCalibration
	}
	return nil
}

func printRow(w io.Writer, r bench.CalibrationRow) {
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
	mark := "ok  "
	if !r.Passed {
		mark = "FAIL"
	}
	for i, line := range wrap(parts, 58) {
		if i == 0 {
			fmt.Fprintf(w, "%-26s %-9s %s %s\n", r.Case, r.Lane, mark, line)
		} else {
			fmt.Fprintf(w, "%-26s %-9s      %s\n", "", "", line)
		}
	}
}

// wrap joins parts with commas into lines of about width.
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
