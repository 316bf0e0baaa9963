package metrics

import "testing"

// TestFiguresOfShards: what is no count is not added, and the least of two is
// not the nothing of one that has none.
func TestFiguresOfShards(t *testing.T) {
	a := Figures{Values: map[string]float64{"cuts": 2, "detachedMax": 3, "detachedMean": 1, "observedMost": 9, "observedLeast": 4}}
	b := Figures{Values: map[string]float64{"cuts": 5, "detachedMax": 2, "detachedMean": 2, "observedMost": 7, "observedLeast": 6}}
	want := map[string]float64{"cuts": 7, "detachedMax": 3, "detachedMean": 3, "observedMost": 9, "observedLeast": 4}
	for name, f := range map[string]Figures{"both": a.plus(b), "the other way round": b.plus(a), "and one without": Figures{}.plus(a).plus(b)} {
		for figure, v := range want {
			if f.Values[figure] != v {
				t.Errorf("%s: %s is %v, want %v", name, figure, f.Values[figure], v)
			}
		}
	}
}
