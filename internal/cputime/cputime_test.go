package cputime_test

import (
	"errors"
	"os"
	"runtime"
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

// The clock of a process, read by its id, agrees with what it says of itself, and a
// process that does not exist has none.
func TestOfAgreesWithUsed(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := cputime.Of(os.Getpid()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("the error is %v", err)
		}
		return
	}
	before := cputime.Used()
	of, err := cputime.Of(os.Getpid())
	after := cputime.Used()
	// The two are counted apart, and agree to a tick.
	if err != nil || of < before-20*time.Millisecond || of > after+20*time.Millisecond {
		t.Errorf("%v, %v, want between %v and %v", of, err, before, after)
	}
	for last := of; ; {
		now, err := cputime.Of(os.Getpid())
		if err != nil || now < last {
			t.Fatalf("%v after %v, %v", now, last, err)
		}
		if now-last > 0 && now-last < 10*time.Millisecond {
			break // finer than a tick
		}
		last = now
	}
	if _, err := cputime.Of(1 << 28); err == nil {
		t.Error("a process that does not exist has a clock")
	}
}
