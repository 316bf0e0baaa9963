package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/stats/interval/truth"
	"github.com/eventmeter/eventmeter/results"
)

// leastCovered is the goal of the interval of a percentile: how often it covers the truth, at the
// least. It claims 95 %.
const leastCovered = 0.93

const intervalsHead = `| latencies | percentile | runs | covered | 95 %% of that | not carried | high/low | trends | deliveries as independent |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`

// intervalsPage opens the page of the study.
const intervalsPage = `# How often the interval of a percentile covers the truth

Written by ` + "`go run ./scripts/trust -mode intervals -pairs %d`" + `. Each line simulates so many runs whose true percentile is known, and counts those whose 95 %% interval covers it.
*Not carried* are runs that were said to have too few events for the percentile: their interval has no upper end, and covers everything above its lower end. *High/low* is the median
width of the others. *Trends* are runs whose latencies seem to drift, at a chance of one in 1,000, although they do not. The last column counts how often an interval covers the truth that takes
every delivery for independent, as most tools do.

`

const untilHead = `
## Runs that end when the interval is narrow

So does run --until: each run goes on until half of the width of the interval was at most the share *asked* of the percentile while the run became longer by a quarter, or until it is ten times as long as at the least. *Reached* are
runs that ended before that. *Length* is the median, as a share of the longest. *Covered* counts the runs, however they ended, whose interval covers the truth, and *one look* how many that were if a single look could end a run. *Within* are
those of the runs that reached it whose percentile is as near to the truth as was asked. There is no goal for these runs.

| latencies | percentile | asked | runs | reached | length | covered | 95 %% of that | one look | within |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`

// asked are the conditions of the runs that end when an interval is narrow.
var asked = []struct{ p, within float64 }{{0.5, 0.05}, {0.5, 0.15}, {0.9, 0.1}, {0.99, 0.1}}

// quantilesCovered are the percentiles of a result that have intervals.
var quantilesCovered = []float64{0.5, 0.9, 0.99, 0.999}

// intervals writes a page with how often intervals of simulated runs cover the truth. It returns
// errGoal when one does so too rarely.
func intervals(ctx context.Context, runs, parallel int, out io.Writer) error {
	all := make([][]truth.Coverage, len(truth.Models))
	stopped := make([][2][]truth.Stopped, len(truth.Models)) // with heldWhile, and with one look
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, m := range truth.Models {
		g.Go(func() error {
			all[i] = m.Measure(runs, quantilesCovered, 20261123)
			return ctx.Err()
		})
		g.Go(func() error {
			for _, a := range asked {
				for k, growth := range []float64{heldWhile, 1} {
					stopped[i][k] = append(stopped[i][k], m.Until(max(runs/untilShare, 1), growth, a.p, a.within, 20261123))
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(out, intervalsPage+intervalsHead, runs)
	missed := false
	for i, m := range truth.Models {
		for k, p := range quantilesCovered {
			missed = coverageRow(out, m.Name, p, all[i][k]) || missed
		}
	}
	fmt.Fprintf(out, untilHead)
	for i, m := range truth.Models {
		for k, a := range asked {
			untilRow(out, m.Name, a.p, a.within, stopped[i][0][k], stopped[i][1][k])
		}
	}
	fmt.Fprintln(out)
	for _, m := range truth.Models {
		fmt.Fprintf(out, "- `%s`: %s.\n", m.Name, m.About)
	}
	fmt.Fprintf(out, "\nThe goal is that at least %.0f %% of the runs are covered, as far as so many runs can tell.\n", 100*leastCovered)
	if missed {
		return errGoal
	}
	return nil
}

// untilShare is how many of the simulated runs are repeated with one that ends when the interval is
// narrow, which costs more.
const untilShare = 2

// heldWhile is how many times as long a run becomes while its interval must stay narrow, as in
// internal/run.
const heldWhile = 1.25

// untilRow prints a line.
func untilRow(out io.Writer, name string, p, within float64, held, one truth.Stopped) {
	lo, hi := wilson(held.Covered, held.Runs)
	fmt.Fprintf(
		out,
		"| %s | p%g | ±%g %% | %d | %s | %s | %s | %.1f–%.1f %% | %s | %s |\n",
		name,
		100*p,
		100*within,
		held.Runs,
		percent(held.Reached, held.Runs),
		percent(
			held.Spans,
			truth.MostSpans,
		),
		percent(held.Covered, held.Runs),
		100*lo,
		100*hi,
		percent(one.Covered, one.Runs),
		percent(held.Within, held.Reached),
	)
}

// percent writes a share of counts.
func percent(n, of int) string {
	if n < 0 || of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// coverageRow prints a line, and reports whether the goal was missed.
func coverageRow(out io.Writer, name string, p float64, c truth.Coverage) bool {
	lo, hi := wilson(c.Covered, c.Runs)
	width, mark := "–", ""
	if c.Width > 0 {
		width = fmt.Sprintf("%.2f", c.Width)
	}
	missed := hi < leastCovered
	if missed {
		mark = " MISSED"
	}
	share := func(n int) string { return percent(n, c.Runs) }
	fmt.Fprintf(
		out,
		"| %s | p%g | %d | %s%s | %.1f–%.1f %% | %s | %s | %s | %s |\n",
		name,
		100*p,
		c.Runs,
		share(c.Covered),
		mark,
		100*lo,
		100*hi,
		share(c.Open),
		width,
		share(c.Trends),
		share(c.Naive),
	)
	return missed
}

// knownProfile delays each event by a time that is uniform between 100 and 1,100 ms, the same for
// its three subscribers. An event waits for those of its source, so there are many sources.
const knownProfile = `name: known
lanes:
  - {name: push, mode: push, subscriptions: 3, event: chat.message}
upstream:
  sources: 400
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 200/s}
phases: {ready: 10s, warmup: 2s, measure: 15s, late: 10s, drain: 5s}
`

const knownDelay = "target.embedded.faults='delay(rate=1, uniform=100ms..1100ms, seed=%d)'"

// known is the true quantile p of the delays, in nanoseconds.
func known(p float64) float64 { return 100e6 + p*1000e6 }

// realIntervals makes runs of the program with a known delay, and counts how often the intervals of
// published → received cover it.
func realIntervals(ctx context.Context, o options, dir string, out, log io.Writer) error {
	a, err := newReal(ctx, dir, log)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.profile, []byte(knownProfile), 0o644); err != nil {
		return err
	}
	all, sound := make([]truth.Coverage, len(quantilesCovered)), make([]truth.Coverage, len(quantilesCovered))
	var mu sync.Mutex // of all, sound and log
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel)
	for n := range o.pairs {
		g.Go(func() error {
			at := filepath.Join(dir, fmt.Sprintf("%05d", n))
			if _, err := a.launch(
				ctx,
				at,
				"--profile",
				a.profile,
				"--set",
				fmt.Sprintf(knownDelay, n+1),
				"--set",
				fmt.Sprintf("schedule.seed=%d", n+1),
			); err != nil {
				return fmt.Errorf("run %d: %w", n, err)
			}
			r, err := results.Rebuild(at)
			if err != nil {
				return fmt.Errorf("run %d: %w", n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			covers(all, &r.Lanes[0].Latency)
			if !r.Generator.Bottleneck {
				covers(sound, &r.Lanes[0].Latency)
			}
			fmt.Fprintf(log, "run %d of %d: %s\n", all[0].Runs, o.pairs, strings.Join(r.Generator.Reasons, "; "))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(
		out,
		"%d runs of 15 seconds, 200 events a second to three subscribers, with a delay that is uniform from 100 to 1,100 ms. The delay is known; what a busy machine adds to it is not. So the goal is about the %d runs in which the generator was not the bottleneck.\n\n",
		o.pairs,
		sound[0].Runs,
	)
	fmt.Fprintf(out, intervalsHead)
	missed := false
	for k, p := range quantilesCovered {
		all[k].Naive, sound[k].Naive = -1, -1 // not measured
		coverageRow(out, "all runs, without a goal", p, all[k])
		if sound[k].Runs > 0 {
			missed = coverageRow(out, "not the bottleneck", p, sound[k]) || missed
		}
	}
	switch {
	case missed:
		return errGoal
	case sound[0].Runs == 0:
		return errors.New("the generator was the bottleneck in every run: repeat this on a machine that does nothing else")
	}
	return nil
}

// covers adds a run. What the target adds to the delay is part of the figure and not of the known
// value.
func covers(counts []truth.Coverage, l *results.Latency) {
	for k, name := range []string{"p50", "p90", "p99", "p999"} {
		in, c := l.Intervals["fromSent."+name], &counts[k]
		c.Runs++
		open := in.High == 0
		if float64(in.Low) <= known(quantilesCovered[k]) && (open || known(quantilesCovered[k]) <= float64(in.High)) {
			c.Covered++
		}
		if open {
			c.Open++
		}
		if in.First != 0 {
			c.Trends++
		}
	}
}
