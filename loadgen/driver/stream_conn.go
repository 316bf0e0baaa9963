package driver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Opened implements streamclient.Sink.
func (s *Stream) Opened(h streamclient.Head, at streamclient.Arrival) error {
	s.at = eventmeter.Instant(at.At)
	s.pulse.Beat(s.at)
	if h.Status > 299 || !mcpclient.IsEventStream(h.Header) {
		s.opening.refusal = newUnopened(h, s.streams.caller.Budget)
		return nil
	}
	if coding := mcpclient.Compressed(h.Header); coding != "" {
		return &mcpclient.CallError{
			Kind:    mcpclient.KindProtocol,
			Status:  h.Status,
			Message: errtext.Of("the stream is compressed (" + coding + "), which was not asked for"),
		}
	}
	s.answered = true
	s.opening.down = h.Size
	s.coalesced, s.splits = nil, false
	s.p.Answered()
	s.admit()
	return nil
}

// messages has scanners of messages, and parsers the parsers of streams. A stream
// keeps no scanner, and a parser only while that has something to keep: within a message,
// or after one with an id. Between two messages a stream needs neither.
var (
	messages = sync.Pool{New: func() any { return &wire.Repeat{Memo: eventmeter.ProbeLen} }}
	parsers  = sync.Pool{New: func() any { return new(wire.EventParser) }}
)

// Piece implements streamclient.Sink: the next bytes of the stream.
func (s *Stream) Piece(b []byte, at streamclient.Arrival) error {
	if o := s.opening; o != nil && o.refusal != nil { // no beat: a refusal that trickles in must time out
		return o.refusal.take(b)
	}
	s.at, s.kernel, s.held, s.waited = eventmeter.Instant(at.At), at.Kernel, at.Held, 0
	if at.Kernel {
		s.waited = time.Duration(at.Read - at.At)
	}
	p := s.parser
	if p == nil {
		p = parsers.Get().(*wire.EventParser)
		p.Resume(s.begun, s.streams.caller.Budget)
		s.begun = true
	}
	s.shared = at.Shared
	err := p.Feed(b, s.event)
	if s.parser = p; p.Idle() {
		s.parser = nil
		parsers.Put(p)
	}
	if err != nil {
		s.p.TooLarge(s.at, err)
		return err
	}
	s.reads(len(b))
	s.admit()
	if s.ended {
		return ErrEnded
	}
	return nil
}

// reads is called after a read of n bytes. It looks for coalesced reads, and keeps the
// stream alive in the middle of a message.
func (s *Stream) reads(n int) {
	ends := s.parser != nil && s.parser.Partial() > 0
	if ends {
		s.pulse.Beat(s.at)
		if !s.splits {
			s.coalesced, s.splits = &CoalescedReads{}, true
		}
	}
	if s.splits && !s.held && s.coalesced.Piece(n, s.at, ends) {
		s.streams.count(FigureCoalesced)
	}
}

// event handles one block of the stream.
func (s *Stream) event(e wire.Event) {
	if s.ended {
		return
	}
	if len(e.Data) == 0 {
		if s.streams.Comments {
			s.pulse.Beat(s.at)
		}
		s.p.Comment(e)
		return
	}
	s.pulse.Beat(s.at)
	if !wire.IsBatch(e.Data) {
		s.message(e)
		return
	}
	if !wire.EachMessage(e.Data, e.Size, func(text []byte, size int) bool {
		e.Data, e.Size = text, size
		s.message(e)
		return !s.ended
	}) {
		s.p.Notice(eventmeter.Malformed, s.at, NotAnObject)
	}
}

// message handles one message of the stream.
func (s *Stream) message(e wire.Event) {
	scan := messages.Get().(*wire.Repeat)
	if m, ok := scan.Scan(e.Data); ok {
		shared := s.shared
		s.shared = shared || e.Rest > 0
		s.p.Message(e, m)
		s.shared = shared
		if mcpclient.IsRequest(m) {
			s.reply(m)
		}
	} else {
		s.p.Notice(eventmeter.Malformed, s.at, NotAnObject)
	}
	messages.Put(scan)
}

// reply answers a request of the server. The stream is read on: the server may wait for the
// answer before it takes it. Of a stream, few are under way at once, as a server that does
// not take them may send requests without end.
func (s *Stream) reply(m *wire.Message) {
	r := s.more()
	if len(m.ID) > mcpclient.MaxReplyID || r.replies.Load() >= maxReplies {
		return
	}
	r.replies.Add(1)
	response, header := mcpclient.ReplyTo(m), s.session.StreamHeader() // has the current token
	if id := s.header.Get(mcpclient.HeaderSession); id != "" {
		header.Set(mcpclient.HeaderSession, id) // some protocols have sessions of their own
	}
	s.streams.work.Go(func() {
		defer crash.Guard()
		defer r.replies.Add(-1)
		select {
		case s.streams.replies <- struct{}{}:
			defer func() { <-s.streams.replies }()
			s.streams.caller.Reply(s.streams.life, header, response)
		case <-s.streams.life.Done():
		}
	})
}

// admit closes the channel of First, once the stream was confirmed.
func (s *Stream) admit() {
	if s.confirmed && !s.admitted {
		s.admitted = true
		s.mu.Lock()
		defer s.mu.Unlock()
		settle(&s.first)
	}
}

// Closed implements streamclient.Sink: the connection is over.
func (s *Stream) Closed(err error) {
	why := s.isOver()
	if p := s.parser; p != nil {
		s.parser = nil
		if _, asked := p.Retry(); asked {
			s.more().pause = mcpclient.Pause(p, 0)
		}
		p.Reset()
		parsers.Put(p)
	}
	switch {
	case s.opening != nil && s.opening.refusal != nil: // forgetting a session takes a call
		s.streams.work.Go(func() {
			defer crash.Guard()
			if refusal := s.refused(err); s.resend {
				s.connect()
			} else {
				s.step(refusal)
			}
		})
	case s.answered && s.cancels && s.ctx.Err() != nil:
		s.streams.work.Go(func() {
			defer crash.Guard()
			s.cancel()
			s.step(s.broken(why, s.failed(err, why)))
		})
	default:
		s.step(s.broken(why, s.failed(err, why)))
	}
}

// failed returns the error of a connection that the stream client ended with err, nil if
// it ended normally.
func (s *Stream) failed(err, why error) error {
	var own *mcpclient.CallError
	switch {
	case s.rare != nil && s.rare.over != nil:
		return s.rare.over
	case errors.As(err, &own): // an error of Opened or Piece
		return own
	case s.answered && (errors.Is(err, ErrEnded) || isWhole(err)):
		return nil
	case s.ctx.Err() != nil || why != nil:
		return &mcpclient.CallError{Kind: mcpclient.KindOf(context.Canceled), Cause: context.Canceled}
	}
	return &mcpclient.CallError{Kind: mcpclient.KindOf(err), Cause: err}
}

// refused handles an answer that is no stream, and returns the error of the attempt. err
// is how the answer ended.
func (s *Stream) refused(err error) error {
	o := s.opening
	f := o.refusal
	o.refusal = nil
	defer f.drop()
	header := f.head.Header
	if f.parser != nil { // body is the response, without the event stream around it
		header = header.Clone()
		header.Set("Content-Type", "application/json")
	}
	o.down = f.head.Size + f.size
	var failed *mcpclient.CallError
	if s.resend, failed = s.renew(header, f.head.Status); failed != nil {
		s.report(&mcpclient.CallError{Status: http.StatusUnauthorized})
		return failed
	} else if s.resend {
		return nil
	}
	var body io.Reader = bytes.NewReader(mcpclient.HideToken(f.body, o.bearer))
	if !isWhole(err) && !errors.Is(err, ErrEnded) {
		body = io.MultiReader(body, brokenReader{err})
	}
	a := &mcpclient.Answer{}
	if s.id != 0 {
		a.Want = strconv.AppendUint(nil, s.id, 10)
	}
	defer a.Release()
	a.Read(s.ctx, s.streams.caller, &http.Response{StatusCode: f.head.Status, Header: header, Body: io.NopCloser(body)}, s.method)
	if a.Err == nil {
		a.Err = &mcpclient.CallError{Kind: mcpclient.KindProtocol, Message: "answered without a stream", Status: a.Status}
	}
	a.Err.Method = s.method
	s.report(a.Err)
	return s.p.Refused(a, s.session)
}

// renew gets a new token if the target refused the stream with 401, once until the next
// confirmation. It reports whether there is a new token. The error says why there is none.
func (s *Stream) renew(header http.Header, status int) (bool, *mcpclient.CallError) {
	if status != http.StatusUnauthorized || s.renewed {
		return false, nil
	}
	again, err := s.opening.who.Renew(s.ctx, s.opening.bearer, header, s.exchange(), s.streams.observe)
	s.renewed = again
	return again, err
}

// exchange returns the call of the request that opened the stream.
func (s *Stream) exchange() eventmeter.Call {
	now := s.at
	o := s.opening
	if now < o.began {
		now = s.streams.caller.Clock.Now()
	}
	c := eventmeter.Call{
		Lane: s.streams.caller.Lane, Cause: s.cause, At: now, Requests: 1, Up: o.up, Down: o.down,
		Took: now.Sub(o.began), Method: s.method,
	}
	if s.id == 0 && s.streams.caller.Pipe != nil { // nothing had to be sent
		c.Requests = 0
	}
	return c
}

// report reports the request that opened the stream, once.
func (s *Stream) report(e *mcpclient.CallError) {
	c := s.exchange()
	c.Connections, c.Failure = s.streams.sockets.TakeOpened(), e.Failure()
	s.p.Called(c)
}

// Confirm marks the current connection as confirmed. size is the size of the
// confirmation in bytes, if it was not passed to Overhead.
func (s *Stream) Confirm(size int) {
	if s.stands {
		return
	}
	s.stands, s.renewed = true, false
	s.opening.down += int64(size)
	s.report(nil)
	s.opening = nil
	s.planCut()
	again := s.confirmed
	s.confirmed = true
	if again {
		r := s.more()
		if t := s.streams.Tally; t != nil && r.lost != 0 {
			t.Took("outage", s.at.Sub(r.lost))
		}
		r.lost, r.back = 0, s.at
		s.streams.returned(s)
	}
	s.p.Confirmed(again)
}

// End ends the current connection and ignores the rest of it. err is what ended it, nil
// if it ended normally.
func (s *Stream) End(err error) {
	s.ended = true
	if err != nil || s.rare != nil {
		s.more().over = err
	}
}

// Watch starts to watch the current connection for silence.
func (s *Stream) Watch() {
	if !s.watched {
		s.watched = true
		s.streams.watch.Start(&s.pulse, s.streams.Silence, (*silent)(s))
	}
}

// Overhead counts size bytes of the stream that carried no event. Before the stream is
// confirmed they belong to the call that opened it.
func (s *Stream) Overhead(size int, method string) {
	if !s.stands {
		s.opening.down += int64(size)
		return
	}
	s.p.Called(eventmeter.Call{Lane: s.streams.caller.Lane, Cause: eventmeter.Heartbeat, At: s.at, Down: int64(size), Method: method})
}

// Stands reports whether the current connection, or the last one, was confirmed.
func (s *Stream) Stands() bool { return s.stands }

// WasConfirmed reports whether any connection was confirmed.
func (s *Stream) WasConfirmed() bool { return s.confirmed }

// At returns when the current message arrived.
func (s *Stream) At() eventmeter.Instant { return s.at }

// Held reports whether the current message waited because of [Stream.Hold].
func (s *Stream) Held() bool { return s.held }

// Back returns when the stream was last confirmed again after it was lost; 0 = never.
func (s *Stream) Back() eventmeter.Instant {
	if s.rare == nil {
		return 0
	}
	return s.rare.back
}

// Cause returns the cause of the request that opened the current connection.
func (s *Stream) Cause() eventmeter.Cause { return s.cause }

// ID returns the id of the connection's request; 0 = there is none.
func (s *Stream) ID() uint64 { return s.id }

// Timed sets the time of a delivery to that of the current message, and how exact it is.
func (s *Stream) Timed(v *eventmeter.Delivery) {
	v.At, v.Kernel, v.Shared, v.Waited = s.at, s.kernel, s.shared, s.waited
}

// planCut sets the timer that cuts a stream that was just confirmed.
func (s *Stream) planCut() {
	every := s.streams.CutEvery
	if every <= 0 {
		return
	}
	share := rand.Float64
	if r := s.more().backoff.Rand; r != nil {
		share = r.Float64
	}
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.rare.cutter = time.AfterFunc(time.Duration(float64(every)*(0.5+share())), func() {
		defer crash.Guard()
		s.giveUp(turn, ErrCut)
	})
}

// wentAway records when the stream was lost, and counts cuts.
func (s *Stream) wentAway(why error) {
	if s.stands && s.ctx.Err() == nil && s.more().lost == 0 {
		s.rare.lost = s.streams.caller.Clock.Now()
		s.streams.left(s, absence{lost: s.rare.lost, asked: s.rare.back})
	}
	s.cut = errors.Is(why, ErrCut) && s.ctx.Err() == nil
	if s.cut {
		s.streams.count("cuts")
	}
}

// cancel tells the server that the stream has ended.
func (s *Stream) cancel() {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(s.id))
	body := wire.Notification(mcpclient.MethodCancelled, o.End())
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.ctx), mcpclient.CancelTime)
	defer stop()
	a := s.streams.caller.Notify(ctx, mcpclient.MethodCancelled, s.session.Header(mcpclient.MethodCancelled, ""), body)
	defer a.Release()
	s.p.Called(eventmeter.Call{
		Lane: s.streams.caller.Lane, Cause: eventmeter.Unsubscribe, At: a.At, Requests: 1, Up: a.Up, Down: a.Down, Took: a.Took,
		Connections: s.streams.sockets.TakeOpened(), Method: mcpclient.MethodCancelled, Failure: a.Err.Failure(),
	})
}

// Probe returns the probe id of an event and the hash of its id. m is the message, and data
// its text. Neighbouring messages are often copies of one event, so both are kept with m.
func Probe(m *wire.Message, data []byte) (stamp eventmeter.Stamp, probed bool, id uint64) {
	k := &m.Memo
	if !k.Set {
		stamp, probed = eventmeter.FindStamp(data)
		*k = wire.Memo{
			Set:     true,
			Probed:  probed,
			EventID: eventmeter.HashID(m.EventID),
			Probe:   [3]uint32{stamp.Run, uint32(stamp.Source), stamp.Seq},
		}
	}
	return eventmeter.Stamp{Run: k.Probe[0], Source: uint16(k.Probe[1]), Seq: k.Probe[2]}, k.Probed, k.EventID
}
