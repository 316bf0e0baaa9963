package sep975

import (
	"context"
	"errors"
	"net/http"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// link is one connection of a request. It is not a driver.Stream, which opens a connection
// again after each end. How a link ended (result, cut, refusal, silence) decides what the
// task does next, two links of a task may be open at once, and the answer may be plain
// JSON.
type link struct {
	t      *task
	req    request
	no     uint16
	parser wire.EventParser
	msg    wire.Resumable
	began  eventmeter.Instant
	at     eventmeter.Instant // of the current piece
	first  eventmeter.Instant // of the first message that is not an error; 0 = none yet
	head   int64              // bytes of the answer's head, and of an error
	// fresh is the bytes of new messages, again that of messages that had come before.
	fresh, again int64
	news         bool                 // a new message came
	result       bool                 // the result came
	over         *mcpclient.CallError // an error came
}

// answered records the first message that is not an error. The caller holds the task's
// lock.
func (l *link) answered() {
	if l.first != 0 {
		return
	}
	l.first = l.at
	if l.t.peek != nil {
		l.t.peek()
	}
	if l.req.pending {
		l.t.tally.sample("resumeToFirst", l.at.Sub(l.began))
	}
}

// connect sends a request and reads its answer to the end.
func (t *task) connect(ctx context.Context, req request) end {
	d := t.d
	t.mu.Lock()
	t.links++
	l := &link{t: t, req: req, no: t.links}
	t.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := 2 * max(d.Opts.Push.Heartbeat, d.set.Step)
	pulse := d.watch.Add(silence, func() { cancel(driver.ErrDead) })
	defer d.watch.Remove(pulse)

	l.began = d.Clock.Now()
	asks := req.on(ctx, &d.Caller)
	resp, err := d.Transport.RoundTrip(asks)
	if err == nil {
		resp.Request = asks
		l.head = mcpclient.ResponseSize(resp)
		if err = l.read(ctx, resp, pulse); errors.Is(err, driver.ErrEnded) {
			l.head += d.Patience.Rest(resp.Body)
		}
		resp.Body.Close()
	}
	e := l.ended(ctx, err)
	l.report(req.size(&d.Caller), e)
	return e
}

// read reads an answer, which is an event stream or a JSON object.
func (l *link) read(ctx context.Context, resp *http.Response, pulse *sinks.Pulse) error {
	d := l.t.d
	if resp.StatusCode > 299 || !mcpclient.IsEventStream(resp.Header) {
		a := &mcpclient.Answer{}
		defer a.Release()
		a.Read(ctx, &d.Caller, resp, l.req.method)
		l.at = a.At
		switch {
		case a.Err == nil:
			l.t.message(l, *a.Buf, len(*a.Buf))
		default:
			l.head += max(a.Down-l.head, 0)
			a.Err.Method = l.req.method
			l.over = a.Err
		}
		return nil
	}
	l.parser.Budget = d.Budget
	defer func() {
		l.t.heed(&l.parser)
		l.parser.Reset()
	}()
	return sinks.ReadStream(resp.Body, d.Clock, pulse, func(piece []byte, at eventmeter.Instant) error {
		l.at = at
		if err := l.parser.Feed(piece, func(e wire.Event) { l.event(ctx, resp, e) }); err != nil {
			d.TooLargeFor(l.t.r.Sub, at, err)
			return err
		}
		if l.result || l.over != nil {
			return driver.ErrEnded
		}
		return nil
	})
}

func (l *link) event(ctx context.Context, resp *http.Response, e wire.Event) {
	switch {
	case l.result || l.over != nil:
		return
	case len(e.Data) == 0:
		l.fresh += int64(e.Size) // a comment, or an id alone
	default:
		if !wire.EachMessage(e.Data, e.Size, func(text []byte, size int) bool {
			l.message(ctx, resp, text, size)
			return !l.result && l.over == nil
		}) {
			l.t.d.Notice(l.t.r.Sub, eventmeter.Malformed, l.at, driver.NotAnObject)
		}
	}
	if l.t.d.set.byID() {
		l.t.takeID(l, e.ID)
	}
}

// message handles one message, which may be a request of the server.
func (l *link) message(ctx context.Context, resp *http.Response, text []byte, size int) {
	if l.t.d.Asked(ctx, resp, text) {
		l.fresh += int64(size)
		return
	}
	l.t.message(l, text, size)
}

// ended returns how the connection ended. err is the error of reading it.
func (l *link) ended(ctx context.Context, err error) end {
	e := end{answered: l.first != 0, news: l.news}
	cause := context.Cause(ctx)
	switch {
	case l.result:
		e.kind = endResult
	case l.over != nil && l.over.Kind != "": // there was no valid answer
		e.kind, e.err = endBroken, l.over
	case l.over != nil && !e.answered:
		e.kind, e.err = endRefused, l.over
	case l.over != nil:
		e.kind, e.err = endError, l.over
	case errors.Is(cause, errCut):
		e.kind = endCut
	case errors.Is(cause, driver.ErrDead):
		e.kind, e.err = endBroken, &mcpclient.CallError{Method: l.req.method, Kind: "timeout", Cause: driver.ErrDead}
	case cause != nil:
		e.kind, e.err = endGone, &mcpclient.CallError{Method: l.req.method, Kind: "canceled", Cause: cause}
	case err == nil || errors.Is(err, driver.ErrEnded):
		e.kind = endHangUp
	default:
		e.kind, e.err = endBroken, mcpclient.TransportError(ctx, err)
		e.err.Method = l.req.method
	}
	if e.kind == endBroken && errors.Is(cause, errCut) {
		e.kind, e.err = endCut, nil
	}
	return e
}

// report reports the exchange: the request with its cause, new messages with the cause
// Events, and messages that had come before with the cause Reconnect. up is the size of the
// request.
func (l *link) report(up int64, e end) {
	d := l.t.d
	failure := ""
	if e.kind != endGone && !(l.req.refusable && (e.kind == endRefused || e.kind == endError)) {
		failure = e.err.Failure()
	}
	took := d.Clock.Now().Sub(l.began)
	if l.first != 0 {
		took = l.first.Sub(l.began)
	}
	c := eventmeter.Call{Cause: l.req.cause, Requests: 1, Up: up, Down: l.head, Took: took, Method: l.req.method, Failure: failure}
	if c.Cause == eventmeter.Events {
		c.Down += l.fresh
		l.fresh = 0
	}
	d.Report(c)
	if l.fresh > 0 {
		d.Report(eventmeter.Call{Cause: eventmeter.Events, Down: l.fresh, Method: l.req.method})
	}
	if l.again > 0 {
		d.Report(eventmeter.Call{Cause: eventmeter.Reconnect, Down: l.again, Method: l.req.method})
	}
}
