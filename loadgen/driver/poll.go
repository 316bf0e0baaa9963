package driver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// PollPatience is how long the end of a run waits for polls beyond the time that
// it gives to stragglers.
const PollPatience = time.Minute

// Poller is a Driver whose subscriptions may have to ask for their events, so
// that what happened after they last asked cannot have reached them.
type Poller interface {
	// Behind returns how many subscriptions are open and ask, and how many of
	// them have not got to the end of what there was since an instant: no poll
	// that was sent then or later was answered without hasMore. A long poll that
	// the target holds counts as sent now. It may be called at any time.
	Behind(since eventmeter.Instant) (behind, open int)
}

// poller is what a run that polls knows of its polls.
type poller struct {
	caught eventmeter.Instant // when the last poll was sent whose answer had no hasMore; guarded by the run's mu

	// Of the goroutine that polls: the last answer that is waited upon, at = 0
	// where there is none.
	at   eventmeter.Instant
	next time.Duration
	more bool // the last answer had hasMore
}

// Behind implements [Poller].
func (d *events) Behind(since eventmeter.Instant) (behind, open int) {
	if d.opts.Mode != eventmeter.Poll {
		return 0, 0
	}
	d.mu.Lock()
	runs := slices.Clone(d.runs)
	d.mu.Unlock()
	now := d.clock.Now()
	for _, r := range runs {
		if r == nil {
			continue
		}
		r.mu.Lock()
		if r.active && !r.over {
			open++
			caught := r.poller.caught
			if r.held {
				caught = now
			}
			if caught < since {
				behind++
			}
		}
		r.mu.Unlock()
	}
	return behind, open
}

// polling notes that a poll is sent, and how long the run waited for that.
func (d *events) polling(r *run, at eventmeter.Instant, long bool) {
	p := &r.poller
	if p.at != 0 {
		d.tally.took("pollInterval", at.Sub(p.at))
		paced := "pollsPacedByMinInterval"
		if p.next > 0 && p.next >= d.opts.Poll.MinInterval {
			paced = "pollsPacedByServer"
		}
		d.tally.count(paced, 1)
		p.at = 0
	}
	r.mu.Lock()
	r.held = long && !p.more
	r.mu.Unlock()
}

// polled notes how the poll that was sent at an instant ended: with an answer,
// or with a failure that is not ours.
func (d *events) polled(r *run, sent eventmeter.Instant, a *answer, still bool, n int) {
	p := &r.poller
	failed := a.err != nil
	// Nothing new and hasMore: there is nothing to follow.
	p.more = !failed && a.msg.HasMore && (n > 0 || !still)
	if !failed && !a.msg.HasMore {
		p.at, p.next = a.at, a.msg.NextPoll
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	if !p.more || r.asked == 0 {
		r.asked = sent
	}
	if !failed && !p.more {
		p.caught = sent
	}
}

// attachPoll makes the first poll, which says where to begin, and leaves a
// poller behind.
func (d *events) attachPoll(ctx context.Context, r *run) error {
	backoff := sinks.Backoff{Min: d.opts.Poll.BackoffMin, Max: d.opts.Poll.BackoffMax, Rand: r.rand}
	stop := context.AfterFunc(ctx, r.cancel)
	first, err := retryThrottled(ctx, &backoff, func(again bool) (sinks.PollAnswer, error) {
		return d.poll(r, eventmeter.Subscribe, again)
	})
	if !stop() && err == nil {
		err = notConfirmed(nil, ctx.Err())
	}
	if err != nil {
		close(r.done)
		return err
	}
	loop := &sinks.PollLoop{
		MinInterval: max(d.opts.Poll.MinInterval, 0),
		Rand:        r.rand,
		Stuck:       func(reason string) { d.notice(r, eventmeter.Malformed, d.clock.Now(), reason) },
	}
	loop.Backoff = backoff
	loop.Backoff.Reset()
	d.work.Go(func() {
		defer crash.Guard()
		defer close(r.done)
		retry := false
		loop.Run(r.ctx, first, func(context.Context) sinks.PollAnswer {
			a, err := d.poll(r, eventmeter.EmptyPoll, retry)
			retry = a.Failed
			var ce *callError
			switch {
			case err == nil || r.ctx.Err() != nil:
			case errors.As(err, &ce) && ce.final():
				d.notice(r, eventmeter.Terminated, d.clock.Now(), err.Error())
				r.fail(err)
				a.Stop = true
			default:
				d.notice(r, eventmeter.TransientError, d.clock.Now(), err.Error())
			}
			return a
		})
	})
	return nil
}

// poll asks once, and reports what came. cause is what an answer without
// events counts as. An error is returned beside an answer that says Failed.
func (d *events) poll(r *run, cause eventmeter.Cause, retry bool) (sinks.PollAnswer, error) {
	failed := sinks.PollAnswer{Failed: true}
	first := cause == eventmeter.Subscribe
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
	long := !d.older && d.opts.Poll.Timeout > 0 && !(first && r.resumes)
	if long {
		o.Int("timeoutMs", d.opts.Poll.Timeout.Milliseconds())
	}
	fromNow := first && !r.resumes // cursor: null
	_, body := d.build(methodPoll, o, agreed)
	sent := d.clock.Now()
	d.polling(r, sent, long)
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
		d.polled(r, sent, a, true, 0)
		failed.RetryAfter = a.err.retryAfter
		if retry {
			cause = eventmeter.Retry
		}
		d.called(cause, methodPoll, a)
		if d.lost(r, agreed, a.err) {
			return failed, &callError{method: methodPoll, status: a.status, kind: "session lost"}
		}
		return failed, a.err
	}
	r.activate(a.at)
	if !a.msg.Versioned {
		d.notice(r, eventmeter.Malformed, a.at, withoutVersion)
	}
	if first {
		d.resumed(r, a.msg.Truncated)
	}
	if a.msg.Truncated && !first { // before the events: it is about what is missing in front of them
		d.notice(r, eventmeter.Truncated, a.at, "")
	}
	still := len(a.msg.Cursor) == 0 || string(a.msg.Cursor) == "null" || r.at(a.msg.Cursor)
	n, bytes, last := d.takeEvents(r, a)
	if n > 0 && fromNow {
		d.notice(r, eventmeter.Malformed, a.at, eventsFromNow)
	}
	if n > 0 && first {
		// The request opened the subscription; the events in its answer are no
		// part of what that cost.
		bytes = min(bytes, a.down)
		a.down -= bytes
		d.rec.Called(eventmeter.Call{Lane: d.opts.Lane, Cause: eventmeter.Events, At: a.at, Down: bytes, Method: methodPoll})
	}
	switch {
	case n > 0 && !first:
		cause = eventmeter.Events
	case retry:
		cause = eventmeter.Retry
	}
	d.called(cause, methodPoll, a)
	d.polled(r, sent, a, still, n)
	if n == 0 && !a.msg.Truncated {
		d.claim(r, a.msg.Cursor, a.at)
	}
	if last == (eventmeter.Stamp{}) {
		r.setCursor(a.msg.Cursor)
	} else {
		d.comesWith(r, a.msg.Cursor, last)
	}
	return sinks.PollAnswer{Events: n, More: a.msg.HasMore, Moved: !still, Next: min(a.msg.NextPoll, time.Hour)}, nil
}

// eventsFromNow is what is wrong with events in the answer to a poll without a
// cursor, which asks for what happens from then on.
const eventsFromNow = "events in the answer to cursor: null, which begins now"

// at tells whether the run's position is cursor.
func (r *run) at(cursor []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Equal(r.cursor, cursor)
}

// takeEvents reports the deliveries of a poll. It returns how many there were,
// their size, and the last one, which is zero if that had no probe id.
func (d *events) takeEvents(r *run, a *answer) (n int, bytes int64, last eventmeter.Stamp) {
	if a.msg.Events == nil {
		return 0, 0, last
	}
	var f wire.Fields
	wire.Elements(a.msg.Events, func(e []byte) bool {
		n++
		bytes += int64(len(e))
		last = eventmeter.Stamp{}
		if !wire.ScanFields(e, &f) {
			d.notice(r, eventmeter.Malformed, a.at, "an event is not an object")
			return true
		}
		stamp, probed := eventmeter.FindStamp(e)
		last = stamp
		d.rec.Delivered(eventmeter.Delivery{
			Sub: r.sub, Stamp: stamp, Probed: probed, EventID: eventmeter.HashID(f.EventID), At: a.at, Bytes: len(e),
		})
		if len(f.EventID) == 0 {
			d.notice(r, eventmeter.Malformed, a.at, withoutID)
		}
		d.look(r, a.at, eventmeter.HashID(f.EventID), &f, e)
		return true
	})
	return n, bytes, last
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
