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

// Why this side ended a stream.
var (
	// ErrCut: the lane cut the stream on purpose.
	ErrCut = errors.New("the lane cut the stream on purpose")
	// ErrDead: the stream was silent for too long.
	ErrDead = errors.New("the stream was silent for twice the heartbeat interval")
	// ErrEnded: the last message of the stream was read.
	ErrEnded = errors.New("the stream has ended")
)

// StreamProtocol is the part of a [Stream] that its system implements. Its methods are
// called by one goroutine at a time. Only Request and Refused may block. A Stream has
// those methods that several systems share.
type StreamProtocol interface {
	// Request returns the request that opens the next connection. It may make calls
	// before, such as a handshake.
	Request(ctx context.Context) (StreamRequest, error)
	// Answered is called when the target has answered with a stream, before the first
	// message. Over a pipe it is called only for a stream without a request, as soon as
	// it is open.
	Answered()
	// Message is called for each message. The contents of e and m are valid until it
	// returns.
	Message(e wire.Event, m *wire.Message)
	// Comment is called for each block without data: a comment, or an id alone.
	Comment(e wire.Event)
	// Rand returns the random source of the stream's waits; nil = the global one. It is
	// called once at most.
	Rand() *rand.Rand
	// Confirmed is called by Confirm. again is true if an earlier connection was
	// confirmed, too.
	Confirmed(again bool)
	// Refused is called for an answer that is no stream. It returns the error of the
	// attempt: a.Err, or one that is more precise.
	Refused(a *mcpclient.Answer, session *mcpclient.Session) error
	// Over reports whether the stream is over after a connection, or an attempt to open
	// one, that ended with err; otherwise it is opened again. err is nil if the
	// connection ended normally, or was cut by the lane.
	Over(err error) bool
	// Called reports a call of the stream.
	Called(c eventmeter.Call)
	// Notice reports a notice to the subscriptions that the stream serves.
	Notice(k eventmeter.NoticeKind, at eventmeter.Instant, detail string)
	// TooLarge reports that a message exceeded a limit, which ended the connection.
	TooLarge(at eventmeter.Instant, err error)
}

// StreamRequest opens one connection of a stream.
type StreamRequest struct {
	Who     *mcpclient.Principal
	Session *mcpclient.Session
	Method  string // names the request in reports
	// ID is the id of the request in Body, which is sent with POST. 0 means that there
	// is no request: the stream is opened with a GET, and over a pipe it gets the
	// messages that name no request.
	ID     uint64
	Header http.Header // shared, not changed
	Body   []byte
	// Cancels is true if the end of a stream needs notifications/cancelled, because the
	// server does not take the end of the connection for it.
	Cancels bool
}

// Answered implements [StreamProtocol] for systems whose streams of the legacy era are
// confirmed by the answer.
func (s *Stream) Answered() {
	if s.id == 0 {
		s.Confirm(0)
	}
}

// Comment implements [StreamProtocol].
func (s *Stream) Comment(e wire.Event) { s.Overhead(e.Size, "comment") }

// Rand implements [StreamProtocol] with the global random source.
func (s *Stream) Rand() *rand.Rand { return nil }

// Called implements [StreamProtocol].
func (s *Stream) Called(c eventmeter.Call) { s.streams.caller.Recorder.Called(c) }

// TooLarge implements [StreamProtocol]: it reports to no subscription.
func (s *Stream) TooLarge(at eventmeter.Instant, err error) { s.streams.caller.TooLarge(at, err) }

// Stream is a stream that is opened again whenever it is lost. It has one connection
// after another.
//
// No goroutine waits for it: connect begins a connection, the stream client calls Opened,
// Piece and Closed, and the end leads to step, which sets a timer for the next connection
// or finishes the stream. One goroutine at a time does so; others use HangUp and GiveUp,
// which take mu.
type Stream struct {
	// What each message needs comes first, in two cache lines with what a system puts
	// before it: of thousands of streams, none is in the cache when its next message
	// arrives, and each line is a miss.
	p      StreamProtocol
	at     eventmeter.Instant
	waited time.Duration // how long the current message waited to be read; see Timed
	id     uint64

	cause     eventmeter.Cause
	begun     bool // the beginning of the current connection's stream was parsed
	kernel    bool // at is the kernel's receive time
	held      bool // the current message waited because of Hold
	shared    bool // the current message was read together with others
	splits    bool // a read has ended within a message: there is coalesced
	confirmed bool // of any connection
	admitted  bool // first is closed
	cut       bool // the lane cut the last connection
	watched   bool // for silence
	resend    bool // the request was refused with 401, and there is a new token
	renewed   bool // the request was sent again for that, and is not confirmed yet
	answered  bool // the target answered with a stream
	cancels   bool
	stands    bool // the current connection was confirmed
	ended     bool // the rest of the current connection is ignored

	parser  *wire.EventParser // nil between two messages, if the stream has nothing to keep
	opening *opening          // of the current connection; nil once it was confirmed
	rare    *rareStream       // nil until something of it is needed
	streams *Streams
	pulse   sinks.Pulse

	// The following fields are used only when connections begin and end, or splits is
	// set.
	coalesced *CoalescedReads
	turn      uint32 // of the connection; guarded by mu
	ctx       context.Context
	session   *mcpclient.Session // of the current connection
	header    http.Header        // of the request of the current connection
	method    string             // of the current connection

	mu    sync.Mutex
	conn  streamclient.Stream // nil while there is none, or it has just begun
	first chan struct{}       // of First; nil = nobody has asked for it
	lapse *lapse              // nil until something of it is needed
}

// Init initializes the stream.
func (s *Stream) Init(streams *Streams, p StreamProtocol) {
	s.streams, s.p, s.cause, s.opening = streams, p, eventmeter.Subscribe, &opening{}
}

// Start opens the stream, and keeps it open until ctx ends or Over of its protocol
// returns true. When ctx has ended, the caller must call HangUp.
func (s *Stream) Start(ctx context.Context) {
	s.ctx = ctx
	s.streams.work.Add(1) // until finish
	s.streams.work.Go(crash.Guarded(s.connect))
}

// Passes reports whether the error of an attempt passes with time and does not depend on
// the request: the server has no room now, no longer knows the session, or did not
// process the request.
func Passes(err error) bool {
	var ce *mcpclient.CallError
	return err == nil || errors.As(err, &ce) &&
		(ce.Throttled() || ce.Kind == mcpclient.KindSession || errors.Is(ce.Cause, streamclient.ErrRefusedStream))
}

// step is called after each connection, or attempt to open one. err is what ended it, nil
// if it ended normally.
func (s *Stream) step(err error) {
	if s.ctx.Err() != nil || s.p.Over(err) {
		s.finish(err)
		return
	}
	r := s.more()
	if s.stands {
		r.backoff.Reset()
		s.cause = eventmeter.Reconnect
	} else {
		s.cause = eventmeter.Retry
	}
	wait := r.backoff.Next(r.pause)
	told := r.pause > 0
	switch {
	case s.cut && s.streams.CutAlone:
		wait = s.streams.CutFor
	case s.cut:
		wait += s.streams.CutFor
	}
	var ce *mcpclient.CallError
	if errors.As(err, &ce) && ce.RetryAfter > 0 {
		wait += ce.RetryAfter
		told = true
	}
	s.streams.change(s, func(a *absence) { a.told, a.tries = told && !s.stands, false })
	s.mu.Lock()
	l := s.lapsed()
	l.failure = err
	if s.ctx.Err() == nil {
		l.timer = time.AfterFunc(wait, s.again)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.finish(err)
}

// again is called by the timer, on a goroutine of its own. The wait group has counted it
// since Start.
func (s *Stream) again() {
	defer crash.Guard()
	s.mu.Lock()
	s.lapse.timer = nil
	s.mu.Unlock()
	s.connect()
}

// finish ends the stream's work. It is called once.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	l := s.lapsed()
	l.failure, l.over = err, true
	settle(&l.done)
	settle(&s.first)
	s.mu.Unlock()
	if s.streams.life.Err() == nil { // otherwise the lane ends, and its subscriptions still ask for it
		s.streams.returned(s)
	}
	s.streams.work.Done()
}

// HangUp ends the current connection, or the wait for the next one. The stream's context
// must have ended.
func (s *Stream) HangUp() {
	s.mu.Lock()
	conn := s.conn
	var timer *time.Timer
	var failure error
	if l := s.lapse; l != nil {
		timer, failure = l.timer, l.failure
		l.timer = nil
	}
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	if timer != nil && timer.Stop() {
		s.finish(failure)
	}
}

// GiveUp ends the current connection, with why as its error, and the stream goes on with
// another one.
func (s *Stream) GiveUp(why error) {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.giveUp(turn, why)
}

// Hold stops reading the current connection for d, so that the target has to wait. It
// returns false if there is none. The silence does not count as that of the target.
func (s *Stream) Hold(d time.Duration) bool {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return false
	}
	s.pulse.Beat(s.streams.caller.Clock.Now().Add(d))
	conn.Hold(d)
	return true
}

// giveUp ends one connection, and the stream goes on with another one. It does nothing if
// the connection is over.
func (s *Stream) giveUp(turn uint32, why error) {
	s.mu.Lock()
	if s.turn != turn || s.why() != nil {
		s.mu.Unlock()
		return
	}
	s.lapsed().why = why
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// silent is a Stream that is watched for silence.
type silent Stream

// Dead implements sinks.Mortal.
func (d *silent) Dead() {
	s := (*Stream)(d)
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.giveUp(turn, ErrDead)
}

// connect begins a connection. There may be a handshake first.
func (s *Stream) connect() {
	s.stands, s.ended, s.answered, s.cut, s.begun, s.resend = false, false, false, false, false, false
	s.opening = &opening{}
	if s.rare != nil {
		s.rare.over = nil
	}
	req, err := s.p.Request(s.ctx)
	if err == nil {
		err = s.ctx.Err()
	}
	if err != nil {
		s.step(err)
		return
	}
	s.session, s.method, s.id, s.cancels, s.opening.who = req.Session, req.Method, req.ID, req.Cancels, req.Who
	s.header = req.Header
	if s.streams.caller.Pipe != nil {
		s.overPipe(&req)
		return
	}
	method := http.MethodPost
	if req.ID == 0 {
		method = http.MethodGet
	}
	path := s.streams.caller.URL.RequestURI()
	s.opening.bearer = mcpclient.Bearer(req.Header)
	s.opening.up = mcpclient.RequestSize(method, path, req.Header, int64(len(req.Body)))
	turn := s.begin()
	conn := s.streams.client.Open(
		context.Background(),
		streamclient.Request{Method: method, Path: path, Header: req.Header, Body: req.Body},
		s,
	)
	s.carriedBy(conn, turn) // from here on the stream client's goroutines use s
}

// begin is called right before a connection is begun. It returns its number.
func (s *Stream) begin() uint32 {
	s.mu.Lock()
	s.turn++
	turn := s.turn
	if s.lapse != nil {
		s.lapse.why = nil
	}
	s.mu.Unlock()
	if s.streams.Silence > 0 && !s.streams.Unpromised {
		s.Watch()
	}
	s.opening.began = s.streams.caller.Clock.Now()
	if s.confirmed {
		s.streams.change(s, func(a *absence) { a.asked, a.told, a.tries = s.opening.began, false, true })
	}
	return turn
}

// carriedBy stores the connection, so that it can be ended. If that was requested before,
// it ends the connection.
func (s *Stream) carriedBy(conn streamclient.Stream, turn uint32) {
	s.mu.Lock()
	late := false
	if s.turn == turn {
		s.conn = conn
		late = s.why() != nil || s.ctx.Err() != nil
	}
	s.mu.Unlock()
	if late {
		conn.Close()
	}
}

// isOver is called when the current connection is over. It returns why this side gave it
// up, nil if it did not.
func (s *Stream) isOver() error {
	s.mu.Lock()
	s.turn++
	why := s.why()
	s.conn = nil
	s.mu.Unlock()
	if s.watched {
		s.watched = false
		s.streams.watch.Remove(&s.pulse)
	}
	if r := s.rare; r != nil && r.cutter != nil {
		r.cutter.Stop()
		r.cutter = nil
	}
	return why
}

// broken reports the end of a connection, and returns the error that ended it, nil if it
// ended normally or was cut. why is why this side gave it up, nil if it did not.
func (s *Stream) broken(why, err error) error {
	var e *mcpclient.CallError
	if errors.As(err, &e) {
		e.Method = s.method
	}
	s.wentAway(why)
	switch {
	case s.ctx.Err() != nil: // this side ended the stream
		if !s.stands {
			s.report(nil)
		}
		return err
	case errors.Is(why, ErrCut): // this side ended the connection
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
