package ledger

import (
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	var a, b Values
	a.Add(3 * time.Millisecond)
	a.Add(-1)
	b.Add(time.Hour)
	a.Merge(&b)
	got := a.Timing()
	if n := got.Histogram.TotalCount(); n != 3 || got.Below != 1 || got.Above != 1 {
		t.Errorf("%d values, %d below, %d above: want 3, 1, 1", n, got.Below, got.Above)
	}
	if low, high := got.Histogram.Min(), got.Histogram.Max(); low > 1024 || high < int64(9*time.Minute) {
		t.Errorf("from %d to %d", low, high)
	}
	if n := testing.AllocsPerRun(100, func() { a.Add(3 * time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations for a value", n)
	}
	if n := b.Timing().Histogram.TotalCount(); n != 1 {
		t.Errorf("the one that was merged holds %d", n)
	}
}
