package dialect

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/internal/wire"
	"github.com/mcpload/mcpload/sinks"
)

// errDead is why a stream is given up that was silent for too long.
var errDead = errors.New("the stream was silent for twice the heartbeat interval")

// errUnheard is the same before its first message. A proxy that buffers keeps
// even the head of the answer until its buffer is full.
var errUnheard = errors.New("nothing came for twice the heartbeat interval: the server does not confirm the stream, or a proxy on the path buffers it")

// stream is what one open stream needs. A run has one, which serves all of its
// connections after one another.
type stream struct {
	d    *events
	r    *run
	take func(wire.Event)

	parser wire.EventParser
	msg    wire.Message
	clumps clumps

	// Of the connection at hand.
	id     uint64
	began  mcpload.Instant
	up     int64
	down   int64 // until it was confirmed
	at     mcpload.Instant
	cause  mcpload.Cause
	heard  bool // confirmed by the first message
	mixed  bool // a message of another subscription was noticed
	ended  bool // nothing more is taken from it
	over   *callError
	hangUp context.CancelCauseFunc
	outage
	confirm func() // told of the first confirmation of all
}

// attachPush opens a stream and waits until it is confirmed.
func (d *events) attachPush(ctx context.Context, r *run) error {
	confirmed := make(chan struct{})
	var failure error
	d.work.Go(func() {
		defer close(r.done)
		failure = d.serve(r, func() { close(confirmed) })
	})
	select {
	case <-confirmed:
		return nil
	case <-r.done:
		select { // confirmed and over at once
		case <-confirmed:
			return nil
		default:
		}
		if failure == nil {
			failure = notConfirmed(nil, context.Canceled)
		}
		return failure
	case <-ctx.Done():
		r.cancel()
		<-r.done
		var ce *callError
		if errors.As(failure, &ce) && ce.throttled() {
			return notConfirmed(ce, ctx.Err())
		}
		return notConfirmed(nil, ctx.Err())
	}
}

// serve keeps a subscription's stream open until the run is over or the target
// ends it for good. It returns why it could not be opened at first; later it
// reports instead.
func (d *events) serve(r *run, confirm func()) error {
	s := &stream{d: d, r: r, cause: mcpload.Subscribe}
	s.take = s.event
	opened := false
	s.confirm = func() {
		if !opened {
			opened = true
			confirm()
		}
	}
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax, Rand: r.rand}
	for {
		err := s.connect()
		if r.ctx.Err() != nil {
			return err
		}
		var ce *callError
		known := errors.As(err, &ce)
		lost := known && ce.kind == "session lost"
		switch {
		case !opened && !lost && !(known && ce.throttled()):
			return err
		case opened && known && ce.final():
			d.notice(r, mcpload.Terminated, d.clock.Now(), err.Error())
			d.fail(r, err)
			return nil
		case s.heard:
			backoff.Reset()
			s.cause = mcpload.Reconnect
		default:
			if opened && err != nil {
				d.notice(r, mcpload.TransientError, d.clock.Now(), err.Error())
			}
			s.cause = mcpload.Retry
		}
		wait := backoff.Next(0) + s.absence()
		if known && ce.retryAfter > 0 {
			wait += ce.retryAfter
		}
		if !sinks.Sleep(r.ctx, wait) {
			return err
		}
	}
}

// connect opens one connection's stream and reads it to its end. nil means
// that the server ended it in order.
func (s *stream) connect() error {
	d, r := s.d, s.r
	s.heard, s.mixed, s.ended, s.over, s.down = false, false, false, nil, 0
	agreed, err := d.agreement(r.ctx, r)
	if err != nil {
		return err
	}
	o := d.params(nil, r)
	d.position(&o, r)
	id, body := d.build(methodStream, o, agreed)
	s.id = id

	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	s.hangUp = cancel
	defer s.endCut()
	pulse := d.watch.Add(2*d.opts.Push.Heartbeat, func() { cancel(errDead) })
	defer d.watch.Remove(pulse)

	if d.pipe != nil {
		return s.connectPipe(ctx, body, pulse)
	}
	header := agreed.headers[methodStream]
	s.up = requestSize(http.MethodPost, d.url.RequestURI(), header, int64(len(body)))
	s.began = d.clock.Now()
	resp, err := d.transport.RoundTrip(d.request(ctx, header, body))
	if err != nil {
		return s.broken(ctx, transportError(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 || !isEventStream(resp.Header) {
		return s.refused(ctx, resp, agreed)
	}
	s.down = responseSize(resp)
	s.parser.Reset()
	s.clumps = clumps{}
	err = sinks.ReadStream(resp.Body, d.clock, pulse, s.piece)
	if agreed.era == Legacy && r.ctx.Err() != nil {
		s.cancelled(agreed)
	}
	switch {
	case s.over != nil:
		return s.broken(ctx, s.over)
	case err == nil || errors.Is(err, errEnded):
		return s.broken(ctx, nil)
	}
	return s.broken(ctx, transportError(ctx, err))
}

// errEnded ends the reading of a stream whose last message was read.
var errEnded = errors.New("the stream has ended")

// piece takes the next bytes of the stream.
func (s *stream) piece(b []byte, at mcpload.Instant) error {
	s.at = at
	if err := s.parser.Feed(b, s.take); err != nil {
		s.d.notice(s.r, mcpload.Malformed, at, err.Error())
		return err
	}
	if s.clumps.piece(len(b), at, s.parser.Partial() > 0) {
		s.d.tally.count(figureClumped, 1)
	}
	if s.ended {
		return errEnded
	}
	return nil
}

// broken reports the end of a connection, and says what kind of end it was.
func (s *stream) broken(ctx context.Context, e *callError) error {
	d, r := s.d, s.r
	if e != nil {
		e.method = methodStream
	}
	s.wentAway(context.Cause(ctx))
	switch {
	case r.ctx.Err() != nil: // our own doing
		if !s.heard {
			s.report(nil)
		}
	case context.Cause(ctx) == errCut: // likewise
		return nil
	case context.Cause(ctx) == errDead:
		e = &callError{method: methodStream, kind: "timeout", cause: errUnheard}
		if s.heard {
			e.cause = errDead
			d.notice(r, mcpload.DeadStream, d.clock.Now(), errDead.Error())
		} else {
			s.report(e)
		}
	case !s.heard:
		if e == nil {
			e = &callError{method: methodStream, kind: kindProtocol, message: "the stream ended before it was confirmed"}
		}
		s.report(e)
	}
	if e == nil {
		return nil
	}
	return e
}

// refused reads an answer that is no stream.
func (s *stream) refused(ctx context.Context, resp *http.Response, agreed *agreement) error {
	a := &answer{}
	defer a.release()
	a.read(ctx, &s.d.caller, resp, methodStream)
	s.down = a.down
	if a.err == nil {
		a.err = &callError{kind: kindProtocol, message: "answered without a stream", status: a.status}
	}
	a.err.method = methodStream
	s.report(a.err)
	if s.d.lost(s.r, agreed, a.err) {
		return &callError{method: methodStream, kind: "session lost", status: a.status}
	}
	return a.err
}

// report tells of the request that opened the stream, once.
func (s *stream) report(e *callError) {
	now := s.at
	if now < s.began {
		now = s.d.clock.Now()
	}
	s.d.rec.Called(mcpload.Call{
		Lane: s.d.opts.Lane, Cause: s.cause, At: now, Requests: 1, Up: s.up, Down: s.down,
		Connections: s.d.traffic.TakeOpened(), Took: now.Sub(s.began), Method: methodStream, Failure: e.failure(),
	})
}

// confirmed notes the first message of a connection: the subscription stands.
// That should be "active"; a server that forgot it and sends events is taken
// at its deeds.
func (s *stream) confirmed(size int) {
	if s.heard {
		return
	}
	s.heard = true
	s.down += int64(size)
	s.report(nil)
	s.planCut()
	if s.cause != mcpload.Subscribe && s.wasActive() {
		s.cameBack()
		s.d.notice(s.r, mcpload.Reconnected, s.at, "")
		return
	}
	s.d.activate(s.r, s.at)
	s.confirm()
}

func (s *stream) wasActive() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.r.active
}

// cancelled tells a legacy server that the request is over: there, closing the
// stream says nothing.
func (s *stream) cancelled(agreed *agreement) {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(s.id))
	body := wire.AppendNotification(nil, methodCancelled, o.End())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.r.ctx), cancelTime)
	defer cancel()
	a := s.d.call(ctx, methodCancelled, agreed.headers[methodCancelled], body)
	defer a.release()
	if a.err != nil && a.err.kind == kindProtocol {
		a.err = nil // a notification has no answer
	}
	s.d.called(mcpload.Unsubscribe, methodCancelled, a)
}

// event takes one message off the stream.
func (s *stream) event(e wire.Event) {
	if s.ended {
		return
	}
	if len(e.Data) == 0 { // a comment, or the first event of a resumable stream
		s.overhead(e.Size, "comment")
		return
	}
	m := &s.msg
	if !wire.ScanMessage(e.Data, m) {
		s.d.notice(s.r, mcpload.Malformed, s.at, "a message is not a JSON object")
		return
	}
	s.message(e.Data, e.Size, m)
}

// message takes one message that was read.
func (s *stream) message(data []byte, size int, m *wire.Message) {
	if m.Method == nil {
		s.answered(size, m)
		return
	}
	if !s.mine(m) && !s.mixed {
		s.mixed = true
		s.d.notice(s.r, mcpload.Malformed, s.at, "a message names another subscription than its stream")
	}
	switch string(m.Method) {
	case "notifications/events/event":
		s.confirmed(0)
		stamp, probed := mcpload.FindStamp(data)
		s.d.rec.Delivered(mcpload.Delivery{
			Sub: s.r.sub, Stamp: stamp, Probed: probed, EventID: mcpload.HashID(m.EventID), At: s.at, Bytes: size,
		})
		s.d.look(s.r, s.at, mcpload.HashID(m.EventID), &m.Fields, data)
		if s.back != 0 && probed {
			s.tellReplayed(stamp)
		}
	case "notifications/events/active":
		s.isActive(size, m)
	case "notifications/events/heartbeat":
		s.confirmed(0)
		s.overhead(size, "notifications/events/heartbeat")
	case "notifications/events/error":
		s.overhead(size, "notifications/events/error")
		s.d.notice(s.r, mcpload.TransientError, s.at, faultText(m))
	case "notifications/events/terminated":
		s.overhead(size, "notifications/events/terminated")
		s.terminated(m)
		return
	default: // progress, logs, requests of the server
		s.overhead(size, "other")
		return
	}
	s.r.setCursor(m.Cursor)
}

// isActive handles a confirmation, which announces a gap if the stream was
// active before.
func (s *stream) isActive(size int, m *wire.Message) {
	was := s.wasActive()
	if s.heard {
		s.overhead(size, "notifications/events/active")
	} else {
		s.confirmed(size)
	}
	if !was {
		s.d.resumed(s.r, m.Truncated)
	}
	if was && m.Truncated {
		s.d.notice(s.r, mcpload.Truncated, s.at, "")
	}
}

// overhead counts bytes of an open stream that carried no event. Before the
// stream is confirmed they belong to the call that opened it.
func (s *stream) overhead(size int, method string) {
	if !s.heard {
		s.down += int64(size)
		return
	}
	s.d.rec.Called(mcpload.Call{Lane: s.d.opts.Lane, Cause: mcpload.Heartbeat, At: s.at, Down: int64(size), Method: method})
}

// terminated ends the subscription, unless what ended it passes.
func (s *stream) terminated(m *wire.Message) {
	s.ended = true
	e := &callError{method: methodStream, hasCode: true, code: m.Fault.Code, message: string(m.Fault.Message)}
	s.over = e
	if passing(m.Fault.Code) {
		s.d.notice(s.r, mcpload.TransientError, s.at, "terminated: "+faultText(m))
		return
	}
	s.d.notice(s.r, mcpload.Terminated, s.at, faultText(m))
	if s.wasActive() {
		s.d.fail(s.r, e)
		s.r.cancel()
	}
}

// answered handles the response that ends the stream.
func (s *stream) answered(size int, m *wire.Message) {
	s.overhead(size, "response")
	if !m.HasResult && !m.HasError {
		s.d.notice(s.r, mcpload.Malformed, s.at, "a message is neither notification nor answer")
		return
	}
	s.ended = true
	if m.HasError {
		s.over = &callError{method: methodStream, hasCode: true, code: m.Error.Code, message: string(m.Error.Message)}
	}
}

// mine tells whether a message that names a subscription names this one.
func (s *stream) mine(m *wire.Message) bool {
	tok := m.SubscriptionID
	if tok == nil {
		tok = m.RequestID
	}
	if tok == nil {
		return true
	}
	var buf [22]byte
	want := strconv.AppendUint(buf[:0], s.id, 10)
	if n := len(tok); n > 2 && tok[0] == '"' { // some servers make strings of ids
		tok = tok[1 : n-1]
	}
	return string(tok) == string(want)
}

func faultText(m *wire.Message) string {
	if !m.HasFault {
		return "no error given"
	}
	return "rpc " + strconv.FormatInt(m.Fault.Code, 10) + ": " + string(m.Fault.Message)
}
