package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Values from tables and by hand.
func TestDistributions(t *testing.T) {
	// P(X <= 2), P(X >= 2) of 5 fair coins: 16/32 and 26/32.
	lower, upper := binomialTails(2, 5, 0.5)
	near(t, "lower tail", lower, 16./32, 1e-9)
	near(t, "upper tail", upper, 26./32, 1e-9)
	lower, upper = binomialTails(5, 5, 0.5)
	near(t, "lower tail, all", lower, 1, 0)
	near(t, "upper tail, all", upper, 1./32, 1e-9)
	lower, upper = binomialTails(0, 5, 0.5)
	near(t, "lower tail, none", lower, 1./32, 1e-9)
	near(t, "upper tail, none", upper, 1, 0)
	lo, hi := poissonBounds(0, 0.95)
	near(t, "Garwood of 0, low", lo, 0, 0)
	near(t, "Garwood of 0, high", hi, 3.6889, 1e-4)
	lo, hi = poissonBounds(10, 0.95)
	near(t, "Garwood of 10, low", lo, 4.7954, 1e-4)
	near(t, "Garwood of 10, high", hi, 18.3904, 1e-4)
	near(t, "10 choose 5", choose(10, 5), 252, 1e-9)
	near(t, "median of even", median([]float64{1, 2, 4, 9}), 3, 0)
	near(t, "quantile", quantileOf([]float64{0, 10, 20}, 0.75), 15, 0)
	// Of five units: Student's 2.77645 with 4 degrees of freedom times the root of 5/4 is 3.10416 normal deviations.
	lo, hi = percentiles([]float64{0, 1}, 5, 0.95)
	near(t, "expanded percentile, low", lo, 0.00095408, 1e-7)
	near(t, "expanded percentile, high", hi, 1-0.00095408, 1e-7)
}

// The example of Holm's paper in small: 0.01, 0.04, 0.03, 0.005 become
// 0.03, 0.06, 0.06, 0.02.
func TestHolm(t *testing.T) {
	got := holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	if got := holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("large p-values: %v", got)
	}
}

func TestTestable(t *testing.T) {
	for _, tt := range []struct {
		least []float64
		want  []bool
	}{
		{nil, []bool{}},
		{[]float64{0.001, 0.5, 1}, []bool{true, false, false}},
		// 0.02 passes beside one other, 0.03 does not.
		{[]float64{0.001, 0.02}, []bool{true, true}},
		{[]float64{0.001, 0.03}, []bool{true, false}},
		{[]float64{0, 0, 0}, []bool{true, true, true}},
	} {
		if got := testable(tt.least, 0.05); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.least, got, tt.want)
		}
	}
}

func TestTTests(t *testing.T) {
	// Means 2 and 5, variances 1 and 1: t = 3/sqrt(2/3) = 3.6742, 4 df.
	a, b := []float64{1, 2, 3}, []float64{4, 5, 6}
	for name, r := range map[string]tResult{"pooled": pooled(a, b), "welch": welch(a, b)} {
		near(t, name+" diff", r.diff, 3, 1e-12)
		near(t, name+" noise", r.noise, math.Sqrt(2./3), 1e-12)
		near(t, name+" df", r.df, 4, 1e-9)
		near(t, name+" p", r.p, 0.02131, 1e-5)
	}
	near(t, "one against three", pooled([]float64{5}, a).df, 2, 0)
	near(t, "no noise, no difference", welch([]float64{1, 1}, []float64{1, 1}).p, 1, 0)
	near(t, "no noise, a difference", welch([]float64{1, 1}, []float64{2, 2}).p, 0, 0)
}

func TestRunEstimate(t *testing.T) {
	a := []float64{100, 101, 102, 103, 104, 105}
	b := []float64{110, 111, 112, 113, 114, 115}
	e := runEstimate(a, b, true)
	near(t, "p of the U test", e.p, 2./924, 1e-9)
	near(t, "effect", e.effect, 112.5/102.5-1, 1e-12)
	// 36 ratios; 6 against 6 leaves out U <= 5, so the 6th at each end.
	var ratios []float64
	for _, x := range a {
		for _, y := range b {
			ratios = append(ratios, y/x-1)
		}
	}
	slices.Sort(ratios)
	near(t, "low", e.low, ratios[5], 1e-9)
	near(t, "high", e.high, ratios[30], 1e-9)
	if e := runEstimate([]float64{0, 0, 0, 0}, []float64{1, 2, 3, 4}, false); !e.absolute || e.effect != 2.5 {
		t.Errorf("from nothing: %+v", e)
	}
	if e := runEstimate([]float64{0, 1, 1, 1}, []float64{2, 2, 2, 2}, false); e.absolute || e.effect != 1 {
		t.Errorf("a run without: %+v", e)
	}
}

func TestCountEstimate(t *testing.T) {
	one := func(count, whole float64) []tallied { return []tallied{{count, whole, count}} }
	// 1 against 9 of as many: twice P(X >= 9 of 10) = 22/1024.
	e := countEstimate(one(1, 1000), one(9, 1000), 0.05)
	near(t, "p", e.p, 22./1024, 1e-9)
	near(t, "effect", e.effect, 8, 1e-9)
	// Clopper-Pearson of 9 in 10: 0.55498 to 0.99747.
	near(t, "low", e.low, 0.55498/0.44502-1, 1e-3)
	near(t, "high", e.high, 0.99747/0.00253-1, 2)
	e = countEstimate(one(0, 1000), one(6, 1000), 0.05)
	near(t, "p from 0", e.p, 2./64, 1e-9)
	if !e.absolute || e.effect != 0.006 || e.low < 0 || e.high < 0.012 {
		t.Errorf("from 0: %+v", e)
	}
	// 6 of 6 are the fewest that pass; a mean of 7.906 shows them with 0.8.
	near(t, "detectable", e.detectable*1000, 7.906, 1e-2)
	near(t, "none", countEstimate(one(0, 5), one(0, 5), 0.05).p, 1, 0)
	// The same out of a quarter: four times the ratio, with bounds four times as high.
	e = countEstimate(one(1, 1000), one(9, 250), 0.05)
	near(t, "effect of other wholes", e.effect, 35, 1e-9)
	near(t, "low of other wholes", e.low, 4*0.55498/0.44502-1, 4e-3)
	near(t, "high of other wholes", e.high, 4*0.99747/0.00253-1, 8)
	// The same counts in clusters of 3 say as little as a third of them.
	e = countEstimate([]tallied{{3, 1000, 1}}, []tallied{{27, 1000, 9}}, 0.05)
	near(t, "p of clusters", e.p, 22./1024, 1e-9)
	near(t, "effect of clusters", e.effect, 8, 1e-9)
	// Runs of a side that differ more than counts do make them count less.
	_, _, size := thin([]tallied{{10, 100, 10}, {30, 100, 30}}, []tallied{{20, 100, 20}, {20, 100, 20}})
	near(t, "spread", size, 5, 1e-9)
}

func TestClusters(t *testing.T) {
	miss := func(sub, source int, from, to int64) results.Example {
		return results.Example{Kind: "lost", Subscription: sub, Source: source, FromSeq: from, ToSeq: to}
	}
	for name, tt := range map[string]struct {
		examples []results.Example
		n, want  float64
	}{
		"no examples":             {nil, 7, 7},
		"another kind":            {[]results.Example{{Kind: "announced loss"}}, 7, 7},
		"each on its own":         {[]results.Example{miss(1, 0, 1, 1), miss(2, 0, 5, 5)}, 2, 2},
		"one emission":            {[]results.Example{miss(1, 0, 5, 5), miss(2, 0, 5, 5), miss(3, 0, 5, 5)}, 3, 1},
		"neighbours":              {[]results.Example{miss(1, 0, 5, 7), miss(1, 0, 8, 8)}, 2, 1},
		"half of them are shared": {[]results.Example{miss(1, 0, 1, 1), miss(2, 0, 1, 1), miss(3, 0, 9, 9), miss(4, 0, 9, 9)}, 100, 50},
	} {
		near(t, name, clustersOf(tt.examples, "lost", tt.n), tt.want, 1e-9)
	}
}

// Quantiles of any choice of units are those of all their samples together.
func TestPoolQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	run := defaultSim().run(5).Logs["push"].Of(results.TagSent)
	p := newPool([][]results.LogInterval{run[:9]}, [][]results.LogInterval{run[9:]})
	for range 50 {
		var units []int32
		var all []results.Bucket
		for range 1 + rng.IntN(20) {
			u := rng.IntN(len(run))
			units = append(units, int32(u))
			all = append(all, run[u].Buckets...)
		}
		merged := addUp(all)
		got := p.quantiles(units)
		for i, q := range quantilesCompared {
			if want := valueAt(merged, q); got[i] != float64(want) {
				t.Fatalf("quantile %v of %v is %v, want %v", q, units, got[i], want)
			}
		}
	}
	if got := p.quantiles(nil); got != (quantileValues{}) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestGrouped(t *testing.T) {
	run := make([]results.LogInterval, 1000)
	groups := grouped(run)
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	if len(groups) != maxUnits || n != 1000 || len(grouped(nil)) != 0 || len(grouped(run[:3])) != 3 {
		t.Errorf("%d groups of %d", len(groups), n)
	}
}

func TestQuantileOf(t *testing.T) {
	for p, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.75: 6, 0.875: 7.5, 1: 9} {
		if got := quantileOf([]float64{1, 2, 3, 6, 9}, p); got != want {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	if got := quantileOf([]float64{4}, 0.5); got != 4 {
		t.Errorf("of one value: %v", got)
	}
}

// TestTallies: what was not counted came in no cluster, and requested copies are no duplicates.
func TestTallies(t *testing.T) {
	l := &results.Lane{Delivered: 50, Ready: results.Ready{Active: 4}}
	if got, want := duplicatesOf(l), (tallied{whole: 50}); got != want {
		t.Errorf("no duplicates: %+v, want %+v", got, want)
	}
	l.Duplicates = results.Duplicates{SameEvent: 2, SameEmission: 1, Requested: 9}
	if got, want := duplicatesOf(l), (tallied{count: 3, whole: 50, clusters: 3}); got != want {
		t.Errorf("duplicates: %+v, want %+v", got, want)
	}
	l.Late = 20
	for _, n := range results.LaneCounts {
		want := tallied{whole: float64(n.Of(l))}
		if n.Name == "late" {
			want = tallied{20, 50, 5} // 20 at 4 subscriptions
		}
		if n.Per == "delivered" && tally(l, n) != want {
			t.Errorf("%s: %+v, want %+v", n.Name, tally(l, n), want)
		}
	}
}
