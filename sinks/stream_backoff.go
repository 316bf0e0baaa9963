package sinks

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the waits between attempts: full jitter over a bound that
// starts at Min and doubles up to Max. It must not be used by two goroutines
// at once.
type Backoff struct {
	Min, Max time.Duration
	// Rand is the source of the jitter; nil = the process's own.
	Rand *rand.Rand

	bound time.Duration
}

// Next returns the wait before the next attempt: more than 0, at most the
// bound. If the target asked for a wait, pass it as least: the answer is at
// least that, with the jitter on top, so that those who were sent away
// together do not come back together.
func (b *Backoff) Next(least time.Duration) time.Duration {
	switch {
	case b.bound == 0:
		b.bound = max(b.Min, time.Millisecond)
	default:
		b.bound *= 2
	}
	b.bound = min(b.bound, max(b.Max, b.Min, time.Millisecond))
	var share float64
	if b.Rand != nil {
		share = b.Rand.Float64()
	} else {
		share = rand.Float64()
	}
	return max(least, 0) + time.Duration(share*float64(b.bound)) + 1
}

// Reset starts anew, after a success.
func (b *Backoff) Reset() { b.bound = 0 }

// Sleep waits for d, or until ctx is over, and then returns false.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
