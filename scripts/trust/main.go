// Trust measures how often comparisons are wrong: how many of so many pairs of
// equal runs are called different, and in how many pairs a latency that is
// 10 % higher is found. Run it from anywhere in the module:
//
//	go run ./scripts/trust                        # synthetic archives, seconds
//	go run ./scripts/trust -mode real -parallel 6 # real runs, minutes
//	go run ./scripts/trust -mode duet -busy 4 -parallel 4 # two targets at once on a busy machine
//	go run ./scripts/trust -mode history -pairs 1000 # series with and without a step
//	go run ./scripts/trust -mode intervals -pairs 1000 # how often the interval of a percentile covers the truth
//	go run ./scripts/trust -mode intervals-real -parallel 4 # the same, of runs with a known delay
//	go run ./scripts/trust -mode clean -runs 10   # every built-in profile: is a row of conformance broken?
//	go run ./scripts/trust -mode planted -parallel 6 # eventmeter check of servers that break a row each
//	go run ./scripts/trust -mode planted-load -parallel 4 # the same, of servers that do so under load alone
//
// It exits with 1 when a goal is missed: at most 5 of 100 equal pairs called
// different, at least 95 of 100 changes found in the median and in p90. Ctrl-C ends it early with the
// table of the pairs that are done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/stats"
)

const (
	maxPairs = 10000
	maxRuns  = 50

	maxParallel = 32

	maxBusy    = 64
	maxMeasure = 10 * time.Minute
)

func main() {
	if os.Getenv(asBusy) != "" {
		compute(os.Stdin)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "trust:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	var o options
	fl := flag.NewFlagSet("trust", flag.ContinueOnError)
	fl.SetOutput(log)
	fl.IntVar(&o.pairs, "pairs", 100, "how many pairs of sides are compared, or series or runs of each kind")
	fl.IntVar(&o.runs, "runs", 1, "runs on each side or of each profile")
	fl.IntVar(&o.parallel, "parallel", 1, "pairs that are recorded at once; real runs mostly wait")
	fl.StringVar(&o.mode, "mode", "synthetic", "synthetic, real, duet, history, intervals, intervals-real, clean, planted or planted-load")
	fl.IntVar(&o.busy, "busy", 0, "with -mode duet: processes beside that do nothing but compute")
	fl.DurationVar(&o.measure, "measure", 0, "with -mode duet: length of the measured phase (default 20s)")
	fl.StringVar(&o.only, "only", "all", "with -mode clean: the built-in profiles to run, with commas between them; with planted: the rows")
	fl.StringVar(&o.keep, "keep", "", "directory to keep the archives in (default: they are deleted)")
	fl.DurationVar(&o.timeout, "timeout", 6*time.Hour, "end early after this time")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if o.pairs < 1 || o.pairs > maxPairs || o.runs < 1 || o.runs > maxRuns || o.parallel < 1 || o.parallel > maxParallel || fl.NArg() > 0 {
		return fmt.Errorf("want 1 to %d pairs, 1 to %d runs, 1 to %d at once and no arguments", maxPairs, maxRuns, maxParallel)
	}
	if o.measure == 0 {
		o.measure = 20 * time.Second
	}
	if o.busy < 0 || o.busy > maxBusy || o.measure < time.Second || o.measure > maxMeasure {
		return fmt.Errorf("want 0 to %d processes that compute, and 1s to %v measured", maxBusy, maxMeasure)
	}
	if o.mode == "history" {
		return histories(ctx, o.pairs, out)
	}
	if o.mode == "intervals" {
		return intervals(ctx, o.pairs, o.parallel, out)
	}
	dir := o.keep
	if dir == "" {
		temp, err := os.MkdirTemp("", "eventmeter-trust-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temp) }()
		dir = temp
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var record recorder
	switch o.mode {
	case "synthetic":
		record = synthetic{}
	case "duet":
		return duets(ctx, o, dir, out, log)
	case "clean":
		return runClean(ctx, o, dir, out, log)
	case "planted", "planted-load":
		return runPlanted(ctx, o, dir, o.mode == "planted-load", out, log)
	case "intervals-real":
		return realIntervals(ctx, o, dir, out, log)
	case "real":
		r, err := newReal(ctx, dir, log)
		if err != nil {
			return err
		}
		record = r
	default:
		return fmt.Errorf(
			"mode %q: write synthetic, real, duet, history, intervals, intervals-real, clean, planted or planted-load",
			o.mode,
		)
	}
	t, err := measure(ctx, o, dir, record, log)
	if o.mode == "real" {
		fmt.Fprintf(out, "%s, %s/%s, %d processors; runs of 4s, %d on each side, %d pairs at once; load average %s\n\n",
			time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.runs, o.parallel, t.loadRange())
	}
	return errors.Join(err, t.report(out))
}

// A recorder makes the archive of one run in dir. It is given the number of
// the run among all.
type recorder interface {
	record(ctx context.Context, dir string, number int, slow bool) error
}

// The three sides of a pair: the first is compared with each of the others.
const (
	sideA = iota
	sideEqual
	sideSlow
	sides
)

var sideNames = [sides]string{"a", "equal", "slow"}

// measure records and compares pairs until all are done or ctx is over; what
// ended early is not an error, but a pair that is not whole does not count.
func measure(ctx context.Context, o options, dir string, r recorder, log io.Writer) (*table, error) {
	t := &table{found: make([]int, len(figures)), least: []float64{leastFound, leastFound, 0}}
	var mu sync.Mutex // of t and log
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for pair := range o.pairs {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			at := filepath.Join(dir, fmt.Sprintf("%05d", pair))
			err := recordPair(ctx, o, at, pair, r)
			if ctx.Err() != nil {
				return nil // another pair failed, or time is over: this one does not count
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = t.add(at)
			}
			if err != nil {
				return fmt.Errorf("pair %d: %w", pair, err)
			}
			if o.mode == "real" {
				t.loads = append(t.loads, loadAverage())
				fmt.Fprintf(
					log,
					"pair %d of %d: %d called different, %v found; load average %s\n",
					t.pairs,
					o.pairs,
					t.different,
					t.found,
					t.loads[len(t.loads)-1],
				)
			}
			if o.keep == "" {
				return os.RemoveAll(at)
			}
			return nil
		})
	}
	err := g.Wait()
	if err == nil && t.pairs < o.pairs {
		fmt.Fprintf(log, "ended early after %d of %d pairs: %v\n", t.pairs, o.pairs, context.Cause(ctx))
	}
	return t, err
}

// recordPair interleaves the sides, and begins with another one each time, so
// that a machine that slows down over time does not favour one of them.
func recordPair(ctx context.Context, o options, dir string, pair int, r recorder) error {
	for k := range o.runs {
		for i := range sides {
			side := (i + pair + k) % sides
			number := (pair*o.runs+k)*sides + side
			if err := r.record(ctx, filepath.Join(dir, sideNames[side], fmt.Sprintf("%02d", k)), number, side == sideSlow); err != nil {
				return err
			}
		}
	}
	return nil
}

// add compares the sides of a recorded pair.
func (t *table) add(dir string) error {
	var loaded [sides]*stats.Side
	for i, name := range sideNames {
		s, err := stats.LoadSide([]string{filepath.Join(dir, name)})
		if err != nil {
			return err
		}
		loaded[i] = s
	}
	equal, err := stats.Compare(loaded[sideA], loaded[sideEqual], stats.CompareOptions{})
	if err != nil {
		return err
	}
	slow, err := stats.Compare(loaded[sideA], loaded[sideSlow], stats.CompareOptions{})
	if err != nil {
		return err
	}
	t.pairs++
	t.countEqual(changed(equal, stats.Better, stats.Worse))
	t.count(changed(slow, stats.Worse))
	return nil
}

// changed lists the figures of any lane with one of the findings.
func changed(c *stats.Comparison, findings ...stats.Finding) []string {
	var out []string
	add := func(cs []stats.Change) {
		for _, f := range cs {
			if slices.Contains(findings, f.Finding) && !slices.Contains(out, f.Figure) {
				out = append(out, f.Figure)
			}
		}
	}
	for _, l := range c.Lanes {
		add(l.Figures)
	}
	add(c.Run)
	return out
}
