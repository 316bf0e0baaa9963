package sinks

import (
	"context"
	"math/rand/v2"
	"time"
)

// PollAnswer is what one poll came to.
type PollAnswer struct {
	// Events is how many events it brought.
	Events int
	// More: the target has more and wants to be asked again at once.
	More bool
	// Moved: the position is another than before the poll.
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
	// Floor is the least wait after an answer without More.
	Floor   time.Duration
	Backoff Backoff
	// Rand, if not nil, spreads the second poll over one more wait, so that
	// subscriptions opened together do not poll together.
	Rand *rand.Rand
	// Stuck, if not nil, is told when the target says More again and again
	// while nothing comes: the loop then waits instead of spinning.
	Stuck func()

	empty  int // answers in a row that said More and brought nothing new
	spread bool
}

// patience is how many empty answers with More in a row are followed at once.
const patience = 2

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
		if a.Events > 0 && a.Moved {
			l.empty = 0
			return 0
		}
		if l.empty++; l.empty <= patience {
			return 0
		}
		if l.Stuck != nil {
			l.Stuck()
		}
		return max(l.Floor, a.Next, time.Second)
	}
	l.empty = 0
	wait := max(l.Floor, a.Next)
	if !l.spread {
		l.spread = true
		if l.Rand != nil {
			wait += time.Duration(l.Rand.Float64() * float64(wait))
		}
	}
	return wait
}
