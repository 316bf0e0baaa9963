package events

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

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
func (d *lane) Behind(since eventmeter.Instant) (behind, open int) {
	if d.Opts.Mode != eventmeter.Poll {
		return 0, 0
	}
	d.Mu.Lock()
	runs := slices.Clone(d.Turns)
	d.Mu.Unlock()
	now := d.Clock.Now()
	for _, r := range runs {
		if r == nil {
			continue
		}
		r.Mu.Lock()
		if r.Active && !r.Over {
			open++
			caught := r.poller.caught
			if r.Held {
				caught = now
			}
			if caught < since {
				behind++
			}
		}
		r.Mu.Unlock()
	}
	return behind, open
}

// polling notes that a poll is sent, and how long the run waited for that.
func (d *lane) polling(r *run, at eventmeter.Instant, long bool) {
	p := &r.poller
	if p.at != 0 {
		d.tally.Took("pollInterval", at.Sub(p.at))
		paced := "pollsPacedByMinInterval"
		if p.next > 0 && p.next >= d.Opts.Poll.MinInterval {
			paced = "pollsPacedByServer"
		}
		d.tally.Count(paced, 1)
		p.at = 0
	}
	r.Mu.Lock()
	r.Held = long && !p.more
	r.Mu.Unlock()
}

// polled notes how the poll that was sent at an instant ended: with an answer,
// or with a failure that is not ours.
func (d *lane) polled(r *run, sent eventmeter.Instant, a *mcpclient.Answer, still bool, n int) {
	p := &r.poller
	failed := a.Err != nil
	// Nothing new and hasMore: there is nothing to follow.
	p.more = !failed && a.Msg.HasMore && (n > 0 || !still)
	if !failed && !a.Msg.HasMore {
		p.at, p.next = a.At, a.Msg.NextPoll
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Held = false
	if !p.more || r.Asked == 0 {
		r.Asked = sent
	}
	if !failed && !p.more {
		p.caught = sent
	}
}

// attachPoll makes the first poll, which says where to begin, and leaves a
// poller behind.
func (d *lane) attachPoll(ctx context.Context, r *run) error {
	backoff := sinks.Backoff{Min: d.Opts.Poll.BackoffMin, Max: d.Opts.Poll.BackoffMax, Rand: r.rand}
	stop := context.AfterFunc(ctx, r.Cancel)
	first, err := driver.RetryThrottled(ctx, &backoff, func(again bool) (sinks.PollAnswer, error) {
		return d.poll(r, eventmeter.Subscribe, again)
	})
	if !stop() && err == nil {
		err = driver.NotConfirmed(nil, ctx.Err())
	}
	if err != nil {
		close(r.done)
		return err
	}
	loop := &sinks.PollLoop{
		MinInterval: max(d.Opts.Poll.MinInterval, 0),
		Rand:        r.rand,
		Stuck:       func(reason string) { d.Notice(r.Sub, eventmeter.Malformed, d.Clock.Now(), reason) },
	}
	loop.Backoff = backoff
	loop.Backoff.Reset()
	d.Work.Go(func() {
		defer crash.Guard()
		defer close(r.done)
		retry := false
		loop.Run(r.Ctx, first, func(context.Context) sinks.PollAnswer {
			a, err := d.poll(r, eventmeter.EmptyPoll, retry)
			retry = a.Failed
			var ce *mcpclient.CallError
			switch {
			case err == nil || r.Ctx.Err() != nil:
			case errors.As(err, &ce) && ce.Final():
				d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), err.Error())
				r.Fail(err)
				a.Stop = true
			default:
				d.Notice(r.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
			}
			return a
		})
	})
	return nil
}

// poll asks once, and reports what came. cause is what an answer without
// events counts as. An error is returned beside an answer that says Failed.
func (d *lane) poll(r *run, cause eventmeter.Cause, retry bool) (sinks.PollAnswer, error) {
	failed := sinks.PollAnswer{Failed: true}
	first := cause == eventmeter.Subscribe
	session, err := d.session(r.Ctx, r)
	if err != nil {
		return failed, err
	}
	o := d.params(r)
	d.position(&o, r)
	if n := d.Opts.Poll.MaxEvents; n > 0 {
		o.Int("maxEvents", int64(n))
	}
	// A kept cursor would make the target hold the first poll, too, and with it
	// the confirmation.
	long := d.Opts.Poll.Timeout > 0 && !(first && r.begins != "")
	if long {
		o.Int("timeoutMs", d.Opts.Poll.Timeout.Milliseconds())
	}
	fromNow := first && r.begins == "" // cursor: null
	_, body := d.build(methodPoll, o, session)
	sent := d.Clock.Now()
	d.polling(r, sent, long)
	ctx, cancel := context.WithTimeout(r.Ctx, d.Opts.Timeout+d.Opts.Poll.Timeout)
	defer cancel()
	a := d.Call(ctx, methodPoll, session.Header(methodPoll, ""), body)
	defer a.Release()
	if a.Err != nil {
		if r.Ctx.Err() != nil { // given up by us: a request that cost something, and no failure of the target's
			given := a.Err
			a.Err = nil
			d.Called(cause, methodPoll, a)
			return failed, given
		}
		d.polled(r, sent, a, true, 0)
		failed.RetryAfter = a.Err.RetryAfter
		if retry {
			cause = eventmeter.Retry
		}
		d.Called(cause, methodPoll, a)
		if d.Lost(r.who, session, a.Err) {
			return failed, &mcpclient.CallError{Method: methodPoll, Status: a.Status, Kind: mcpclient.KindSession}
		}
		return failed, a.Err
	}
	r.Activate(a.At)
	if !a.Msg.Versioned {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, driver.WithoutVersion)
	}
	if first {
		d.begun(r, a.Msg.Truncated)
	}
	if a.Msg.Truncated && !first { // before the events: it is about what is missing in front of them
		d.Notice(r.Sub, eventmeter.Truncated, a.At, "")
	}
	still := len(a.Msg.Cursor) == 0 || string(a.Msg.Cursor) == "null" || r.at(a.Msg.Cursor)
	n, bytes, last := d.takeEvents(r, a)
	if n > 0 && fromNow {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, eventsFromNow)
	}
	if n > 0 && first {
		// The request opened the subscription; the events in its answer are no
		// part of what that cost.
		bytes = min(bytes, a.Down)
		a.Down -= bytes
		d.Recorder.Called(eventmeter.Call{Lane: d.Opts.Lane, Cause: eventmeter.Events, At: a.At, Down: bytes, Method: methodPoll})
	}
	switch {
	case n > 0 && !first:
		cause = eventmeter.Events
	case retry:
		cause = eventmeter.Retry
	}
	d.Called(cause, methodPoll, a)
	d.polled(r, sent, a, still, n)
	if n == 0 && !a.Msg.Truncated {
		d.claim(r, a.Msg.Cursor, a.At)
	}
	if last == (eventmeter.Stamp{}) {
		r.setCursor(a.Msg.Cursor)
	} else {
		d.comesWith(r, a.Msg.Cursor, last)
	}
	return sinks.PollAnswer{Events: n, More: a.Msg.HasMore, Moved: !still, Next: min(a.Msg.NextPoll, time.Hour)}, nil
}

// eventsFromNow is what is wrong with events in the answer to a poll without a
// cursor, which asks for what happens from then on.
const eventsFromNow = "events in the answer to cursor: null, which begins now"

// takeEvents reports the deliveries of a poll. It returns how many there were,
// their size, and the last one, which is zero if that had no probe id.
func (d *lane) takeEvents(r *run, a *mcpclient.Answer) (n int, bytes int64, last eventmeter.Stamp) {
	if a.Msg.Events == nil {
		return 0, 0, last
	}
	var f wire.Fields
	wire.Elements(a.Msg.Events, func(e []byte) bool {
		n++
		bytes += int64(len(e))
		last = eventmeter.Stamp{}
		if !wire.ScanFields(e, &f) {
			d.Notice(r.Sub, eventmeter.Malformed, a.At, "an event is not an object")
			return true
		}
		stamp, probed := eventmeter.FindStamp(e)
		last = stamp
		d.Delivered(eventmeter.Delivery{
			Sub: r.Sub, Stamp: stamp, Probed: probed, EventID: eventmeter.HashID(f.EventID), At: a.At, Bytes: len(e),
		}, &f, e)
		if len(f.EventID) == 0 {
			d.Notice(r.Sub, eventmeter.Malformed, a.At, driver.WithoutID)
		}
		return true
	})
	return n, bytes, last
}
