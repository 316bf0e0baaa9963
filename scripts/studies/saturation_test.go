package main

import (
	"math"
	"testing"
)

func TestSaturationExpected(t *testing.T) {
	near := func(what string, got, want queueing) {
		t.Helper()
		if math.Abs(got.lost-want.lost) > 1e-4 || math.Abs(got.longest-want.longest) > 1e-4 {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	near("below the limit", expectQueue(50, 100, 100, 6), queueing{})
	near("a queue of 60 of 100", expectQueue(110, 100, 100, 6), queueing{longest: 0.6})
	near("600 too many, 500 dropped of 1200", expectQueue(200, 100, 100, 6), queueing{lost: 500.0 / 1200, longest: 1})

	// Events at 0, 0.1, …, 2.9; polls after 1.5, 2.5 and 3.5 s. The first event waits longest.
	near("polls", expectPolls(10, unbounded, 100, 1, 1, 3, false), queueing{longest: 1.5})
	// The newest 5 of 16 and of 10, and 4 of 4 events are there; the oldest wait 0.4, 0.4 and 0.9 s.
	near("polls of a small buffer", expectPolls(10, unbounded, 5, 1, 1, 3, false), queueing{lost: 16.0 / 30, longest: 0.9})
	// All 10 events are read after 1.5 s, and are delivered after 2 s more.
	near("polls of a slow server", expectPolls(10, 5, 100, 1, 1, 1, false), queueing{longest: 3.5})
	// The first poll begins after the first event; the others wait for theirs.
	near("long polls", expectPolls(1, unbounded, 100, 1, 0.05, 3, true), queueing{longest: 0.075})
}

// saturationByHand is a server that does what is expected.
func saturationByHand() *saturation {
	s := &saturation{Subscriptions: 10, FreeSubscriptions: 10, Capacity: 1000, Queue: 100, PollSeconds: 0.25, PauseSeconds: 0.05, Seconds: 6}
	for _, m := range satModes {
		for _, rate := range satBounded {
			e := s.expect(m, rate)
			s.Bounded = append(s.Bounded, satPoint{Mode: m, Rate: rate, Delivered: min(rate, 100), Owed: 10000, LostAnnounced: int64(math.Round(e.lost * 10000)), MaxMS: e.longest * 1e3})
		}
		for _, rate := range satFree {
			p := satPoint{Mode: m, Rate: rate, Delivered: rate, Owed: 10000, P99MS: 20, ServerMicros: 60, GeneratorMicros: 40}
			if rate == 3000 {
				p.Delivered, p.P99MS = 2000, 1500
			}
			s.Free = append(s.Free, p)
		}
	}
	return s
}

func TestSaturationPage(t *testing.T) {
	s := saturationByHand()
	if highest, next := s.limit("push"); highest != 1000 || next != 3000 {
		t.Errorf("push keeps up with %g and not with %g, want 1000 and 3000", highest, next)
	}
	if got := s.expectLimit("push", 2); math.Abs(got-2000) > 1e-9 { // 2 s of CPU / 100 µs / 10 subscriptions
		t.Errorf("expected limit %g, want 2000", got)
	}
	says(t, pageOf(t, s),
		"push keeps up with 1\u202f000 and not with 3\u202f000",
		"none was lost silently",
		"the expected share, within 5 of 100 events | Held |", "25 % and 150 ms | Held |", "drops is announced | Held |", "predicts the limit of push within a factor of 2 | Held | expected 2\u202f000, kept up with 1\u202f000, not with 3\u202f000 |",
	)
	for i := range s.Bounded {
		s.Bounded[i].LostOther, s.Bounded[i].MaxMS = 1000, 9000
	}
	for i := range s.Free {
		p := &s.Free[i]
		p.P99MS, p.Delivered = 20, p.Rate // keeps up with everything
		p.ServerMicros = 2000
		if p.Mode == "webhook" {
			p.LostAnnounced = 1
		}
	}
	says(t, pageOf(t, s),
		"push keeps up with 3\u202f000, the highest rate tried", "webhook not with 1.",
		"lost deliveries were not announced.**",
		"the expected share, within 5 of 100 events | **Did not hold** |", "25 % and 150 ms | **Did not hold** |", "drops is announced | **Did not hold** |", "predicts the limit of push within a factor of 2 | **Did not hold** | expected 98.0, kept up with 3\u202f000 |",
	)
	for i := range s.Free {
		s.Free[i].ServerMicros = 20
	}
	says(t, pageOf(t, s), "predicts the limit of push within a factor of 2 | Not decided | expected 3\u202f333, kept up with 3\u202f000 |")
	s.Bounded, s.Free = nil, nil
	pageOf(t, s) // nothing was measured: no panic
}
