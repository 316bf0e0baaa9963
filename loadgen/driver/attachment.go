package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Attachment is one turn of a subscription at being open, from Attaching to
// Detached or Failed, and what all systems report of it: each state once, and
// none after the end. Lanes embed it in their own runs.
type Attachment struct {
	Sub    eventmeter.Sub
	Caller *mcpclient.Caller  // the lane's: its recorder and its clock
	Began  eventmeter.Instant // when it was asked for
	// Ctx is over with the attachment; Cancel has it end.
	Ctx    context.Context
	Cancel context.CancelFunc

	Mu     sync.Mutex // guards what follows, and what lanes say
	Active bool
	Over   bool
	// Asked is, of a poller, when the last poll was sent that reached the end of
	// what there was, or that failed. Held tells that a long poll is at the
	// target, which answers as soon as something happens.
	Asked eventmeter.Instant
	Held  bool
	// Left, if not nil, is called with the lock held when the attachment is left.
	Left func(at eventmeter.Instant)
}

// IsOver tells whether the attachment has ended.
func (a *Attachment) IsOver() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Over
}

// IsActive tells whether it was confirmed, and has not ended.
func (a *Attachment) IsActive() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Active && !a.Over
}

// WasActive tells whether it was ever confirmed.
func (a *Attachment) WasActive() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Active
}

// Activate reports Active, once.
func (a *Attachment) Activate(at eventmeter.Instant) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if !a.Active && !a.Over {
		a.Active = true
		a.Caller.Recorder.Changed(eventmeter.Transition{Sub: a.Sub, To: eventmeter.Active, At: at})
	}
}

// Fail reports Failed, unless the attachment has ended already.
func (a *Attachment) Fail(err error) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if !a.Over {
		a.Over = true
		var ce *mcpclient.CallError
		if errors.As(err, &ce) && a.Active {
			a.Caller.LostFor(ce)
		}
		a.Caller.Recorder.Changed(eventmeter.Transition{Sub: a.Sub, To: eventmeter.Failed, At: a.Caller.Clock.Now(), Reason: errtext.Line(err.Error()), Seen: a.seen()})
		a.Cancel()
	}
}

// Leave reports Detaching; false if the attachment has ended already.
func (a *Attachment) Leave() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Over {
		return false
	}
	a.Over = true
	now := a.Caller.Clock.Now()
	a.Caller.Recorder.Changed(eventmeter.Transition{Sub: a.Sub, To: eventmeter.Detaching, At: now, Seen: a.seen()})
	if a.Left != nil {
		a.Left(now)
	}
	return true
}

// seen is until when the attachment could have received what was fired; 0 means
// until now. The caller holds the lock.
func (a *Attachment) seen() eventmeter.Instant {
	if a.Held {
		return 0
	}
	return a.Asked
}

// NotConfirmed is why an attach failed whose time was up.
func NotConfirmed(err *mcpclient.CallError, cause error) error {
	if err != nil {
		return fmt.Errorf("%w (and the time was up)", err)
	}
	return fmt.Errorf("no confirmation came in time: %w: raise the ready phase or look at the target: %w", mcpclient.ErrUnreachable, cause)
}

// RetryThrottled tries until it is done, fails for good, or ctx is over. What
// passes with time (429, 503) is tried again, after the wait that the target
// asked for.
func RetryThrottled[T any](ctx context.Context, b *sinks.Backoff, try func(again bool) (T, error)) (T, error) {
	for again := false; ; again = true {
		v, err := try(again)
		var ce *mcpclient.CallError
		if err == nil {
			return v, nil
		}
		throttled := errors.As(err, &ce) && (ce.Throttled() || ce.Kind == mcpclient.KindSession)
		if ctx.Err() != nil {
			if throttled {
				return v, NotConfirmed(ce, ctx.Err())
			}
			return v, NotConfirmed(nil, ctx.Err())
		}
		if !throttled {
			return v, err
		}
		if !sinks.Sleep(ctx, b.Next(ce.RetryAfter)) {
			return v, NotConfirmed(ce, ctx.Err())
		}
	}
}
