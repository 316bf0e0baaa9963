package trust

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/shirou/gopsutil/v4/load"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// figures are those in which a change of 10 % is looked for.
var figures = [3]string{"latency.fromIntended.p50", "latency.fromIntended.p90", "latency.fromIntended.p99"}

// mostDifferent is the goal for equal sides: the share of pairs that may be called different.
const mostDifferent = 0.05

// table counts the findings of pairs: of equal sides, and of sides of which the second is slower. Its methods are safe
// for concurrent use.
type table struct {
	mu               sync.Mutex
	pairs, different int
	blamed           map[string]int // equal pairs, by figure called different
	found            [3]int         // slower sides found, by figure
	least            [3]float64     // goal of found, as a share of the pairs; 0 = none
	loads            []float64      // load average at the end of each pair
}

// add counts the comparison of two equal sides and that of a slower one.
func (x *table) add(t *testing.T, equal, slow *stats.Comparison) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pairs++
	called := changed(equal, stats.Better, stats.Worse)
	if len(called) > 0 {
		x.different++
	}
	if x.blamed == nil {
		x.blamed = map[string]int{}
	}
	for _, f := range called {
		x.blamed[f]++
	}
	worse := changed(slow, stats.Worse)
	for i, f := range figures {
		if slices.Contains(worse, f) {
			x.found[i]++
		}
	}
	if now, err := load.Avg(); err == nil {
		x.loads = append(x.loads, now.Load1)
	}
	t.Logf("%d pairs: %d called different, %v found", x.pairs, x.different, x.found)
}

// changed lists the figures of any lane or the run with one of the findings.
func changed(c *stats.Comparison, findings ...stats.Finding) []string {
	all := slices.Clone(c.Run)
	for _, l := range c.Lanes {
		all = append(all, l.Figures...)
	}
	names := map[string]bool{}
	for _, f := range all {
		if slices.Contains(findings, f.Finding) {
			names[f.Figure] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// String is the table. missed is in it where a goal is missed.
func (x *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s %6s %6s   %-18s %s\n", "", "pairs", "count", "rate, 95 %", "goal")
	n := float64(x.pairs)
	line := func(what string, count int, goal string, met bool) {
		low, high := wilson(count, x.pairs)
		switch {
		case goal != "" && met:
			goal = "  " + goal + " met"
		case goal != "":
			goal = "  " + goal + " " + missed
		}
		fmt.Fprintf(&b, "%-42s %6d %6d   %5.1f %% to %5.1f %%%s\n", what, x.pairs, count, 100*low, 100*high, goal)
	}
	line("equal runs called different", x.different, fmt.Sprintf("≤ %2.0f %%", 100*mostDifferent), float64(x.different) <= mostDifferent*n)
	for _, f := range slices.Sorted(maps.Keys(x.blamed)) {
		fmt.Fprintf(&b, "  in %-37s %6s %6d\n", f, "", x.blamed[f])
	}
	for i, f := range figures {
		goal := ""
		if x.least[i] > 0 {
			goal = fmt.Sprintf("≥ %2.0f %%", 100*x.least[i])
		}
		line("+10 % found in "+f, x.found[i], goal, float64(x.found[i]) >= x.least[i]*n)
	}
	return b.String()
}

const missed = "MISSED"

// publish shows the table below a line on how it was measured, and judges it.
func (x *table) publish(t *testing.T, name, how string) {
	t.Helper()
	if x.pairs == 0 {
		t.Fatal("no pair was measured")
	}
	text := fmt.Sprintf("%s; %s\n\n%v", conditions(), how, x)
	if len(x.loads) > 0 {
		text = fmt.Sprintf("%s; %s; load average %.2f to %.2f\n\n%v", conditions(), how, slices.Min(x.loads), slices.Max(x.loads), x)
	}
	if publish(t, name, text); *full && strings.Contains(text, missed) {
		t.Error("a goal is missed")
	}
}

// eachPair calls f for so many pairs, of which -parallel are measured at once.
func eachPair(t *testing.T, n int, f func(t *testing.T, pair int)) {
	t.Run("pairs", func(t *testing.T) {
		for pair := range n {
			t.Run(strconv.Itoa(pair), func(t *testing.T) {
				t.Parallel()
				f(t, pair)
			})
		}
	})
}

// comparePairs records three sides for each pair: two that are equal, and one that is slower. Each pair begins with
// another side, so that a machine that slows down favours none. record is given the number of its run among all.
func comparePairs(t *testing.T, n int, record func(t *testing.T, dir string, number int, slow bool)) *table {
	x := &table{least: [3]float64{0.95, 0.95, 0}}
	eachPair(t, n, func(t *testing.T, pair int) {
		const sides, slow = 3, 2
		dir := t.TempDir()
		for i := range sides {
			side := (i + pair) % sides
			record(t, filepath.Join(dir, strconv.Itoa(side)), pair*sides+side, side == slow)
		}
		var loaded [sides]*stats.Side
		var errs [sides + 2]error
		for i := range loaded {
			loaded[i], errs[i] = stats.LoadSide([]string{filepath.Join(dir, strconv.Itoa(i))})
		}
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		same, err := stats.Compare(loaded[0], loaded[1], stats.CompareOptions{})
		other, err2 := stats.Compare(loaded[0], loaded[slow], stats.CompareOptions{})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		x.add(t, same, other)
	})
	return x
}

// TestComparisons measures how often comparisons of synthetic archives are wrong.
func TestComparisons(t *testing.T) {
	n := *samples
	if !*full {
		n = 2 // too few for the goals
	}
	comparePairs(t, n, synthetic).publish(t, "comparisons.txt", "synthetic archives of 20 s")
}

// synthetic saves an archive like that of a run of 20 seconds: one lane, 600 deliveries a second with log-normal latency
// around 50 ms, and a factor for each second that resembles the one before, as on a shared machine.
func synthetic(t *testing.T, dir string, number int, slow bool) {
	const seconds, perSecond = 20, 600
	const spread = 0.3               // standard deviation of the logarithm of a latency
	const wobble, memory = 0.02, 0.2 // of the factor of a second; memory is its correlation with the last one
	typical := float64(50 * time.Millisecond)
	if slow {
		typical *= 1.10
	}
	rng := rand.New(rand.NewPCG(uint64(number), 20261121))
	lane := ledger.LaneAccount{
		Name: "push", System: "events", Mode: eventmeter.Mode("push"), Subscriptions: 10, SubscriptionHours: 10 * seconds / 3600.0,
	}
	const lowest, highest = int64(time.Microsecond), int64(10 * time.Minute)
	all := hdrhistogram.New(lowest, highest, 3)
	var err error
	factor := 0.0
	for i := range seconds {
		factor = memory*factor + math.Sqrt(1-memory*memory)*wobble*rng.NormFloat64()
		intended, sent := hdrhistogram.NewPacked(lowest, highest, 3), hdrhistogram.NewPacked(lowest, highest, 3)
		for range perSecond {
			v := int64(typical * math.Exp(factor+spread*rng.NormFloat64()))
			err = errors.Join(err, intended.RecordValue(v), sent.RecordValue(v), all.RecordValue(v))
		}
		second := ledger.LaneInterval{Number: int64(i), Delivered: perSecond, FromIntended: intended, FromSent: sent}
		lane.Series = append(lane.Series, second)
	}
	lane.Delivered, lane.Expected, lane.Received = seconds*perSecond, seconds*perSecond, seconds*perSecond
	lane.Measured = ledger.Window{WindowCounts: ledger.WindowCounts{Received: seconds * perSecond, Active: 10 * seconds * time.Second}}
	l := results.NewLane(&lane)
	q := results.SummariseNanos(all)
	l.Latency = results.Latency{FromIntended: q, FromSent: q}
	started := time.Unix(1_700_000_000+int64(number)*60, 0).UTC()
	r := &results.Result{
		Schema: results.Schema, Version: "synthetic", Run: fmt.Sprintf("%08x", number), Profile: []byte(`{"name":"synthetic"}`),
		Started: started, Finished: started.Add(seconds * time.Second), Lanes: []results.Lane{l},
	}
	account := ledger.Account{Interval: time.Second, Lanes: []ledger.LaneAccount{lane}}
	if err := errors.Join(err, results.Save(dir, r, []ledger.Account{account})); err != nil {
		t.Fatal(err)
	}
}

const shortPhases = "{ready: 10s, warmup: 500ms, measure: 4s, drain: 3s}"

// TestRealComparisons does so with runs of 4 s. Their p99 has no goal: what else a machine does in seconds makes it.
func TestRealComparisons(t *testing.T) {
	needsFull(t)
	p, profile := build(t), profileFile(t, 5, 10, shortPhases)
	comparePairs(t, *samples, func(t *testing.T, dir string, number int, slow bool) {
		// Equal delays need different seeds, or equal runs would be the very same.
		fault := delays(40*time.Millisecond, 60*time.Millisecond, number+1)
		if slow {
			fault = delays(44*time.Millisecond, 66*time.Millisecond, number+1)
		}
		p.run(t, dir, "--profile", profile, "--set", "target.embedded.faults='"+fault+"'", "--set", fmt.Sprintf("schedule.seed=%d", number+1))
	}).publish(t, "real-comparisons.txt", "runs of 4 s")
}

// duets measures two targets at once. A busy machine raises p99 far above the targets' own delay, so that the slower one
// adds 10 % of the p99 that was measured of late.
type duets struct {
	program
	profile string
	mu      sync.Mutex
	bases   []time.Duration // p99 of the first targets
}

// TestDuets measures how often a duet is wrong, also on a busy machine.
func TestDuets(t *testing.T) {
	needsFull(t)
	d := &duets{program: build(t), profile: profileFile(t, 5, 10, strings.Replace(shortPhases, "4s", "20s", 1))}
	defer keepBusy(*busy)()
	t.Run("base", func(t *testing.T) {
		eachPair(t, 4, func(t *testing.T, n int) { d.measure(t, 2*(*samples+n), 0) })
	})
	x := &table{least: [3]float64{0, 0, 0.90}}
	eachPair(t, *samples, func(t *testing.T, pair int) {
		equal := func() *stats.Comparison { return d.measure(t, 2*pair, 0) }
		slow := func() *stats.Comparison { return d.measure(t, 2*pair+1, d.base()/10) }
		if pair%2 == 0 {
			e := equal()
			x.add(t, e, slow())
		} else { // a machine that becomes busier does so for both kinds
			s := slow()
			x.add(t, equal(), s)
		}
	})
	slices.Sort(d.bases)
	n := len(d.bases)
	x.publish(t, "duets.txt", fmt.Sprintf("20 s measured, %d threads that compute; p99 of the base %v to %v, median %v",
		*busy, d.bases[0], d.bases[n-1], d.bases[n/2]))
}

// base is the median of the last nine p99: that of a duet varies.
func (d *duets) base() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := slices.Sorted(slices.Values(d.bases[max(0, len(d.bases)-9):]))
	return last[len(last)/2]
}

// measure runs a duet, of which the second target is slower by so much. Each target is a process.
func (d *duets) measure(t *testing.T, number int, by time.Duration) *stats.Comparison {
	dir := t.TempDir()
	args := []string{"--profile", d.profile, "--set", fmt.Sprintf("schedule.seed=%d", number+1), "--token", "a-token-of-trust"}
	for i, extra := range []time.Duration{0, by} {
		fault := delays(40*time.Millisecond+extra, 60*time.Millisecond+extra, 2*number+i+1)
		server, err := embedded.Start(t.Context(), embedded.Options{}, string(d.program), "serve", "--options", "-", "--faults", fault)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		flags := [][2]string{{"--target", "--upstream-url"}, {"--against", "--against-upstream-url"}}[i]
		args = append(args, flags[0], server.Ready().URL, flags[1], server.Ready().Admin)
	}
	d.run(t, dir, args...)
	c := new(stats.Comparison)
	readJSON(t, filepath.Join(dir, "comparison.json"), c)
	for _, l := range c.Lanes {
		for _, f := range l.Figures {
			if f.Figure == figures[2] && f.A != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.bases = append(d.bases, time.Duration(*f.A).Round(time.Millisecond))
				return c
			}
		}
	}
	t.Fatal("the comparison has no p99")
	return nil
}

// keepBusy starts threads that compute until the function that it returns is called.
func keepBusy(threads int) (end func()) {
	before := runtime.GOMAXPROCS(runtime.NumCPU() + threads)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for x := uint64(1); ; x = x*6364136223846793005 + 1 {
				if x>>44 == 0 {
					select {
					case <-done:
						return
					default:
					}
				}
			}
		})
	}
	return func() {
		close(done)
		all.Wait()
		runtime.GOMAXPROCS(before)
	}
}

func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		different, found int
		missed           bool
	}{{5, 95, false}, {6, 95, true}, {5, 94, true}, {0, 100, false}} {
		x := &table{pairs: 100, different: tt.different, found: [3]int{100, tt.found}, least: [3]float64{0.95, 0.95}}
		if text := x.String(); strings.Contains(text, missed) != tt.missed {
			t.Errorf("%+v:\n%s", tt, text)
		}
	}
}
