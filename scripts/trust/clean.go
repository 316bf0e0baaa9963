package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// measured are the built-in profiles that are one run each.
func measured() (names []string) {
	for _, p := range profiles.Builtin(systems.Table) {
		if !slices.Contains([]string{"calibrate", "capacity"}, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// runClean runs profiles, all = every one, o.runs times each, and reports every row of
// conformance that was broken: the embedded target has no faults and breaks none.
func runClean(ctx context.Context, o options, dir string, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	names := measured()
	if o.only != "all" {
		names = strings.Split(o.only, ",")
	}
	broken := 0
	for _, name := range names {
		var held, judged int
		for n := range o.runs {
			at := filepath.Join(dir, name, fmt.Sprintf("%02d", n))
			if err := a.launch(ctx, at, "--profile", name); err != nil {
				return fmt.Errorf("profile %s: %w", name, err)
			}
			c, err := conformanceOf(at)
			if err != nil {
				return fmt.Errorf("profile %s: %w", name, err)
			}
			if c == nil {
				continue
			}
			judged++
			held = max(held, c.Held)
			for _, r := range c.Rows {
				if r.Verdict == results.RowBroken {
					broken++
					fmt.Fprintf(out, "%s, run %d: %s is broken %d times of %d: %+v\n", name, n+1, r.Row, r.Broken, r.Seen, r.First)
				}
			}
		}
		fmt.Fprintf(out, "%-10s %d runs, %d of them judged, up to %d rows held\n", name, o.runs, judged, held)
	}
	if broken > 0 {
		return fmt.Errorf("%w: %d broken rows", errGoal, broken)
	}
	return nil
}

// conformanceOf reads the verdict of a run; nil if it judged nothing.
func conformanceOf(dir string) (*results.Conformance, error) {
	text, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		return nil, err
	}
	var r results.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, errors.Join(errors.New("result.json"), err)
	}
	return r.Conformance, nil
}
