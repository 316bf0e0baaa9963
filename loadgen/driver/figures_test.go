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

// TestFiguresStay: what was returned does not change with what is added afterwards.
func TestFiguresStay(t *testing.T) {
	var of Tally
	of.Took("x", time.Millisecond)
	before := of.Figures()
	of.Took("x", 20*time.Minute)
	of.Took("x", 0)
	of.Count("n", 1)
	after := of.Figures()
	for _, c := range []struct {
		f                   Figures
		total, below, above int64
		n                   float64
	}{{before, 1, 0, 0, 0}, {after, 3, 1, 1, 1}, {of.Figures(), 3, 1, 1, 1}} {
		got := c.f.Timings["x"]
		if got.Histogram.TotalCount() != c.total || got.Below != c.below || got.Above != c.above || c.f.Values["n"] != c.n {
			t.Errorf("%d in all, %d below, %d above, n %v; want %+v", got.Histogram.TotalCount(), got.Below, got.Above, c.f.Values["n"], c)
		}
	}
}
