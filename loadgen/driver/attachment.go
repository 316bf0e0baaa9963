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

// Attachment is one period in which a subscription is open, from Attaching to Detached
// or Failed. It reports each state once, and none after the end. Drivers embed it.
type Attachment struct {
	Sub    eventmeter.Sub
	Caller *mcpclient.Caller  // that of the lane, with its recorder and clock
	Began  eventmeter.Instant // when Attach was called
	scope  scope

	Mu     sync.Mutex // guards the following fields, and those that drivers add
	Active bool
	Over   bool
	// Asked is, for a poller, when the last poll was sent that received all available
	// events, or that failed; for a stream that is lost, see Via. Held is true while the
	// target holds a long poll, which it answers as soon as there is an event.
	Asked eventmeter.Instant
	Held  bool
	// Left, if not nil, is called with the lock held when the attachment is left.
	Left func(at eventmeter.Instant)
}

// Ctx returns a context that ends with the attachment, or with the lane.
func (a *Attachment) Ctx() context.Context { return &a.scope }

// Cancel ends Ctx.
func (a *Attachment) Cancel() { a.scope.end() }

// Via is called before an attachment is left whose events come over a stream. If the
// stream is lost, later events cannot have reached the attachment.
func (a *Attachment) Via(s *Stream) {
	at := s.seen()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.Asked = at
}

// IsOver reports whether the attachment has ended.
func (a *Attachment) IsOver() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Over
}

// IsActive reports whether the attachment was confirmed and has not ended.
func (a *Attachment) IsActive() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Active && !a.Over
}

// WasActive reports whether the attachment was ever confirmed.
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

// Fail reports Failed, unless the attachment has ended already, and then ends Ctx.
func (a *Attachment) Fail(err error) {
	if a.Failed(err) {
		a.Cancel()
	}
}

// Failed is Fail without the end of Ctx. It returns false if the attachment has ended
// already.
func (a *Attachment) Failed(err error) bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Over {
		return false
	}
	a.Over = true
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && a.Active {
		a.Caller.LostFor(ce)
	}
	a.Caller.Recorder.Changed(
		eventmeter.Transition{
			Sub:    a.Sub,
			To:     eventmeter.Failed,
			At:     a.Caller.Clock.Now(),
			Reason: errtext.Line(err.Error()),
			Seen:   a.seen(),
		},
	)
	return true
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

// seen returns until when published events could have reached the attachment; 0 = until
// now. The caller holds the lock.
func (a *Attachment) seen() eventmeter.Instant {
	if a.Held {
		return 0
	}
	return a.Asked
}

// NotConfirmed returns the error of an Attach whose time is over. err is the last answer,
// nil if there was none; cause is the error of the context.
func NotConfirmed(err *mcpclient.CallError, cause error) error {
	if err != nil {
		return fmt.Errorf("%w (and the time was up)", err)
	}
	return fmt.Errorf("no confirmation came in time: %w: raise the ready phase or look at the target: %w", mcpclient.ErrUnreachable, cause)
}

// RetryThrottled calls try until it succeeds, fails with an error that does not pass with
// time, or ctx ends. After 429, 503, ResourceExhausted and a lost session it tries again,
// after the wait that the target asked for, or the backoff. The cause is Subscribe, and
// Retry from the second call on.
func RetryThrottled[T any](ctx context.Context, b *sinks.Backoff, try func(eventmeter.Cause) (T, error)) (T, error) {
	for cause := eventmeter.Subscribe; ; cause = eventmeter.Retry {
		v, err := try(cause)
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
