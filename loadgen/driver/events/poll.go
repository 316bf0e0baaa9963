package events

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// poller is the state of a run that polls.
type poller struct {
	caught eventmeter.Instant // when the last poll was sent whose answer had no hasMore; guarded by the run's Mu

	// Used by the goroutine that polls: time and nextPoll of the last answer without
	// hasMore; at is 0 after the next poll.
	at   eventmeter.Instant
	next time.Duration
	more bool // the last answer had hasMore
}

// Behind implements [driver.Asker].
func (d *lane) Behind(since eventmeter.Instant) (behind, open int) {
	if d.Opts.Mode != eventmeter.Poll {
		return d.Lane.Behind(since)
	}
	now := d.Clock.Now()
	for _, r := range d.Attached() {
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

// polling records that a poll is sent, and counts what set its time.
func (d *lane) polling(r *run, at eventmeter.Instant, long bool) {
	p := &r.poller
	if p.at != 0 {
		d.tally.Took("pollInterval", at.Sub(p.at))
		paced := "pollsPacedByMinInterval"
		if p.next > 0 && p.next >= d.Opts.Poll.MinInterval {
			paced = "pollsPacedByServer"
			d.tally.Took("nextPoll", p.next)
		}
		d.tally.Count(paced, 1)
		p.at = 0
	}
	r.Mu.Lock()
	r.Held = long && !p.more
	r.Mu.Unlock()
}

// polled records the answer, or the failure, of the poll that was sent at sent. It had n
// events; still is true if its cursor did not move.
func (d *lane) polled(r *run, sent eventmeter.Instant, a *mcpclient.Answer, still bool, n int) {
	p := &r.poller
	failed := a.Err != nil
	// hasMore without events or a new cursor would lead to the same answer.
	p.more = !failed && a.Msg.HasMore && (n > 0 || !still)
	if !failed && a.Msg.HasMore && !p.more {
		d.tally.Count("hasMoreUnmoved", 1)
	}
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

// attachPoll makes the first poll, which determines where the subscription begins, and
// starts the goroutine that makes the others.
func (d *lane) attachPoll(ctx context.Context, r *run) error {
	backoff := d.Backoff(r.rand)
	stop := context.AfterFunc(ctx, r.Cancel)
	first, err := driver.RetryThrottled(ctx, &backoff, func(cause eventmeter.Cause) (sinks.PollAnswer, error) {
		return d.poll(r, eventmeter.Subscribe, cause == eventmeter.Retry)
	})
	if !stop() && err == nil {
		err = driver.NotConfirmed(nil, ctx.Err())
	}
	if err != nil {
		close(r.done)
		return err
	}
	loop := &sinks.PollLoop{
		MinInterval: d.Opts.Poll.MinInterval,
		Rand:        r.rand,
		Stuck:       func(reason string) { d.Notice(r.Sub, eventmeter.Malformed, d.Clock.Now(), reason) },
	}
	loop.Backoff = backoff
	loop.Backoff.Reset()
	d.Work.Go(func() {
		defer crash.Guard()
		defer close(r.done)
		retry := false
		loop.Run(r.Ctx(), first, func(context.Context) sinks.PollAnswer {
			a, err := d.poll(r, eventmeter.EmptyPoll, retry)
			retry = a.Failed
			var ce *mcpclient.CallError
			switch {
			case err == nil || r.Ctx().Err() != nil:
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

// poll makes one poll and reports it. cause is the cause of a poll without events. With
// an error the PollAnswer has Failed set.
func (d *lane) poll(r *run, cause eventmeter.Cause, retry bool) (sinks.PollAnswer, error) {
	first := cause == eventmeter.Subscribe
	session, err := d.session(r.Ctx(), r)
	if err != nil {
		return sinks.PollAnswer{Failed: true}, err
	}
	o := d.params(r)
	d.position(&o, r)
	if n := d.Opts.Poll.MaxEvents; n > 0 {
		o.Int("maxEvents", int64(n))
	}
	// A kept cursor would make the target hold the first poll, too, and with it
	// the confirmation.
	long := d.Opts.Poll.Timeout > 0 && !(first && r.begins != beginsNow)
	if long {
		o.Int("timeoutMs", d.Opts.Poll.Timeout.Milliseconds())
	}
	fromNow := first && r.begins == beginsNow // cursor: null
	_, body := d.build(methodPoll, o, session)
	sent := d.Clock.Now()
	d.polling(r, sent, long)
	ctx, cancel := context.WithTimeout(r.Ctx(), d.Opts.Timeout+d.Opts.Poll.Timeout)
	defer cancel()
	a := d.Call(ctx, methodPoll, session.Header(methodPoll, ""), body)
	defer a.Release()
	if a.Err != nil {
		return d.pollFailed(r, session, a, sent, cause, retry)
	}
	r.Activate(a.At)
	if !a.Msg.Versioned {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, driver.WithoutVersion)
	}
	truncated := r.begunAnew() || a.Msg.Truncated
	if first {
		d.begun(r, a.At, truncated)
	}
	if truncated && !first { // reported first: the gap precedes the events
		d.Notice(r.Sub, eventmeter.Truncated, a.At, "")
	}
	still := len(a.Msg.Cursor) == 0 || string(a.Msg.Cursor) == "null" || r.at(a.Msg.Cursor)
	n, bytes, last := d.takeEvents(r, a)
	d.judgePoll(r, a, fromNow, still, n)
	if n > 0 && fromNow {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, eventsFromNow)
	}
	d.calledPoll(cause, a, n, bytes, retry)
	d.polled(r, sent, a, still, n)
	if n == 0 && !truncated {
		d.claim(r, a.Msg.Cursor, a.At)
	}
	if last == (eventmeter.Stamp{}) {
		r.setCursor(a.Msg.Cursor)
	} else {
		d.comesWith(r, a.Msg.Cursor, last)
	}
	return sinks.PollAnswer{Events: n, More: a.Msg.HasMore, Moved: !still, Next: min(a.Msg.NextPoll, time.Hour)}, nil
}

// calledPoll reports the request of a poll that brought n events.
func (d *lane) calledPoll(cause eventmeter.Cause, a *mcpclient.Answer, n int, bytes int64, retry bool) {
	first := cause == eventmeter.Subscribe
	if n > 0 && first {
		// The events in the answer are not part of the cost of opening the
		// subscription.
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
}

// pollFailed reports a poll that got no answer, or an error.
func (d *lane) pollFailed(
	r *run,
	session *mcpclient.Session,
	a *mcpclient.Answer,
	sent eventmeter.Instant,
	cause eventmeter.Cause,
	retry bool,
) (sinks.PollAnswer, error) {
	failed, first := sinks.PollAnswer{Failed: true}, cause == eventmeter.Subscribe
	if r.Ctx().Err() != nil { // this side gave it up: a call, but no failure of the target
		given := a.Err
		a.Err = nil
		d.Called(cause, methodPoll, a)
		return failed, given
	}
	d.polled(r, sent, a, true, 0)
	failed.RetryAfter = a.Err.RetryAfter
	d.judgePollFailed(r, a)
	if retry {
		cause = eventmeter.Retry
	}
	d.Called(cause, methodPoll, a)
	if d.heed(r, a.Err) {
		if first {
			return d.poll(r, cause, true)
		}
		return sinks.PollAnswer{Moved: true}, nil
	}
	return failed, r.who.Refusal(session, a.Err)
}

// eventsFromNow is the detail of the notice about events in the answer to a poll without a
// cursor, which subscribes to later events only.
const eventsFromNow = "events in the answer to cursor: null, which begins now"

// eventsBefore is the detail of the notice about events that are not in the answer to a
// poll. They are not delivered.
const eventsBefore = "events as notifications before the answer to a poll"

// takeEvents reports the deliveries of a poll. It returns their number, their size in
// bytes, and the stamp of the last one, which is zero if it has no probe id.
func (d *lane) takeEvents(r *run, a *mcpclient.Answer) (n int, bytes int64, last eventmeter.Stamp) {
	if slices.Contains(a.Before, "notifications/events/event") {
		d.Notice(r.Sub, eventmeter.Malformed, a.At, eventsBefore)
	}
	if a.Msg.Events == nil {
		return 0, 0, last
	}
	var f wire.Fields
	wire.Elements(a.Msg.Events, func(e []byte) bool {
		n++
		bytes += int64(len(e))
		last = eventmeter.Stamp{}
		if !wire.ScanFields(e, &f) {
			d.broke(r, a.At, conform.PollEventsArray, e)
			d.Notice(r.Sub, eventmeter.Malformed, a.At, "an event is not an object")
			return true
		}
		d.saw(r, conform.PollOccurrence)
		d.judgeEvent(r, a.At, &f, e)
		if f.Cursor != nil && a.Msg.Cursor == nil {
			d.broke(r, a.At, conform.PollResponseCursor, e)
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
