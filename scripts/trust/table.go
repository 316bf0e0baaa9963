package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

var errGoal = errors.New("a goal was missed")

type options struct {
	pairs, runs int
	parallel    int
	mode, keep  string
	only        string
	timeout     time.Duration
	busy        int
	measure     time.Duration
}

// figures are those in which the change is looked for. The tail of a run of seconds is
// made by what else the machine did, so that runs one after the other have no goal for
// p99.
var figures = []string{"latency.fromIntended.p50", "latency.fromIntended.p90", "latency.fromIntended.p99"}

// The goals, as shares of the pairs.
const (
	mostDifferent = 0.05
	leastFound    = 0.95
)

// table counts verdicts.
type table struct {
	pairs, different int
	found            []int     // by figure
	least            []float64 // the share of the pairs in which it must be found, by figure; 0 = no goal
	blamed           map[string]int
	loads            []string // load averages of the last minute, at the end of each pair or duet
}

// loadRange says how busy the machine was; with synthetic archives nobody asked.
func (t *table) loadRange() string {
	if len(t.loads) == 0 {
		return "unknown"
	}
	return slices.MinFunc(t.loads, byNumber) + " to " + slices.MaxFunc(t.loads, byNumber)
}

func (t *table) blame(figure string) {
	if t.blamed == nil {
		t.blamed = map[string]int{}
	}
	t.blamed[figure]++
}

// countEqual counts the figures in which equal targets are called different.
func (t *table) countEqual(names []string) {
	if len(names) > 0 {
		t.different++
	}
	for _, n := range names {
		t.blame(n)
	}
}

// count counts the figures in which a slower target is found.
func (t *table) count(worse []string) {
	for i, f := range figures {
		if slices.Contains(worse, f) {
			t.found[i]++
		}
	}
}

// report prints the table, and returns errGoal if a goal is missed.
func (t *table) report(w io.Writer) error {
	if t.pairs == 0 {
		return nil
	}
	if t.print(w); t.missed() {
		return errGoal
	}
	return nil
}

func (t *table) missed() bool {
	n := float64(t.pairs)
	bad := float64(t.different) > mostDifferent*n
	for i, f := range t.found {
		bad = bad || float64(f) < t.least[i]*n
	}
	return bad
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "%-42s %6s %6s   %-18s %s\n", "", "pairs", "count", "rate, 95 %", "goal")
	line := func(what string, count int, goal string, met bool) {
		lo, hi := wilson(count, t.pairs)
		verdict := "met"
		if !met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%-42s %6d %6d   %5.1f %% to %5.1f %%  %s %s\n", what, t.pairs, count, 100*lo, 100*hi, goal, verdict)
	}
	n := float64(t.pairs)
	line("equal runs called different", t.different, "≤  5 %", float64(t.different) <= mostDifferent*n)
	for _, f := range slices.Sorted(maps.Keys(t.blamed)) {
		fmt.Fprintf(w, "  in %-37s %6s %6d\n", f, "", t.blamed[f])
	}
	for i, f := range figures {
		if t.least[i] == 0 {
			lo, hi := wilson(t.found[i], t.pairs)
			fmt.Fprintf(w, "%-42s %6d %6d   %5.1f %% to %5.1f %%\n", "+10 % found in "+f, t.pairs, t.found[i], 100*lo, 100*hi)
			continue
		}
		line("+10 % found in "+f, t.found[i], fmt.Sprintf("≥ %2.0f %%", 100*t.least[i]), float64(t.found[i]) >= t.least[i]*n)
	}
}

// wilson is E. B. Wilson's 95 % confidence interval of a share of which k of n
// were seen.
func wilson(k, n int) (lo, hi float64) {
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, centre-half), min(1, centre+half)
}
