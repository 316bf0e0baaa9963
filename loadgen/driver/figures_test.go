package driver

import (
	"testing"
	"time"
)

// TestTookAtItsBounds: a duration at a bound is within it, one beyond is counted as such, too.
func TestTookAtItsBounds(t *testing.T) {
	for _, c := range []struct {
		took         time.Duration
		below, above int64
	}{
		{time.Microsecond - 1, 1, 0},
		{time.Microsecond, 0, 0},
		{10 * time.Minute, 0, 0},
		{10*time.Minute + 1, 0, 1},
	} {
		var of Tally
		of.Took("x", c.took)
		got := of.Figures().Timings["x"]
		if got.Below != c.below || got.Above != c.above || got.Histogram.TotalCount() != 1 {
			t.Errorf("%s: %d below, %d above, %d in all", c.took, got.Below, got.Above, got.Histogram.TotalCount())
		}
	}
}
