package health

import (
	"context"
	"testing"
	"time"
)

// TestEchoPeriods: a run is tried as often as is enough, and at least ten times
// a second.
func TestEchoPeriods(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		-time.Second:             7 * time.Millisecond,
		0:                        7 * time.Millisecond,
		54 * time.Second:         7 * time.Millisecond,
		time.Minute:              11 * time.Millisecond,
		85*time.Second - 1:       11 * time.Millisecond,
		85 * time.Second:         17 * time.Millisecond,
		5 * time.Minute:          43 * time.Millisecond,
		485*time.Second - 1:      61 * time.Millisecond,
		485 * time.Second:        97 * time.Millisecond,
		8 * time.Hour:            97 * time.Millisecond,
		time.Duration(1<<63 - 1): 97 * time.Millisecond,
	} {
		if got := echoEvery(d); got != want {
			t.Errorf("in %v every %v, want %v", d, got, want)
		}
		if got := timerEvery(d); got != want+3*time.Millisecond {
			t.Errorf("in %v an alarm every %v", d, got)
		}
	}
}
func TestEchoMeasuresItself(t *testing.T) {
	e, err := openEcho(echoEvery(0))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 10 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the machine stands still")
		}
	}
	h := e.close()
	if h.TotalCount() == 0 || h.Max() <= 0 {
		t.Errorf("%d samples, longest %d ns", h.TotalCount(), h.Max())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadDelay(time.Hour, ctx.Done()); err == nil {
		t.Error("a cancelled watch goes on")
	}
}
