package events

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// TestHerd counts returning streams in tenths of a second since they may return.
func TestHerd(t *testing.T) {
	at := func(ms int) eventmeter.Instant { return eventmeter.Instant(time.Duration(ms) * time.Millisecond) }
	var h herd
	if h.add(at(5)) || h.peak != 0 {
		t.Errorf("a stream before the cut counts: %+v", &h)
	}
	h.from = at(1000)
	if h.add(at(999)) {
		t.Error("a stream that was not cut counts")
	}
	// 3 in the first tenth, 2 in the second, 4 in the fourth.
	grew := 0
	for _, ms := range []int{1000, 1050, 1099, 1100, 1199, 1300, 1310, 1320, 1399} {
		if h.add(at(ms)) {
			grew++
		}
	}
	if h.peak != 4 || grew != 4 {
		t.Errorf("the peak is %d and grew %d times, want 4", h.peak, grew)
	}
}
