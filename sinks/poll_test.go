package sinks

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestPollWaits(t *testing.T) {
	const floor = time.Second
	l := &PollLoop{MinInterval: floor, Backoff: Backoff{Min: time.Millisecond, Max: time.Millisecond}}
	stuck := 0
	l.Stuck = func(string) { stuck++ }
	for i, c := range []struct {
		a        PollAnswer
		min, max time.Duration
		stuck    int
	}{
		{PollAnswer{}, floor, floor, 0},
		{PollAnswer{Next: 3 * time.Second}, 3 * time.Second, 3 * time.Second, 0},
		{PollAnswer{Next: time.Millisecond, Events: 3}, floor, floor, 0},
		{PollAnswer{Events: 3, More: true, Moved: true}, 0, 0, 0},
		{PollAnswer{More: true, Moved: true}, 0, 0, 0},
		{PollAnswer{More: true, Moved: true}, 0, 0, 0},
		{PollAnswer{More: true, Moved: true}, 0, 0, 0},
		{PollAnswer{Events: 1, More: true}, 0, 0, 0},
		{PollAnswer{More: true}, 0, 0, 0},
		{PollAnswer{More: true}, 0, 0, 0},
		{PollAnswer{More: true}, floor, floor, 1},
		{PollAnswer{More: true, Next: time.Minute}, time.Minute, time.Minute, 2},
		{PollAnswer{Events: 3, More: true, Moved: true}, 0, 0, 2},
		{PollAnswer{More: true}, 0, 0, 2},
		{PollAnswer{More: true}, 0, 0, 2},
		{PollAnswer{}, floor, floor, 2},
		{PollAnswer{More: true}, 0, 0, 2},
		{PollAnswer{Failed: true, RetryAfter: time.Hour, Next: 1}, time.Hour, time.Hour + 2*time.Millisecond, 2},
	} {
		if d := l.Wait(c.a); d < c.min || d > c.max || stuck != c.stuck {
			t.Errorf("%d: %+v: wait %v (stuck %d)", i, c.a, d, stuck)
		}
	}
}

// A position that always moves is followed, and no further than a bound.
func TestPollFollowsAMovingCursor(t *testing.T) {
	for name, a := range map[string]PollAnswer{"no event": {More: true, Moved: true}, "no new cursor": {More: true, Events: 1}} {
		t.Run(name, func(t *testing.T) {
			var reasons []string
			l := &PollLoop{Stuck: func(reason string) { reasons = append(reasons, reason) }}
			for i := range maxBarren {
				if d := l.Wait(a); d != 0 {
					t.Fatalf("answer %d: wait %v", i, d)
				}
			}
			if d := l.Wait(
				a,
			); d != time.Second || len(reasons) != 1 ||
				reasons[0] != "hasMore in 1000 answers in a row, and no event with a new cursor: waiting nevertheless" {
				t.Errorf("one too many: wait %v, %q", d, reasons)
			}
			if d := l.Wait(a); d != time.Second {
				t.Errorf("the next one: wait %v", d)
			}
			if d := l.Wait(PollAnswer{More: true, Moved: true, Events: 1}); d != 0 {
				t.Errorf("an event with a new cursor: wait %v", d)
			}
			if d := l.Wait(a); d != 0 || len(reasons) != 2 {
				t.Errorf("from the beginning again: wait %v, %q", d, reasons)
			}
		})
	}
}

func TestPollLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &PollLoop{MinInterval: time.Second, Rand: rand.New(rand.NewPCG(1, 1))}
		start := time.Now()
		var polls []time.Duration
		l.Run(t.Context(), PollAnswer{}, func(context.Context) PollAnswer {
			polls = append(polls, time.Since(start))
			return PollAnswer{Stop: len(polls) == 3}
		})
		if len(polls) != 3 || polls[0] < time.Second || polls[0] > 2*time.Second || polls[2]-polls[1] != time.Second {
			t.Errorf("polled at %v", polls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		n := 0
		l.Run(ctx, PollAnswer{}, func(context.Context) PollAnswer { n++; return PollAnswer{} })
		if n != 2 {
			t.Errorf("%d polls before the end", n)
		}
	})
}
