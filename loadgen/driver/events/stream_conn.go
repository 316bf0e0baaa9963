package events

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// unopened is an answer that is no stream, as far as it has come.
type unopened struct {
	head   streamclient.Head
	size   int64
	body   []byte // of an event stream, the response in it
	hold   budget.Hold
	parser *wire.EventParser // nil unless it is an event stream
}

func newUnopened(h streamclient.Head, b *budget.Budget) *unopened {
	f := &unopened{head: h, hold: budget.Of(b)}
	if mcpclient.IsEventStream(h.Header) {
		f.parser = &wire.EventParser{Limit: mcpclient.MaxRefusal, Budget: b}
	}
	return f
}

// Opened implements pump.Sink.
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
	s.clumps = driver.CoalescedReads{}
	return nil
}

// Piece implements pump.Sink: the next bytes of the stream.
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
	if s.clumps.Piece(len(b), s.at, s.parser.Partial() > 0) {
		s.d.tally.Count(driver.FigureCoalesced, 1)
	}
	if s.ended {
		return driver.ErrEnded
	}
	return nil
}

// take keeps a piece of the refusal. What comes as an event stream is over with
// its answer, whether the server closes it or not.
func (f *unopened) take(b []byte) error {
	f.size += int64(len(b))
	if f.parser == nil {
		return f.keep(b)
	}
	var full error
	if err := f.parser.Feed(b, func(e wire.Event) {
		var m wire.Message
		if f.body == nil && wire.ScanMessage(e.Data, &m) && m.Method == nil && (m.HasResult || m.HasError) {
			full = f.keep(e.Data)
		}
	}); err != nil {
		return err
	}
	if full == nil && f.body != nil {
		full = driver.ErrEnded
	}
	return full
}

func (f *unopened) keep(b []byte) error {
	if len(f.body)+len(b) > mcpclient.MaxRefusal {
		return wire.ErrTooLarge
	}
	f.body = append(f.body, b...)
	return f.hold.Resize(cap(f.body))
}

// drop gives up what is held.
func (f *unopened) drop() {
	f.body = nil
	f.hold.Drop()
	if f.parser != nil {
		f.parser.Reset()
	}
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
	var body io.Reader = bytes.NewReader(f.body)
	if !isWhole(err) && !errors.Is(err, driver.ErrEnded) {
		body = io.MultiReader(body, brokenReader{err})
	}
	a := &mcpclient.Answer{Want: strconv.AppendUint(nil, s.id, 10)}
	defer a.Release()
	a.Read(s.r.Ctx, &s.d.Caller, &http.Response{StatusCode: f.head.Status, Header: header, Body: io.NopCloser(body)}, methodStream)
	s.down = f.head.Size + f.size
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	a.Err.Method = methodStream
	s.report(a.Err)
	if s.d.lost(s.r, s.agreed, a.Err) {
		return &mcpclient.CallError{Method: methodStream, Kind: mcpclient.KindSession, Status: a.Status}
	}
	return a.Err
}

// report tells of the request that opened the stream, once.
func (s *stream) report(e *mcpclient.CallError) {
	now := s.at
	if now < s.began {
		now = s.d.Clock.Now()
	}
	s.d.Recorder.Called(eventmeter.Call{
		Lane: s.d.opts.Lane, Cause: s.cause, At: now, Requests: 1, Up: s.up, Down: s.down,
		Connections: s.d.traffic.TakeOpened(), Took: now.Sub(s.began), Method: methodStream, Failure: e.Failure(),
	})
}

// confirmed notes the first message of a connection: the subscription stands.
// That should be "active"; a server that forgot it and sends events is taken
// at its appliedFaults.
func (s *stream) confirmed(size int) {
	if s.heard {
		return
	}
	s.heard = true
	s.down += int64(size)
	s.report(nil)
	s.planCut()
	if s.cause != eventmeter.Subscribe && s.r.WasActive() {
		s.cameBack()
		s.d.notice(s.r, eventmeter.Reconnected, s.at, "")
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
func (s *stream) cancelled(agreed *mcpclient.Session) {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(s.id))
	body := wire.AppendNotification(nil, mcpclient.MethodCancelled, o.End())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.r.Ctx), mcpclient.CancelTime)
	defer cancel()
	a := s.d.Call(ctx, mcpclient.MethodCancelled, agreed.Header(mcpclient.MethodCancelled, ""), body)
	defer a.Release()
	if a.Err != nil && a.Err.Kind == mcpclient.KindProtocol {
		a.Err = nil // a notification has no answer
	}
	s.d.called(eventmeter.Unsubscribe, mcpclient.MethodCancelled, a)
}

// isWhole tells whether an answer ended in order.
func isWhole(err error) bool { return errors.Is(err, io.EOF) }

// brokenReader is the end of a body that broke.
type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
