package events

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// outage follows a stream that is lost and comes back.
type outage struct {
	lost   eventmeter.Instant // when it was, 0 = it is there
	back   eventmeter.Instant // when it was last confirmed again
	cut    bool               // the last end was our own doing
	cutter *time.Timer
}

// planCut lets a stream that was just confirmed live for a while.
func (s *stream) planCut() {
	every := s.d.set.CutEvery
	if every <= 0 {
		return
	}
	life := time.Duration(float64(every) * (0.5 + s.r.rand.Float64()))
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.cutter = time.AfterFunc(life, func() {
		defer crash.Guard()
		s.giveUp(turn, driver.ErrCut)
	})
}

// endCut forgets what was planned.
func (s *stream) endCut() {
	if s.cutter != nil {
		s.cutter.Stop()
		s.cutter = nil
	}
}

// wentAway notes the end of a connection, and whether it was cut.
func (s *stream) wentAway(cause error) {
	if s.heard && s.lost == 0 {
		s.lost = s.d.Clock.Now()
	}
	s.cut = errors.Is(cause, driver.ErrCut) && s.r.Ctx.Err() == nil
	if s.cut {
		s.d.tally.Count("cuts", 1)
	}
}

// cameBack notes the confirmation of a stream that was confirmed before.
func (s *stream) cameBack() {
	if s.lost != 0 {
		s.d.tally.Took("outage", s.at.Sub(s.lost))
	}
	s.lost, s.back = 0, s.at
}

// absence is how long a stream that was cut stays away.
func (s *stream) absence() time.Duration {
	if !s.cut {
		return 0
	}
	return s.d.set.CutFor
}

// tellReplayed counts an event that had happened before the stream was back.
func (s *stream) tellReplayed(stamp eventmeter.Stamp) {
	if s.d.Opts.Published == nil {
		return
	}
	if at := s.d.Opts.Published.AckedAt(stamp); at != 0 && at < s.back {
		s.d.tally.Count("replayedOnReconnect", 1)
	}
}

// stream is what one open stream needs. A run has one, which serves all of its
// connections after one another.
//
// Nothing waits for it: a connection is begun by connect, lives on what the
// stream client reports (Opened, Piece, Closed), and its end leads to step, which sets a
// timer for the next one or finishes the run. Whatever of this is under way is
// one goroutine at a time; others come in by hangUp, under mu.
type stream struct {
	d *lane
	r *run

	parser    wire.EventParser
	coalesced driver.CoalescedReads
	pulse     sinks.Pulse
	backoff   sinks.Backoff
	pause     time.Duration // see pause

	first   chan struct{} // closed at the first confirmation of all, then nil
	opened  bool          // was confirmed once
	failure error         // why the run was never confirmed; valid when it is done

	// Of the connection at hand.
	session *mcpclient.Session
	refusal *unopened // an answer that is no stream
	id      uint64
	began   eventmeter.Instant
	bearer  string // the token of the request, where tokens expire
	resend  bool   // it was refused with 401, and there is a new token
	renewed bool   // it was sent again for that, and is not confirmed yet
	up      int64
	down    int64 // until it was confirmed
	at      eventmeter.Instant
	arrival streamclient.Arrival
	cause   eventmeter.Cause
	shared  bool // more than the message at hand was read
	answer  bool // a stream was answered
	heard   bool // confirmed by the first message
	mixed   bool // a message of another subscription was noticed
	ended   bool // nothing more is taken from it
	over    *mcpclient.CallError
	outage

	mu    sync.Mutex
	turn  uint32              // of the connection; odd while there is one
	conn  streamclient.Stream // nil while there is none, or it was only just begun
	why   error               // why the connection at hand is given up by us
	timer *time.Timer         // of the next connection
}

// newStream makes the stream of a run, and has the run's cancel end it.
func (d *lane) newStream(r *run) *stream {
	s := &stream{d: d, r: r, cause: eventmeter.Subscribe, parser: wire.EventParser{Budget: d.Budget}}
	s.backoff = d.StreamBackoff(r.rand)
	cancel := r.Cancel
	r.Cancel = func() {
		cancel()
		s.hangUp()
	}
	return s
}

// attachPush opens a stream and waits until it is confirmed.
func (d *lane) attachPush(ctx context.Context, r *run) error {
	s := r.stream
	confirmed := make(chan struct{})
	s.first = confirmed
	d.Work.Add(1) // until finish
	d.Work.Go(crash.Guarded(s.connect))
	select {
	case <-confirmed:
		return nil
	case <-r.done:
		select { // confirmed and over at once
		case <-confirmed:
			return nil
		default:
		}
		if s.failure == nil {
			return driver.NotConfirmed(nil, context.Canceled)
		}
		return s.failure
	case <-ctx.Done():
		r.Cancel()
		<-r.done
		var ce *mcpclient.CallError
		if errors.As(s.failure, &ce) && ce.Throttled() {
			return driver.NotConfirmed(ce, ctx.Err())
		}
		return driver.NotConfirmed(nil, ctx.Err())
	}
}

// step goes on after a connection, or an attempt at one: err is what ended it,
// nil if the server ended it in order. The first connection has to succeed;
// from then on the stream is kept open until the run is over or the target ends
// it for good.
func (s *stream) step(err error) {
	d, r := s.d, s.r
	if r.Ctx.Err() != nil {
		s.finish(err)
		return
	}
	var ce *mcpclient.CallError
	known := errors.As(err, &ce)
	// Neither a session that is gone nor a stream that the server did not look
	// at says anything about the subscription.
	lost := known && (ce.Kind == mcpclient.KindSession || errors.Is(ce.Cause, streamclient.ErrRefusedStream))
	switch {
	case !s.opened && !lost && !(known && ce.Throttled()):
		s.finish(err)
		return
	case s.opened && known && ce.Final():
		d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), err.Error())
		r.Fail(err)
		s.finish(nil)
		return
	case s.heard:
		s.backoff.Reset()
		s.cause = eventmeter.Reconnect
	default:
		if s.opened && err != nil {
			d.Notice(r.Sub, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
		s.cause = eventmeter.Retry
	}
	wait := s.backoff.Next(s.pause) + s.absence()
	if known && ce.RetryAfter > 0 {
		wait += ce.RetryAfter
	}
	s.failure = err
	s.mu.Lock()
	if r.Ctx.Err() == nil {
		s.timer = time.AfterFunc(wait, s.again)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.finish(err)
}

// again is called by the timer. It has a goroutine of its own, which counts as
// the run's.
func (s *stream) again() {
	s.mu.Lock()
	s.timer = nil
	s.mu.Unlock()
	s.connect()
}

// finish ends the run's work. It is called once.
func (s *stream) finish(err error) {
	s.failure = err
	close(s.r.done)
	s.d.Work.Done()
}

// hangUp ends the connection at hand, or the wait for the next one; the run's
// context is over.
func (s *stream) hangUp() {
	s.mu.Lock()
	conn, timer := s.conn, s.timer
	s.timer = nil
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	if timer != nil && timer.Stop() {
		s.finish(s.failure)
	}
}

// giveUp ends one connection, and the stream goes on with another. It does
// nothing if that one is over.
func (s *stream) giveUp(turn uint32, why error) {
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
func (s *stream) dead() {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	s.giveUp(turn, driver.ErrDead)
}

// connect begins a connection. There may be a handshake first.
func (s *stream) connect() {
	d, r := s.d, s.r
	s.heard, s.mixed, s.ended, s.answer, s.over, s.down, s.refusal, s.resend = false, false, false, false, nil, 0, nil, false
	session, err := d.session(r.Ctx, r)
	if err == nil {
		err = r.Ctx.Err()
	}
	if err != nil {
		s.step(err)
		return
	}
	o := d.params(r)
	d.position(&o, r)
	id, body := d.build(methodStream, o, session)
	s.id, s.session = id, session
	if d.Pipe != nil {
		s.overPipe(body)
		return
	}
	header := session.Header(methodStream, "")
	s.bearer = mcpclient.Bearer(header)
	s.up = mcpclient.RequestSize(http.MethodPost, d.URL.RequestURI(), header, int64(len(body)))

	turn := s.begin()
	conn := d.streams.Open(context.Background(), streamclient.Request{Method: http.MethodPost, Path: d.URL.RequestURI(), Header: header, Body: body}, s)

	s.carriedBy(conn, turn) // from here on the stream is the stream client's
}

// begin is called right before a connection is begun. It returns its number.
func (s *stream) begin() uint32 {
	s.mu.Lock()
	s.turn++
	turn := s.turn
	s.why = nil
	s.mu.Unlock()
	s.d.watch.Start(&s.pulse, 2*s.d.Opts.Push.Heartbeat, s.dead)
	s.began = s.d.Clock.Now()
	return turn
}

// carriedBy says what ends the connection. It may be over already, or have to
// be ended.
func (s *stream) carriedBy(conn streamclient.Stream, turn uint32) {
	s.mu.Lock()
	late := false
	if s.turn == turn {
		s.conn = conn
		late = s.why != nil || s.r.Ctx.Err() != nil
	}
	s.mu.Unlock()
	if late {
		conn.Close()
	}
}

// isOver is called when the connection at hand is over. It returns why it was
// given up by us, nil if it was not.
func (s *stream) isOver() error {
	s.mu.Lock()
	s.turn++
	why := s.why
	s.conn = nil
	s.mu.Unlock()
	s.d.watch.Remove(&s.pulse)
	s.endCut()
	return why
}

// Closed implements streamclient.Sink: the connection is over.
func (s *stream) Closed(err error) {
	why := s.isOver()
	s.pause = mcpclient.Pause(&s.parser, s.pause)
	s.parser.Reset()
	switch {
	case s.refusal != nil: // forgetting a session takes a call
		s.d.Work.Go(func() {
			defer crash.Guard()
			if refusal := s.refused(err); s.resend {
				s.connect()
			} else {
				s.step(refusal)
			}
		})
	case s.answer && s.session.Era == mcpclient.Legacy && s.r.Ctx.Err() != nil:
		s.d.Work.Go(func() {
			defer crash.Guard()
			s.cancelled(s.session)
			s.step(s.broken(why, s.failed(err, why)))
		})
	default:
		s.step(s.broken(why, s.failed(err, why)))
	}
}

// failed makes the error of a connection out of what the stream client said; nil if it
// ended in order.
func (s *stream) failed(err, why error) *mcpclient.CallError {
	var own *mcpclient.CallError
	switch {
	case s.over != nil:
		return s.over
	case errors.As(err, &own): // what we found wrong with it
		return own
	case s.answer && (errors.Is(err, driver.ErrEnded) || isWhole(err)):
		return nil
	case s.r.Ctx.Err() != nil || why != nil:
		return &mcpclient.CallError{Kind: mcpclient.KindOf(context.Canceled), Cause: context.Canceled}
	}
	return &mcpclient.CallError{Kind: mcpclient.KindOf(err), Cause: err}
}

// broken reports the end of a connection, and says what kind of end it was.
// why is why it was given up by us, nil if it was not.
func (s *stream) broken(why error, e *mcpclient.CallError) error {
	d, r := s.d, s.r
	if e != nil {
		e.Method = methodStream
	}
	s.wentAway(why)
	switch {
	case r.Ctx.Err() != nil: // our own doing
		if !s.heard {
			s.report(nil)
		}
	case errors.Is(why, driver.ErrCut): // our own doing, too
		return nil
	case errors.Is(why, driver.ErrDead):
		e = &mcpclient.CallError{Method: methodStream, Kind: "timeout", Cause: mcpclient.ErrSilentFromStart}
		if s.heard {
			e.Cause = driver.ErrDead
			d.Notice(r.Sub, eventmeter.DeadStream, d.Clock.Now(), driver.ErrDead.Error())
		} else {
			s.report(e)
		}
	case !s.heard:
		if e == nil {
			e = &mcpclient.CallError{Method: methodStream, Kind: mcpclient.KindProtocol, Message: "the stream ended before it was confirmed"}
		}
		s.report(e)
	}
	if e == nil {
		return nil
	}
	return e
}
