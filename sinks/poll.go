package sinks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// PollAnswer is the outcome of one poll.
type PollAnswer struct {
	// Events is the number of events in the answer.
	Events int
	// More is set if the target has more events and should be polled again at once.
	More bool
	// Moved is set if the cursor changed. A target that filters may return no event
	// and still move it.
	Moved bool
	// Next is the pause that the target asked for.
	Next time.Duration
	// Failed is set if there was no answer. The next poll is sent after RetryAfter at
	// the earliest.
	Failed     bool
	RetryAfter time.Duration
	// Stop ends the loop.
	Stop bool
}

// PollLoop polls repeatedly. It must not be used by two goroutines at once.
type PollLoop struct {
	// MinInterval is the shortest wait after an answer without More.
	MinInterval time.Duration
	Backoff     Backoff
	// Rand, if not nil, spreads the second poll over one more wait, so that
	// subscriptions opened together do not poll together.
	Rand *rand.Rand
	// Stuck, if not nil, is called with the reason when the loop waits although the
	// answer has More.
	Stuck func(reason string)

	stuck  int // answers in a row that said More, brought nothing and did not move
	barren int // answers in a row that said More and brought nothing or did not move
	spread bool
}

const (
	// patience is how many consecutive answers with More, without an event and
	// without a new cursor are followed at once.
	patience = 2
	// maxBarren is how many consecutive answers with More are followed at once if
	// only one of the two is missing, as with pages from which a target filtered all
	// events. It bounds the cost of a cursor that always moves.
	maxBarren = 1000
)

// The reasons why a loop waits although the answer has More.
var (
	stuckReason  = "hasMore in several answers in a row with nothing new: waiting nevertheless"
	barrenReason = fmt.Sprintf("hasMore in %d answers in a row, and no event with a new cursor: waiting nevertheless", maxBarren)
)

// Run polls until ctx is done or an answer has Stop. first is the answer to a poll
// that was already made.
func (l *PollLoop) Run(ctx context.Context, first PollAnswer, poll func(context.Context) PollAnswer) {
	for a := first; !a.Stop; a = poll(ctx) {
		if !Sleep(ctx, l.Wait(a)) {
			return
		}
	}
}

// Wait returns how long to wait after an answer.
func (l *PollLoop) Wait(a PollAnswer) time.Duration {
	if a.Failed {
		return l.Backoff.Next(a.RetryAfter)
	}
	l.Backoff.Reset()
	if a.More {
		reason := l.notFollowed(a)
		if reason == "" {
			return 0
		}
		if l.Stuck != nil {
			l.Stuck(reason)
		}
		return max(l.MinInterval, a.Next, time.Second)
	}
	l.stuck, l.barren = 0, 0
	wait := max(l.MinInterval, a.Next)
	if !l.spread {
		l.spread = true
		if l.Rand != nil {
			wait += time.Duration(l.Rand.Float64() * float64(wait))
		}
	}
	return wait
}

// notFollowed returns why an answer with More is not followed at once, or "" if it
// is.
func (l *PollLoop) notFollowed(a PollAnswer) string {
	if a.Events > 0 && a.Moved {
		l.stuck, l.barren = 0, 0
		return ""
	}
	l.barren++
	if a.Events > 0 || a.Moved {
		l.stuck = 0
	} else if l.stuck++; l.stuck > patience {
		return stuckReason
	}
	if l.barren > maxBarren {
		return barrenReason
	}
	return ""
}
