package metrics

import (
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks"
)

// TestFiguresOfShards: what is no count is not added, and the least of two is
// not the nothing of one that has none.
func TestFiguresOfShards(t *testing.T) {
	by := slices.Concat(systems.FigureTables, figure.Tables{&sinks.ObservedFigures})
	a := Figures{Values: map[string]float64{"cuts": 2, "detachedMax": 3, "detachedMean": 1, "observedMost": 9, "observedLeast": 4}}
	b := Figures{Values: map[string]float64{"cuts": 5, "detachedMax": 2, "detachedMean": 2, "observedMost": 7, "observedLeast": 6}}
	want := map[string]float64{"cuts": 7, "detachedMax": 3, "detachedMean": 3, "observedMost": 9, "observedLeast": 4}
	for name, f := range map[string]Figures{
		"both": a.plus(b, by), "the other way round": b.plus(a, by),
		"and one without": Figures{}.plus(a, by).plus(b, by),
	} {
		for of, v := range want {
			if f.Values[of] != v {
				t.Errorf("%s: %s is %v, want %v", name, of, f.Values[of], v)
			}
		}
	}
}
