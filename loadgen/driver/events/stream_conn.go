package events

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Opened implements streamclient.Sink.
func (s *stream) Opened(h streamclient.Head, at streamclient.Arrival) error {
	s.pulse.Beat(eventmeter.Instant(at.At))
	if h.Status > 299 || !mcpclient.IsEventStream(h.Header) {
		s.refusal = newUnopened(h, s.d.Budget)
		return nil
	}
	if coding := mcpclient.Compressed(h.Header); coding != "" {
		return &mcpclient.CallError{Kind: mcpclient.KindProtocol, Status: h.Status, Message: errtext.Of("the stream is compressed (" + coding + "), which was not asked for")}
	}
	s.answer = true
	s.down = h.Size
	s.coalesced = driver.CoalescedReads{}
	return nil
}

// Piece implements streamclient.Sink: the next bytes of the stream.
func (s *stream) Piece(b []byte, at streamclient.Arrival) error {
	if s.refusal != nil { // one that trickles in is given up as silence is
		return s.refusal.take(b)
	}
	s.at, s.arrival = eventmeter.Instant(at.At), at
	if err := s.parser.Feed(b, s.event); err != nil {
		s.d.TooLargeFor(s.r.Sub, s.at, err)
		return err
	}
	if s.parser.Partial() > 0 { // in the middle of a message
		s.pulse.Beat(s.at)
	}
	if s.coalesced.Piece(len(b), s.at, s.parser.Partial() > 0) {
		s.d.tally.Count(driver.FigureCoalesced, 1)
	}
	if s.ended {
		return driver.ErrEnded
	}
	return nil
}

// refused judges an answer that is no stream. err is how it ended.
func (s *stream) refused(err error) error {
	f := s.refusal
	s.refusal = nil
	defer f.drop()
	header := f.head.Header
	if f.parser != nil { // the response was taken out of it
		header = header.Clone()
		header.Set("Content-Type", "application/json")
	}
	s.down = f.head.Size + f.size
	var failed *mcpclient.CallError
	if s.resend, failed = s.renew(header, f.head.Status); s.resend || failed != nil {
		return s.withoutToken(failed)
	}
	var body io.Reader = bytes.NewReader(mcpclient.HideToken(f.body, s.bearer))
	if !isWhole(err) && !errors.Is(err, driver.ErrEnded) {
		body = io.MultiReader(body, brokenReader{err})
	}
	a := &mcpclient.Answer{Want: strconv.AppendUint(nil, s.id, 10)}
	defer a.Release()
	a.Read(s.r.Ctx, &s.d.Caller, &http.Response{StatusCode: f.head.Status, Header: header, Body: io.NopCloser(body)}, methodStream)
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	a.Err.Method = methodStream
	s.report(a.Err)
	if s.d.Lost(s.r.who, s.session, a.Err) {
		return &mcpclient.CallError{Method: methodStream, Kind: mcpclient.KindSession, Status: a.Status}
	}
	return a.Err
}

// renew gets a new token where the target refused the stream because its token
// had expired, once until a stream is confirmed. The error says that there is
// none.
func (s *stream) renew(header http.Header, status int) (bool, *mcpclient.CallError) {
	if status != http.StatusUnauthorized || s.renewed {
		return false, nil
	}
	again, err := s.r.who.Renew(s.r.Ctx, s.bearer, header, s.exchange(), s.d.Observe)
	s.renewed = again
	return again, err
}

// withoutToken reports a stream that was refused and for which there is no new
// token; it does nothing if err is nil.
func (s *stream) withoutToken(err *mcpclient.CallError) error {
	if err == nil {
		return nil
	}
	s.report(&mcpclient.CallError{Status: http.StatusUnauthorized})
	return err
}

// exchange is the request that opened the stream, as it is reported.
func (s *stream) exchange() eventmeter.Call {
	now := s.at
	if now < s.began {
		now = s.d.Clock.Now()
	}
	return eventmeter.Call{
		Lane: s.d.Opts.Lane, Cause: s.cause, At: now, Requests: 1, Up: s.up, Down: s.down,
		Took: now.Sub(s.began), Method: methodStream,
	}
}

// report reports the request that opened the stream, once.
func (s *stream) report(e *mcpclient.CallError) {
	call := s.exchange()
	call.Connections, call.Failure = s.d.Sockets.TakeOpened(), e.Failure()
	s.d.Recorder.Called(call)
}

// confirmed notes the first message of a connection: the subscription stands.
// That should be "active"; a server that forgot it and sends events is taken
// at its appliedFaults.
func (s *stream) confirmed(size int) {
	if s.heard {
		return
	}
	s.heard, s.renewed = true, false
	s.down += int64(size)
	s.report(nil)
	s.planCut()
	if s.cause != eventmeter.Subscribe && s.r.WasActive() {
		s.cameBack()
		s.d.Notice(s.r.Sub, eventmeter.Reconnected, s.at, "")
		return
	}
	s.r.Activate(s.at)
	if !s.opened {
		s.opened = true
		close(s.first)
		s.first = nil
	}
}

// cancelled tells a legacy server that the request is over: there, closing the
// stream says nothing.
func (s *stream) cancelled(session *mcpclient.Session) {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(s.id))
	body := wire.AppendNotification(nil, mcpclient.MethodCancelled, o.End())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.r.Ctx), mcpclient.CancelTime)
	defer cancel()
	a := s.d.Call(ctx, mcpclient.MethodCancelled, session.Header(mcpclient.MethodCancelled, ""), body)
	defer a.Release()
	if a.Err != nil && a.Err.Kind == mcpclient.KindProtocol {
		a.Err = nil // a notification has no answer
	}
	s.d.Called(eventmeter.Unsubscribe, mcpclient.MethodCancelled, a)
}
