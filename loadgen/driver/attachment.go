package driver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// LaneCaller makes the caller of a lane, which has its own connections.
func LaneCaller(o *Options, transport http.RoundTripper, traffic *wire.Traffic) mcpclient.Caller {
	c := o.Endpoint.Caller(o.Clock, traffic)
	c.Transport, c.Recorder, c.Lane = transport, o.Recorder, o.Lane
	return c
}

// Attachment is one turn of a subscription at being open, from Attaching to
// Detached or Failed, and what all systems report of it: each state once, and
// none after the end. Lanes embed it in their own runs.
type Attachment struct {
	Sub    eventmeter.Sub
	Caller *mcpclient.Caller // the lane's: its recorder and its clock
	// Ctx is over with the attachment; cancel has it end.
	Ctx    context.Context
	Cancel context.CancelFunc

	Mu     sync.Mutex // guards what follows, and what lanes say
	Active bool
	Over   bool
	// Asked is, of a poller, when the last poll was sent that reached the end of
	// what there was, or that failed. held tells that a long poll is at the
	// target, which answers as soon as something happens.
	Asked eventmeter.Instant
	Held  bool
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
	a.Caller.Recorder.Changed(eventmeter.Transition{Sub: a.Sub, To: eventmeter.Detaching, At: a.Caller.Clock.Now(), Seen: a.seen()})
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

// turn is a lane's own kind of attachment, by pointer.
type turn interface {
	comparable
	IsOver() bool
}

// MayAttach says why subscription i of a lane cannot be opened now, nil if it
// can. turns are the last ones by index, nil where there was none.
func MayAttach[T turn](closed bool, turns []T, i int) error {
	var none T
	switch {
	case closed:
		return fmt.Errorf("%w: the lane is closed", mcpclient.ErrState)
	case i < 0 || i >= len(turns):
		return fmt.Errorf("%w: there are %d", mcpclient.ErrState, len(turns))
	case turns[i] != none && !turns[i].IsOver():
		return fmt.Errorf("%w: it is open", mcpclient.ErrState)
	}
	return nil
}

// LastTurn returns the last attachment of subscription i; nil if there was none.
func LastTurn[T turn](mu *sync.Mutex, turns []T, i int) (last T) {
	mu.Lock()
	defer mu.Unlock()
	if i >= 0 && i < len(turns) {
		last = turns[i]
	}
	return last
}

// detachAtOnce is how many subscriptions a lane that closes detaches at a time.
const detachAtOnce = 32

// DetachAll ends every turn that is open. It returns how many of the calls
// failed, and the first of their errors. No turn may begin meanwhile.
func DetachAll[T turn](turns []T, detach func(i int) error) (failed int, first error) {
	room := make(chan struct{}, detachAtOnce)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var none T
	for i, r := range turns {
		if r == none || r.IsOver() {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer crash.Guard()
			defer func() { <-room }()
			if err := detach(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return failed, first
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
