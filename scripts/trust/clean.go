package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// measured are the built-in profiles that are one run each, of less than an hour.
func measured() (names []string) {
	for _, p := range profiles.Builtin() {
		if !slices.Contains([]string{"calibrate", "capacity", "soak"}, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// cleaned is what the runs of one profile showed.
type cleaned struct {
	judged int            // runs that judged a row
	held   []int          // rows that were held, run by run
	codes  map[int]int    // runs, by exit code
	broken map[string]int // runs, by row that was broken
}

// runClean runs profiles, all = every one, o.runs times each, and prints every row of
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
	found := make([]cleaned, len(names))
	var mu sync.Mutex // of found and log
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	// One of each, o.runs times: a profile that strains the machine runs beside others.
	for n := range o.runs {
		for i, name := range names {
			g.Go(func() error {
				at := filepath.Join(dir, name, fmt.Sprintf("%02d", n))
				code, err := a.launch(ctx, at, "--profile", name)
				if err != nil {
					return fmt.Errorf("profile %s: %w", name, err)
				}
				c, err := conformanceOf(at)
				if err != nil {
					return fmt.Errorf("profile %s: %w", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(log, "%s, run %d: exit code %d\n", name, n+1, code)
				found[i].add(code, c, func(r results.ConformanceRow) {
					fmt.Fprintf(log, "%s, run %d: %s is broken %d times of %d: %+v\n", name, n+1, r.Row, r.Broken, r.Seen, r.First)
				})
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return printClean(out, o, names, found)
}

// add adds a run, and calls report with each row that it broke; c may be nil.
func (f *cleaned) add(code int, c *results.Conformance, report func(results.ConformanceRow)) {
	if f.codes == nil {
		f.codes, f.broken = map[int]int{}, map[string]int{}
	}
	f.codes[code]++
	if c == nil {
		return
	}
	f.judged++
	f.held = append(f.held, c.Held)
	for _, r := range c.Rows {
		if r.Verdict == results.RowBroken {
			f.broken[r.Row]++
			report(r)
		}
	}
}

// printClean prints the table. A goal is missed when a row was broken.
func printClean(out io.Writer, o options, names []string, found []cleaned) error {
	fmt.Fprintf(
		out,
		"%s, %s/%s, %d processors, %d runs of each profile, %d at once\n\n| profile | runs that judged | rows held | rows broken | exit codes |\n|---|---|---|---|---|\n",
		time.Now().UTC().Format(time.DateOnly),
		runtime.GOOS,
		runtime.GOARCH,
		runtime.NumCPU(),
		o.runs,
		o.parallel,
	)
	broken := 0
	for i, name := range names {
		f := &found[i]
		held, rows := "–", "none"
		if f.judged > 0 {
			if held = fmt.Sprint(slices.Min(f.held)); slices.Min(f.held) < slices.Max(f.held) {
				held += fmt.Sprint("–", slices.Max(f.held))
			}
		}
		if broken += len(f.broken); len(f.broken) > 0 {
			rows = strings.Join(slices.Sorted(maps.Keys(f.broken)), ", ")
		}
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(f.codes)) {
			codes = append(codes, fmt.Sprintf("%d × %d", f.codes[code], code))
		}
		fmt.Fprintf(out, "| %s | %d | %s | %s | %s |\n", name, f.judged, held, rows, strings.Join(codes, ", "))
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
