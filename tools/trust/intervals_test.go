package trust

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventmeter/eventmeter/internal/stats/interval/truth"
	"github.com/eventmeter/eventmeter/results"
)

// leastCovered is the goal of the interval of a percentile: how often it covers the truth. It claims 95 %.
const leastCovered = 0.93

// The percentiles of a result that have intervals, and what a result calls them.
var (
	quantiles     = []float64{0.5, 0.9, 0.99, 0.999}
	quantileNames = []string{"p50", "p90", "p99", "p999"}
)

// asked are the conditions of runs that end when an interval is narrow.
var asked = []struct{ p, within float64 }{{0.5, 0.05}, {0.5, 0.15}, {0.9, 0.1}, {0.99, 0.1}}

// heldWhile is how many times as long a run becomes while its interval must stay narrow, as in a run with --until.
const heldWhile = 1.25

const (
	coverageHead = `| latencies | percentile | runs | covered | 95 % of that | not carried | high/low | trends | deliveries as independent |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`
	untilHead = `
| latencies | percentile | asked | runs | reached | length | covered | 95 % of that | one look | within |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`
)

// TestIntervals measures how often the intervals of simulated runs cover the truth, and those of runs that end when the
// interval is narrow. The second have no goal.
func TestIntervals(t *testing.T) {
	n := *samples
	if !*full {
		n = 2 // too few for the goal
	}
	covered, stopped := make([]string, len(truth.Models)), make([]string, len(truth.Models))
	const seed = 20261123
	var g errgroup.Group
	g.SetLimit(2)
	for i, m := range truth.Models {
		g.Go(func() error {
			for k, c := range m.Measure(n, quantiles, seed) {
				covered[i] += coverageRow(m.Name, quantiles[k], c)
			}
			return nil
		})
		g.Go(func() error {
			for _, a := range asked {
				held := m.Until(max(n/2, 1), heldWhile, a.p, a.within, seed)
				stopped[i] += untilRow(m.Name, a.p, a.within, held, m.Until(max(n/2, 1), 1, a.p, a.within, seed))
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	text := coverageHead + strings.Join(covered, "") + untilHead + strings.Join(stopped, "")
	if publish(t, "intervals.md", text); *full && strings.Contains(text, missed) {
		t.Errorf("fewer than %g of the intervals cover the truth", leastCovered)
	}
	if got, want := strings.Count(text, "| p"), len(truth.Models)*(len(quantiles)+len(asked))+2; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

// percent writes a share of counts; n < 0 was not measured.
func percent(n, of int) string {
	if n < 0 || of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// coverageRow is a row. missed is in it where even the upper end of the share's own interval is below the goal.
func coverageRow(name string, p float64, c truth.Coverage) string {
	low, high := wilson(c.Covered, c.Runs)
	share, width := percent(c.Covered, c.Runs), "–"
	if high < leastCovered {
		share += " " + missed
	}
	if c.Width > 0 {
		width = strconv.FormatFloat(c.Width, 'f', 2, 64)
	}
	return fmt.Sprintf("| %s | p%g | %d | %s | %.1f–%.1f %% | %s | %s | %s | %s |\n", name, 100*p, c.Runs, share,
		100*low, 100*high, percent(c.Open, c.Runs), width, percent(c.Trends, c.Runs), percent(c.Naive, c.Runs))
}

// untilRow is a row of the runs that end when the interval is narrow: with all looks, and with one.
func untilRow(name string, p, within float64, held, one truth.Stopped) string {
	low, high := wilson(held.Covered, held.Runs)
	return fmt.Sprintf("| %s | p%g | ±%g %% | %d | %s | %s | %s | %.1f–%.1f %% | %s | %s |\n", name, 100*p, 100*within, held.Runs,
		percent(held.Reached, held.Runs), percent(held.Spans, truth.MostSpans), percent(held.Covered, held.Runs),
		100*low, 100*high, percent(one.Covered, one.Runs), percent(held.Within, held.Reached))
}

// The delay of each event in TestRealIntervals is uniform between these.
const shortest, longest = 100 * time.Millisecond, 1100 * time.Millisecond

// TestRealIntervals makes runs with a known delay, and counts how often the intervals of published → received cover it.
// What a busy machine adds to the delay is not known, so the goal is for runs whose generator was not the bottleneck.
func TestRealIntervals(t *testing.T) {
	needsFull(t)
	// An event waits for the one before of its source, so there are many sources.
	p, profile := build(t), profileFile(t, 3, 400, "{ready: 10s, warmup: 2s, measure: 15s, late: 10s, drain: 5s}")
	all, sound := make([]truth.Coverage, len(quantiles)), make([]truth.Coverage, len(quantiles))
	var mu sync.Mutex // of all and sound
	eachPair(t, *samples, func(t *testing.T, n int) {
		dir, fault := t.TempDir(), delays(shortest, longest, n+1)
		p.run(t, dir, "--profile", profile, "--set", "target.embedded.faults='"+fault+"'", "--set", fmt.Sprintf("schedule.seed=%d", n+1))
		r, err := results.Rebuild(dir)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		covers(all, &r.Lanes[0].Latency)
		if !r.Generator.Bottleneck {
			covers(sound, &r.Lanes[0].Latency)
		}
		t.Logf("%d runs, %d of them not the bottleneck", all[0].Runs, sound[0].Runs)
	})
	if sound[0].Runs == 0 {
		t.Fatal("the generator was the bottleneck in every run: repeat this on a machine that does nothing else")
	}
	text, failed := conditions()+"\n\n"+coverageHead, false
	for k, p := range quantiles {
		all[k].Naive, sound[k].Naive = -1, -1
		judged := coverageRow("not the bottleneck", p, sound[k])
		failed = failed || strings.Contains(judged, missed)
		text += coverageRow("all runs, without a goal", p, all[k]) + judged
	}
	if publish(t, "real-intervals.md", text); failed {
		t.Errorf("fewer than %g of the intervals cover the truth", leastCovered)
	}
}

// covers adds a run. What the target adds to the delay is part of the figure, and not of the known value.
func covers(counts []truth.Coverage, l *results.Latency) {
	for k, p := range quantiles {
		in, c := l.Intervals["fromSent."+quantileNames[k]], &counts[k]
		known, open := float64(shortest)+p*float64(longest-shortest), in.High == 0
		c.Runs++
		if float64(in.Low) <= known && (open || known <= float64(in.High)) {
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

func TestCoverageRow(t *testing.T) {
	for covered, want := range map[int]bool{95: false, 90: false, 80: true} {
		if row := coverageRow("x", 0.5, truth.Coverage{Runs: 100, Covered: covered}); strings.Contains(row, missed) != want {
			t.Error(row)
		}
	}
}

// Of a uniform delay from 100 to 1,100 ms, half are over 600 ms.
func TestCovers(t *testing.T) {
	counts := make([]truth.Coverage, len(quantiles))
	covers(counts, &results.Latency{Intervals: map[string]results.Interval{
		"fromSent.p50":  {Low: 590e6, High: 610e6},
		"fromSent.p90":  {Low: 1001e6, High: 1010e6},
		"fromSent.p99":  {Low: 1085e6},
		"fromSent.p999": {Low: 1099.5e6, First: 1, Last: 2},
	}})
	for k, want := range []truth.Coverage{{Runs: 1, Covered: 1}, {Runs: 1}, {Runs: 1, Covered: 1, Open: 1}, {Runs: 1, Open: 1, Trends: 1}} {
		if counts[k] != want {
			t.Errorf("%v: %+v, want %+v", quantiles[k], counts[k], want)
		}
	}
}
