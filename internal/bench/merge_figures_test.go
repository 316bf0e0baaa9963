package bench

import (
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestMergeFigures(t *testing.T) {
	t.Parallel()
	a := map[string]float64{"cuts": 3, "avoidedShare": 0.5, "fetchesAvoided": 5, "pageReads": 10, "bytesPerClientHour": 100, "clientHours": 1, "ttlMs": 500, "observedLeast": 4, "observedMost": 9, "detachedMax": 7}
	b := map[string]float64{"cuts": 4, "avoidedShare": 1, "fetchesAvoided": 30, "pageReads": 30, "bytesPerClientHour": 200, "clientHours": 3, "ttlMs": 500, "observedLeast": 5, "observedMost": 6, "detachedMax": 5}
	got, most := mergeFigures([]results.PartFigures{{Values: a}, {Values: b}})
	want := map[string]float64{"cuts": 7, "avoidedShare": 0.875, "fetchesAvoided": 35, "pageReads": 40, "bytesPerClientHour": 175, "clientHours": 4, "ttlMs": 500, "observedLeast": 4, "observedMost": 9, "detachedMax": 7}
	for name, v := range want {
		if got.Values[name] != v {
			t.Errorf("%s: %v, want %v", name, got.Values[name], v)
		}
	}
	if len(got.Values) != len(want) || !slices.Equal(most, []string{"detachedMax"}) {
		t.Errorf("%v, most %v", got.Values, most)
	}
}
