package stats

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// Equal sides are called different in at most 5 of 100 comparisons, and a
// change of 10 % is found in at least 95, whatever the runs are like.
func TestErrorRates(t *testing.T) {
	for name, tt := range map[string]struct {
		sim   sim
		runs  int
		pairs int
		// found is the share of +10 % that is found in the first 100 pairs; 0
		// where such runs cannot show it.
		found float64
	}{
		"one run each":             {defaultSim(), 1, 400, 0.95},
		"calm":                     {sim{intervals: 20, samples: 600, factor: 1}, 1, 60, 0.95},
		"neighbours are alike":     {sim{intervals: 60, samples: 300, factor: 1, wobble: 0.03, memory: 0.6}, 1, 100, 0},
		"few intervals":            {sim{intervals: 6, samples: 600, factor: 1, wobble: 0.02}, 1, 100, 0},
		"losses and duplicates":    {sim{intervals: 20, samples: 600, factor: 1, wobble: 0.02, lost: 40, duplicates: 40}, 1, 60, 0.95},
		"three runs that differ":   {sim{intervals: 10, samples: 300, factor: 1, wobble: 0.02, between: 0.05}, 3, 60, 0},
		"three runs":               {sim{intervals: 10, samples: 300, factor: 1, wobble: 0.02, between: 0.005}, 3, 40, 0.9},
		"four runs that differ":    {sim{intervals: 8, samples: 300, factor: 1, wobble: 0.02, between: 0.05}, 4, 100, 0},
		"seven runs by their rank": {sim{intervals: 6, samples: 300, factor: 1, wobble: 0.02, between: 0.02}, 7, 40, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs := tt.pairs
			if testing.Short() || underRace {
				pairs = min(pairs/10, 16)
			}
			wrong, found, slower := 0, 0, 0
			tt.sim.onlyIntended = true
			slow := tt.sim
			slow.factor *= 1.1
			for i := range pairs {
				a, b := tt.sim.side(seeds(i, 0, tt.runs)...), tt.sim.side(seeds(i, 1, tt.runs)...)
				c, err := Compare(a, b, CompareOptions{Resamples: 200})
				if err != nil {
					t.Fatal(err)
				}
				if ch := c.changed(); ch != nil {
					wrong++
					t.Logf("pair %d: equal runs were called different in %v", i, ch)
				}
				if tt.found == 0 || i >= 100 {
					continue
				}
				slower++
				c, err = Compare(a, slow.side(seeds(i, 2, tt.runs)...), CompareOptions{Resamples: 200})
				if err != nil {
					t.Fatal(err)
				}
				if ch := c.changed(); slices.Contains(ch, "push.latency.fromIntended.p50") &&
					slices.Contains(ch, "push.latency.fromIntended.p90") {
					found++
				}
			}
			t.Logf("%d of %d equal pairs called different, %d of %d slower ones found", wrong, pairs, found, slower)
			if wrong > mostWrong(pairs) {
				t.Errorf("%d of %d equal pairs were called different", wrong, pairs)
			}
			if float64(found) < tt.found*float64(slower) {
				t.Errorf("%d of %d changes of 10 %% were found", found, slower)
			}
		})
	}
}

// TestIntervalsOfCorrelatedRuns: intervals of runs whose neighbouring intervals are very alike hold the effect in nine of
// ten pairs, and miss it as often on each side: of 400, 17 were too low and 21 too high. With a memory of 0.5, 11 and 9 were.
func TestIntervalsOfCorrelatedRuns(t *testing.T) {
	const pairs = 60
	s := sim{intervals: 60, samples: 100, factor: 1, wobble: 0.1, memory: 0.8, onlyIntended: true}
	low, high := 0, 0
	for i := range pairs {
		var of [2][][]results.LogInterval
		for side := range of {
			of[side] = [][]results.LogInterval{s.run(seeds(i, side, 1)[0]).Logs["push"].Of(results.TagIntended)}
		}
		// The bounds of the interval do not depend on the permutations.
		p50 := newPool(of[0], of[1]).intervalEstimates([2][]quantileValues{}, 1, 200, rand.New(rand.NewPCG(uint64(i), 1)))[0]
		if p50.high < 0 {
			low++
		}
		if p50.low > 0 {
			high++
		}
	}
	t.Logf("of %d, %d are too low and %d too high", pairs, low, high)
	if most := pairs / 10; low > most || high > most {
		t.Errorf("of %d intervals, %d are too low and %d too high, and %d may be", pairs, low, high, most)
	}
}

// mostWrong is 5 of 100 where there are pairs enough to tell; of fewer, a count
// that true rates of 5 of 100 exceed in one of 200 cases.
func mostWrong(pairs int) int {
	if pairs >= 400 {
		return pairs / 20
	}
	k := 0
	for {
		if lower, _ := binomialTails(float64(k), float64(pairs), 0.05); lower >= 0.995 {
			return k
		}
		k++
	}
}

func seeds(pair, side, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(1 + pair*100 + side*20 + i)
	}
	return out
}
