package cputime_test

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/cputime"
)

// A process that computes for some milliseconds has used them, and the total
// never falls.
func TestUsedGrowsWithWork(t *testing.T) {
	before := cputime.Used()
	if before <= 0 {
		t.Skip("this system does not say how much CPU time a process has used")
	}
	sum, last := 0, before
	for cputime.Used()-before < 5*time.Millisecond {
		for i := range 100_000 {
			sum += i
		}
		now := cputime.Used()
		if now < last {
			t.Fatalf("the total fell from %v to %v", last, now)
		}
		last = now
	}
	if sum == 0 {
		t.Error("nothing was computed")
	}
}
