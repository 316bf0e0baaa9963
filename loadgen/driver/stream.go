package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Why a stream ends that the target did not end by itself.
var (
	// ErrCut: the lane cut it on purpose.
	ErrCut = errors.New("the lane cut the stream on purpose")
	// ErrDead: it was silent for too long.
	ErrDead = errors.New("the stream was silent for twice the heartbeat interval")
	// ErrEnded: its last message was read.
	ErrEnded = errors.New("the stream has ended")
)

// StreamProtocol is what a system knows of a [Stream]. One goroutine at a time
// calls its methods. They must not block but where it is said.
type StreamProtocol interface {
	// Request returns what opens the next connection. It may make calls before,
	// such as a handshake, and block.
	Request(ctx context.Context) (StreamRequest, error)
	// Answered is called when the target has answered with a stream, before its
	// first message. Over a pipe, only a stream without a request is answered,
	// as soon as it is open.
	Answered()
	// Message takes one message. What e and m refer to is valid until it returns.
	Message(e wire.Event, m *wire.Message)
	// Comment takes what has no data: a comment, or an id alone.
	Comment(e wire.Event)
	// Confirmed is called by Confirm. again says that an earlier connection was
	// confirmed, too.
	Confirmed(again bool)
	// Refused judges an answer that is no stream. It returns the error of the
	// attempt, which is a.Err unless the system knows better. It may block.
	Refused(a *mcpclient.Answer, session *mcpclient.Session) error
	// Over tells whether the stream is not opened again after a connection, or an
	// attempt at one, that ended with err; nil = in order, or cut by the lane.
	Over(err error) bool
	// Called reports a call of the stream.
	Called(c eventmeter.Call)
	// Notice reports something that happened to those whom the stream serves.
	Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string)
	// TooLarge reports a message that exceeds a bound, and ended the connection.
	TooLarge(at eventmeter.Instant, err error)
}

// StreamRequest opens one connection of a stream.
type StreamRequest struct {
	Who     *mcpclient.Principal
	Session *mcpclient.Session
	Method  string // in reports
	// ID is that of the request in Body, which is sent with POST. 0 is no request:
	// a GET, and over a pipe everything that names no request.
	ID     uint64
	Header http.Header // not written
	Body   []byte
	// Cancels says that a server has to be told that the stream is not wanted any
	// more, because it does not take the end of a connection for that.
	Cancels bool
}

// Stream is a stream that is opened again whenever it is lost. It serves all of
// its connections after one another.
//
// Nothing waits for it: a connection is begun by connect, lives on what the
// stream client reports (Opened, Piece, Closed), and its end leads to step, which sets a
// timer for the next one or finishes the stream. Whatever of this is under way is
// one goroutine at a time; others come in by HangUp and GiveUp, under mu.
type Stream struct {
	streams *Streams
	p       StreamProtocol
	ctx     context.Context

	parser    wire.EventParser
	coalesced CoalescedReads
	pulse     sinks.Pulse
	backoff   sinks.Backoff
	pause     time.Duration // as the server asked for

	done chan struct{} // closed when there will be no more connections

	// Of the connection at hand.
	who     *mcpclient.Principal
	session *mcpclient.Session
	refusal *unopened // an answer that is no stream
	bearer  string    // the token of the request, where tokens expire
	method  string
	id      uint64
	began   eventmeter.Instant
	up      int64
	down    int64 // until it was confirmed
	at      eventmeter.Instant
	arrival streamclient.Arrival
	over    error // what ended it, of what was read
	cause   eventmeter.Cause

	confirmed bool // of any connection
	admitted  bool // first is closed
	cut       bool // the last end was the lane's own doing
	shared    bool // more than the message at hand was read
	watched   bool // for silence
	resend    bool // the request was refused with 401, and there is a new token
	renewed   bool // it was sent again for that, and is not confirmed yet
	answered  bool // a stream was answered
	cancels   bool
	stands    bool // confirmed
	ended     bool // nothing more is taken from it

	lost   eventmeter.Instant // when it was, 0 = it is there
	back   eventmeter.Instant // when it was last confirmed again
	cutter *time.Timer

	mu      sync.Mutex
	turn    uint32              // of the connection; odd while there is one
	conn    streamclient.Stream // nil while there is none, or it was only just begun
	why     error               // why the connection at hand is given up by us
	timer   *time.Timer         // of the next connection
	failure error               // what ended the last connection
	first   chan struct{}       // closed at the first confirmation of all; confirmed from then on
}

// Init makes the stream ready for Start. r is the source of its waits; nil = the
// process's own.
func (s *Stream) Init(streams *Streams, p StreamProtocol, r *rand.Rand) {
	s.streams, s.p, s.cause = streams, p, eventmeter.Subscribe
	s.parser.Budget = streams.caller.Budget
	s.backoff = streams.backoff
	s.backoff.Rand = r
	s.first, s.done = make(chan struct{}), make(chan struct{})
}

// Start opens the stream, and keeps it open until ctx is over or the protocol
// says that it is. When ctx is over, HangUp has to be called.
func (s *Stream) Start(ctx context.Context) {
	s.ctx = ctx
	s.streams.work.Add(1) // until finish
	s.streams.work.Go(crash.Guarded(s.connect))
}

// First is closed when the stream was confirmed for the first time, and all was
// taken that was read with the confirmation.
func (s *Stream) First() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// confirmed is what First returns of every stream that was: a channel of its own
// would stay with each of thousands.
var confirmed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done is closed when there will be no more connections.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Failure returns what ended the last connection.
func (s *Stream) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Passes tells whether what ended an attempt passes with time and says nothing
// about what was asked for: a server that has no room now, a session that is
// gone, or a stream that the server did not look at.
func Passes(err error) bool {
	var ce *mcpclient.CallError
	return err == nil || errors.As(err, &ce) &&
		(ce.Throttled() || ce.Kind == mcpclient.KindSession || errors.Is(ce.Cause, streamclient.ErrRefusedStream))
}

// step goes on after a connection, or an attempt at one: err is what ended it,
// nil if it ended in order.
func (s *Stream) step(err error) {
	if s.ctx.Err() != nil || s.p.Over(err) {
		s.finish(err)
		return
	}
	if s.stands {
		s.backoff.Reset()
		s.cause = eventmeter.Reconnect
	} else {
		s.cause = eventmeter.Retry
	}
	wait := s.backoff.Next(s.pause)
	switch {
	case s.cut && s.streams.CutAlone:
		wait = s.streams.CutFor
	case s.cut:
		wait += s.streams.CutFor
	}
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && ce.RetryAfter > 0 {
		wait += ce.RetryAfter
	}
	s.mu.Lock()
	s.failure = err
	if s.ctx.Err() == nil {
		s.timer = time.AfterFunc(wait, s.again)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.finish(err)
}

// again is called by the timer. It has a goroutine of its own, which counts as
// the stream's.
func (s *Stream) again() {
	defer crash.Guard()
	s.mu.Lock()
	s.timer = nil
	s.mu.Unlock()
	s.connect()
}

// finish ends the stream's work. It is called once.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	s.failure = err
	s.mu.Unlock()
	close(s.done)
	s.streams.work.Done()
}

// HangUp ends the connection at hand, or the wait for the next one. The
// stream's context must be over.
func (s *Stream) HangUp() {
	s.mu.Lock()
	conn, timer, failure := s.conn, s.timer, s.failure
	s.timer = nil
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	if timer != nil && timer.Stop() {
		s.finish(failure)
	}
}

// GiveUp ends the connection at hand, with why as the error that ended it, and
// the stream goes on with another.
func (s *Stream) GiveUp(why error) {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.giveUp(turn, why)
}

// giveUp ends one connection, and the stream goes on with another. It does
// nothing if that one is over.
func (s *Stream) giveUp(turn uint32, why error) {
	s.mu.Lock()
	if s.turn != turn || s.why != nil {
		s.mu.Unlock()
		return
	}
	s.why = why
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// dead is called when the stream was silent for too long.
func (s *Stream) dead() {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.giveUp(turn, ErrDead)
}

// connect begins a connection. There may be a handshake first.
func (s *Stream) connect() {
	s.stands, s.ended, s.answered, s.cut, s.over, s.down, s.refusal, s.resend = false, false, false, false, nil, 0, nil, false
	req, err := s.p.Request(s.ctx)
	if err == nil {
		err = s.ctx.Err()
	}
	if err != nil {
		s.step(err)
		return
	}
	s.who, s.session, s.method, s.id, s.cancels = req.Who, req.Session, req.Method, req.ID, req.Cancels
	if s.streams.caller.Pipe != nil {
		s.overPipe(&req)
		return
	}
	method := http.MethodPost
	if req.ID == 0 {
		method = http.MethodGet
	}
	path := s.streams.caller.URL.RequestURI()
	s.bearer = mcpclient.Bearer(req.Header)
	s.up = mcpclient.RequestSize(method, path, req.Header, int64(len(req.Body)))
	turn := s.begin()
	conn := s.streams.client.Open(context.Background(), streamclient.Request{Method: method, Path: path, Header: req.Header, Body: req.Body}, s)
	s.carriedBy(conn, turn) // from here on the stream is the stream client's
}

// begin is called right before a connection is begun. It returns its number.
func (s *Stream) begin() uint32 {
	s.mu.Lock()
	s.turn++
	turn := s.turn
	s.why = nil
	s.mu.Unlock()
	if s.streams.Silence > 0 && !s.streams.Unpromised {
		s.Watch()
	}
	s.began = s.streams.caller.Clock.Now()
	return turn
}

// carriedBy says what ends the connection. It may be over already, or have to
// be ended.
func (s *Stream) carriedBy(conn streamclient.Stream, turn uint32) {
	s.mu.Lock()
	late := false
	if s.turn == turn {
		s.conn = conn
		late = s.why != nil || s.ctx.Err() != nil
	}
	s.mu.Unlock()
	if late {
		conn.Close()
	}
}

// isOver is called when the connection at hand is over. It returns why it was
// given up by us, nil if it was not.
func (s *Stream) isOver() error {
	s.mu.Lock()
	s.turn++
	why := s.why
	s.conn = nil
	s.mu.Unlock()
	if s.watched {
		s.watched = false
		s.streams.watch.Remove(&s.pulse)
	}
	if s.cutter != nil {
		s.cutter.Stop()
		s.cutter = nil
	}
	return why
}

// broken reports the end of a connection, and says what kind of end it was.
// why is why it was given up by us, nil if it was not.
func (s *Stream) broken(why, err error) error {
	var e *mcpclient.CallError
	if errors.As(err, &e) {
		e.Method = s.method
	}
	s.wentAway(why)
	switch {
	case s.ctx.Err() != nil: // our own doing
		if !s.stands {
			s.report(nil)
		}
		return err
	case errors.Is(why, ErrCut): // our own doing, too
		return nil
	case errors.Is(why, ErrDead):
		e = &mcpclient.CallError{Method: s.method, Kind: "timeout", Cause: mcpclient.ErrSilentFromStart}
		if err = e; s.stands {
			e.Cause = ErrDead
			s.p.Notice(eventmeter.DeadStream, s.streams.caller.Clock.Now(), ErrDead.Error())
		}
	case why != nil:
		e, err = nil, why
		errors.As(why, &e)
	case !s.stands && err == nil:
		e = &mcpclient.CallError{Method: s.method, Kind: mcpclient.KindProtocol, Message: "the stream ended before it was confirmed"}
		err = e
	}
	if !s.stands {
		s.report(e)
	}
	return err
}
