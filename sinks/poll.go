package sinks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// PollAnswer is what one poll came to.
type PollAnswer struct {
	// Events is how many events it brought.
	Events int
	// More: the target has more and wants to be asked again at once.
	More bool
	// Moved: the position is another than before the poll. A target that filters
	// may bring no event and move all the same.
	Moved bool
	// Next is the wait that the target asked for.
	Next time.Duration
	// Failed: there was no answer, try again later, after RetryAfter at least.
	Failed     bool
	RetryAfter time.Duration
	// Stop ends the loop.
	Stop bool
}

// PollLoop asks again and again. It must not be used by two goroutines at once.
type PollLoop struct {
	// Baseline is the least wait after an answer without More.
	MinInterval time.Duration
	Backoff     Backoff
	// Rand, if not nil, spreads the second poll over one more wait, so that
	// subscriptions opened together do not poll together.
	Rand *rand.Rand
	// Stuck, if not nil, is called with the reason when the loop waits although
	// the target says More.
	Stuck func(reason string)

	stuck  int // answers in a row that said More, brought nothing and did not move
	barren int // answers in a row that said More and brought nothing or did not move
	spread bool
}

const (
	// patience is how many answers in a row that say More, bring no event and
	// leave the position where it was are followed at once.
	patience = 2
	// maxBarren is how many answers in a row that say More are followed at once
	// where only one of the two is missing: pages in which a target filtered out
	// all events, mostly. It bounds what a position costs that always moves.
	maxBarren = 1000
)

// Why a loop waits although the target says More.
var (
	stuckReason  = "hasMore again and again with nothing new: waiting all the same"
	barrenReason = fmt.Sprintf("hasMore in %d answers in a row, and no event with a new cursor: waiting all the same", maxBarren)
)

// Run polls until ctx is over or an answer says Stop. first is the answer of
// a poll that was made already.
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

// notFollowed returns why an answer with More is not followed at once, "" if it
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
