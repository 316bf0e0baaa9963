package loadgen

import (
	"math"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

func TestTrace(t *testing.T) {
	ms := time.Millisecond
	offsets := []time.Duration{0, 0, 250 * ms, 1000 * ms, 1001 * ms, 3 * time.Second}
	for name, c := range map[string]struct {
		warp float64
		want []time.Duration
		peak int
		rate map[time.Duration]uint64
	}{
		"as recorded": {0, offsets, 3, map[time.Duration]uint64{0: 3, time.Second: 2, 250 * ms: 3, 2 * time.Second: 0,
			3 * time.Second: 1, time.Hour: 0}},
		"twice": {2, []time.Duration{0, 0, 125 * ms, 500 * ms, 500500 * time.Microsecond, 1500 * ms}, 5, map[time.Duration]uint64{0: 5}},
		"half": {0.5, []time.Duration{0, 0, 500 * ms, 2000 * ms, 2002 * ms, 6 * time.Second}, 3,
			map[time.Duration]uint64{2 * time.Second: 2}},
	} {
		s := Trace{Offsets: offsets, Warp: c.warp}
		for n, want := range c.want {
			if got, ok := s.At(uint64(n)); !ok || got != want {
				t.Errorf("%s: event %d at %v, %v; want %v", name, n, got, ok, want)
			}
		}
		if _, ok := s.At(uint64(len(offsets))); ok {
			t.Errorf("%s: there is an event after the last", name)
		}
		if got := s.Peak(); got != c.peak {
			t.Errorf("%s: peak %d, want %d", name, got, c.peak)
		}
		for at, want := range c.rate {
			if got := Count(s, at+time.Second) - Count(s, at); got != want {
				t.Errorf("%s: %d events in the second after %v, want %d", name, got, at, want)
			}
		}
		if got := Count(s, time.Minute); got != 6 {
			t.Errorf("%s: %d emissions in a minute", name, got)
		}
	}
	for _, s := range []Trace{{}, {Offsets: offsets, Warp: -1}, {Offsets: offsets, Warp: math.Inf(1)}, {Offsets: offsets, Warp: math.NaN()}} {
		if _, ok := s.At(0); ok || s.Peak() != 0 || Count(s, time.Second) != 0 {
			t.Errorf("%+v fires", s)
		}
	}
}

// Assigned sources decide where an emission is stamped, and where it is dropped.
func TestStamperAssign(t *testing.T) {
	r := &assigned{}
	clock := eventmeter.NewClock()
	s := NewStamper(clock, r, 1, 3)
	s.Assign(func(n uint64) uint16 { return []uint16{2, 2, 0, 9}[n] })
	for n, want := range []eventmeter.Stamp{{Run: 1, Source: 2, Seq: 1}, {Run: 1, Source: 2, Seq: 2},
		{Run: 1, Source: 0, Seq: 1}, {Run: 1, Source: 0, Seq: 2}} {
		if got := s.Stamp(uint64(n), 1, true).Stamp; got != want {
			t.Errorf("event %d: %+v, want %+v", n, got, want)
		}
	}
	f, err := NewFiring(
		FiringOptions{Clock: clock, Recorder: r, Stamper: s, Schedule: Constant{Rate: 1}, Start: 1, Tolerance: time.Nanosecond},
	)
	if err != nil {
		t.Fatal(err)
	}
	for clock.Now() < 1000 {
	}
	busy := make(chan struct{}) // no worker
	d, ok := f.wait(t.Context(), 0)
	if !ok || f.admit(t.Context(), d, busy) || len(r.drops) != 1 || r.drops[0].Source != 2 {
		t.Errorf("drops %+v", r.drops)
	}
}

type assigned struct {
	eventmeter.Recorder
	drops []eventmeter.Drop
}

func (a *assigned) Fired(eventmeter.Emission) {}

func (a *assigned) Dropped(d eventmeter.Drop) { a.drops = append(a.drops, d) }
