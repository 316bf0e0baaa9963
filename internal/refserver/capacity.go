package refserver

import (
	"context"
	"time"
)

// capacity is a token bucket that every delivery of an event passes, in all
// modes together: so many deliveries a second, and a burst of some more after a
// pause. Who finds no token waits in line, first come, first served; the events
// behind it wait in the queues of their subscribers, which are bounded by
// [Options.QueueLen] and count what they skip. A nil capacity is unlimited.
//
// Whoever leaves the line takes no token along, so an overload leaves nothing
// behind once its subscribers are gone.
type capacity struct {
	turn chan struct{} // held by the one at the head of the line
	// every is the time of one token, credit how far back unused ones count.
	every, credit time.Duration
	next          time.Time // when the next token is there; guarded by turn
}

// newCapacity makes a full bucket of perSecond tokens a second that holds burst
// of them; nil for none a second.
func newCapacity(perSecond float64, burst int) *capacity {
	if perSecond <= 0 {
		return nil
	}
	every := time.Duration(float64(time.Second) / perSecond)
	return &capacity{turn: make(chan struct{}, 1), every: every, credit: time.Duration(burst-1) * every}
}

// take waits for n tokens; false means that ctx or stop ended first.
func (c *capacity) take(ctx context.Context, stop <-chan struct{}, n int) bool {
	if c == nil || n < 1 {
		return true
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	}
	defer func() { <-c.turn }()
	next := c.next
	if oldest := time.Now().Add(-c.credit); next.Before(oldest) {
		next = oldest
	}
	last := next.Add(time.Duration(n-1) * c.every)
	if wait := time.Until(last); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		}
	}
	// Counted from when the tokens were due, not from now: a timer that wakes
	// late must not cost capacity.
	c.next = last.Add(c.every)
	return true
}
