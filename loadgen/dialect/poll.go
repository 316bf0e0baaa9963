package dialect

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/internal/wire"
	"github.com/mcpload/mcpload/sinks"
)

// attachPoll makes the first poll, which says where to begin, and leaves a
// poller behind.
func (d *events) attachPoll(ctx context.Context, r *run) error {
	backoff := sinks.Backoff{Min: d.opts.Poll.BackoffMin, Max: d.opts.Poll.BackoffMax, Rand: r.rand}
	stop := context.AfterFunc(ctx, r.cancel)
	first, err := retryThrottled(ctx, &backoff, func(again bool) (sinks.PollAnswer, error) {
		return d.poll(r, mcpload.Subscribe, again)
	})
	if !stop() && err == nil {
		err = notConfirmed(nil, ctx.Err())
	}
	if err != nil {
		close(r.done)
		return err
	}
	loop := &sinks.PollLoop{
		Floor: d.opts.Poll.Floor,
		Rand:  r.rand,
		Stuck: func() {
			d.notice(r, mcpload.Malformed, d.clock.Now(), "hasMore again and again with nothing new: waiting all the same")
		},
	}
	loop.Backoff = backoff
	loop.Backoff.Reset()
	d.work.Go(func() {
		defer close(r.done)
		retry := false
		loop.Run(r.ctx, first, func(context.Context) sinks.PollAnswer {
			a, err := d.poll(r, mcpload.EmptyPoll, retry)
			retry = a.Failed
			var ce *callError
			switch {
			case err == nil || r.ctx.Err() != nil:
			case errors.As(err, &ce) && ce.final():
				d.notice(r, mcpload.Terminated, d.clock.Now(), err.Error())
				r.fail(err)
				a.Stop = true
			default:
				d.notice(r, mcpload.TransientError, d.clock.Now(), err.Error())
			}
			return a
		})
	})
	return nil
}

// poll asks once, and reports what came. cause is what an answer without
// events counts as. An error is returned beside an answer that says Failed.
func (d *events) poll(r *run, cause mcpload.Cause, retry bool) (sinks.PollAnswer, error) {
	failed := sinks.PollAnswer{Failed: true}
	first := cause == mcpload.Subscribe
	agreed, err := d.agreement(r.ctx, r)
	if err != nil {
		return failed, err
	}
	o := d.params(r)
	d.position(&o, r)
	if n := d.opts.Poll.MaxEvents; n > 0 {
		o.Int("maxEvents", int64(n))
	}
	// A kept cursor would make the target hold the first poll, too, and with it
	// the confirmation.
	if !d.older && d.opts.Poll.Timeout > 0 && !(first && r.resumes) {
		o.Int("timeoutMs", d.opts.Poll.Timeout.Milliseconds())
	}
	_, body := d.build(methodPoll, o, agreed)
	ctx, cancel := context.WithTimeout(r.ctx, d.opts.Timeout+d.opts.Poll.Timeout)
	defer cancel()
	a := d.call(ctx, methodPoll, agreed.headers[methodPoll], body)
	defer a.release()
	if a.err != nil {
		if r.ctx.Err() != nil { // given up by us: a request that cost something, and no failure of the target's
			given := a.err
			a.err = nil
			d.called(cause, methodPoll, a)
			return failed, given
		}
		failed.RetryAfter = a.err.retryAfter
		if retry {
			cause = mcpload.Retry
		}
		d.called(cause, methodPoll, a)
		if d.lost(r, agreed, a.err) {
			return failed, &callError{method: methodPoll, status: a.status, kind: "session lost"}
		}
		return failed, a.err
	}
	r.activate(a.at)
	if !a.msg.Versioned {
		d.notice(r, mcpload.Malformed, a.at, withoutVersion)
	}
	if first {
		d.resumed(r, a.msg.Truncated)
	}
	if a.msg.Truncated && !first { // before the events: it is about what is missing in front of them
		d.notice(r, mcpload.Truncated, a.at, "")
	}
	still := len(a.msg.Cursor) == 0 || r.at(a.msg.Cursor)
	n := d.takeEvents(r, a)
	switch {
	case n > 0:
		cause = mcpload.Events
	case retry:
		cause = mcpload.Retry
	}
	d.called(cause, methodPoll, a)
	r.setCursor(a.msg.Cursor)
	return sinks.PollAnswer{Events: n, More: a.msg.HasMore, Moved: !still, Next: min(a.msg.NextPoll, time.Hour)}, nil
}

// at tells whether the run's position is cursor.
func (r *run) at(cursor []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Equal(r.cursor, cursor)
}

// takeEvents reports the deliveries of a poll and returns how many there were.
func (d *events) takeEvents(r *run, a *answer) (n int) {
	if a.msg.Events == nil {
		return 0
	}
	var f wire.Fields
	wire.Elements(a.msg.Events, func(e []byte) bool {
		n++
		if !wire.ScanFields(e, &f) {
			d.notice(r, mcpload.Malformed, a.at, "an event is not an object")
			return true
		}
		stamp, probed := mcpload.FindStamp(e)
		d.rec.Delivered(mcpload.Delivery{
			Sub: r.sub, Stamp: stamp, Probed: probed, EventID: mcpload.HashID(f.EventID), At: a.at, Bytes: len(e),
		})
		if len(f.EventID) == 0 {
			d.notice(r, mcpload.Malformed, a.at, withoutID)
		}
		d.look(r, a.at, mcpload.HashID(f.EventID), &f, e)
		return true
	})
	return n
}

// retryThrottled tries until it is done, fails for good, or ctx is over. What
// passes with time (429, 503) is tried again, after the wait that the target
// asked for.
func retryThrottled[T any](ctx context.Context, b *sinks.Backoff, try func(again bool) (T, error)) (T, error) {
	for again := false; ; again = true {
		v, err := try(again)
		var ce *callError
		if err == nil {
			return v, nil
		}
		throttled := errors.As(err, &ce) && (ce.throttled() || ce.kind == "session lost")
		if ctx.Err() != nil {
			if throttled {
				return v, notConfirmed(ce, ctx.Err())
			}
			return v, notConfirmed(nil, ctx.Err())
		}
		if !throttled {
			return v, err
		}
		if !sinks.Sleep(ctx, b.Next(ce.retryAfter)) {
			return v, notConfirmed(ce, ctx.Err())
		}
	}
}
