package driver

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
	"github.com/eventmeter/eventmeter/sinks"
)

// errDead is why a stream is given up that was silent for too long.
var errDead = errors.New("the stream was silent for twice the heartbeat interval")

// errUnheard is the same before its first message. A proxy that buffers keeps
// even the head of the answer until its buffer is full.
var errUnheard = errors.New("nothing came for twice the heartbeat interval: the server does not confirm the stream, or a proxy on the path buffers it")

// stream is what one open stream needs. A run has one, which serves all of its
// connections after one another.
//
// Nothing waits for it: a connection is begun by connect, lives on what the
// pump tells (Opened, Piece, Closed), and its end leads to step, which sets a
// timer for the next one or finishes the run. Whatever of this is under way is
// one goroutine at a time; others come in by hangUp, under mu.
type stream struct {
	d *events
	r *run

	parser  wire.EventParser
	clumps  clumps
	pulse   sinks.Pulse
	backoff sinks.Backoff
	pause   time.Duration // see pause

	first   chan struct{} // closed at the first confirmation of all, then nil
	opened  bool          // was confirmed once
	failure error         // why the run was never confirmed; valid when it is done

	// Of the connection at hand.
	agreed  *agreement
	refusal *unopened // an answer that is no stream
	id      uint64
	began   eventmeter.Instant
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
	over    *callError
	outage

	mu    sync.Mutex
	turn  uint32              // of the connection; odd while there is one
	conn  streamclient.Stream // nil while there is none, or it was only just begun
	why   error               // why the connection at hand is given up by us
	timer *time.Timer         // of the next connection
}

// newStream makes the stream of a run, and has the run's cancel end it.
func (d *events) newStream(r *run) *stream {
	s := &stream{d: d, r: r, cause: eventmeter.Subscribe, parser: wire.EventParser{Budget: d.budget}}
	s.backoff = sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax, Rand: r.rand}
	cancel := r.cancel
	r.cancel = func() {
		cancel()
		s.hangUp()
	}
	return s
}

// attachPush opens a stream and waits until it is confirmed.
func (d *events) attachPush(ctx context.Context, r *run) error {
	s := r.stream
	confirmed := make(chan struct{})
	s.first = confirmed
	d.work.Add(1) // until finish
	d.work.Go(crash.Guarded(s.connect))
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
			return notConfirmed(nil, context.Canceled)
		}
		return s.failure
	case <-ctx.Done():
		r.cancel()
		<-r.done
		var ce *callError
		if errors.As(s.failure, &ce) && ce.throttled() {
			return notConfirmed(ce, ctx.Err())
		}
		return notConfirmed(nil, ctx.Err())
	}
}

// step goes on after a connection, or an attempt at one: err is what ended it,
// nil if the server ended it in order. The first connection has to succeed;
// from then on the stream is kept open until the run is over or the target ends
// it for good.
func (s *stream) step(err error) {
	d, r := s.d, s.r
	if r.ctx.Err() != nil {
		s.finish(err)
		return
	}
	var ce *callError
	known := errors.As(err, &ce)
	// Neither a session that is gone nor a stream that the server did not look
	// at says anything about the subscription.
	lost := known && (ce.kind == "session lost" || errors.Is(ce.cause, streamclient.ErrRefusedStream))
	switch {
	case !s.opened && !lost && !(known && ce.throttled()):
		s.finish(err)
		return
	case s.opened && known && ce.final():
		d.notice(r, eventmeter.Terminated, d.clock.Now(), err.Error())
		r.fail(err)
		s.finish(nil)
		return
	case s.heard:
		s.backoff.Reset()
		s.cause = eventmeter.Reconnect
	default:
		if s.opened && err != nil {
			d.notice(r, eventmeter.TransientError, d.clock.Now(), err.Error())
		}
		s.cause = eventmeter.Retry
	}
	wait := s.backoff.Next(s.pause) + s.absence()
	if known && ce.retryAfter > 0 {
		wait += ce.retryAfter
	}
	s.failure = err
	s.mu.Lock()
	if r.ctx.Err() == nil {
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
	s.d.work.Done()
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
	s.giveUp(turn, errDead)
}

// connect begins a connection. It may shake hands first.
func (s *stream) connect() {
	d, r := s.d, s.r
	s.heard, s.mixed, s.ended, s.answer, s.over, s.down, s.refusal = false, false, false, false, nil, 0, nil
	agreed, err := d.agreement(r.ctx, r)
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		s.step(err)
		return
	}
	o := d.params(r)
	d.position(&o, r)
	id, body := d.build(methodStream, o, agreed)
	s.id, s.agreed = id, agreed
	if d.pipe != nil {
		s.overPipe(body)
		return
	}
	header := agreed.headers[methodStream]
	s.up = requestSize(http.MethodPost, d.url.RequestURI(), header, int64(len(body)))

	turn := s.begin()
	conn := d.pump.Open(context.Background(), streamclient.Request{Method: http.MethodPost, Path: d.url.RequestURI(), Header: header, Body: body}, s)

	s.carriedBy(conn, turn) // from here on the stream is the pump's
}

// begin is called right before a connection is begun. It returns its number.
func (s *stream) begin() uint32 {
	s.mu.Lock()
	s.turn++
	turn := s.turn
	s.why = nil
	s.mu.Unlock()
	s.d.watch.Start(&s.pulse, 2*s.d.opts.Push.Heartbeat, s.dead)
	s.began = s.d.clock.Now()
	return turn
}

// carriedBy says what ends the connection. It may be over already, or have to
// be ended.
func (s *stream) carriedBy(conn streamclient.Stream, turn uint32) {
	s.mu.Lock()
	late := false
	if s.turn == turn {
		s.conn = conn
		late = s.why != nil || s.r.ctx.Err() != nil
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

// Closed implements pump.Sink: the connection is over.
func (s *stream) Closed(err error) {
	why := s.isOver()
	s.pause = pause(&s.parser, s.pause)
	s.parser.Reset()
	switch {
	case s.refusal != nil: // forgetting a session takes a call
		s.d.work.Go(func() {
			defer crash.Guard()
			s.step(s.refused(err))
		})
	case s.answer && s.agreed.era == Legacy && s.r.ctx.Err() != nil:
		s.d.work.Go(func() {
			defer crash.Guard()
			s.cancelled(s.agreed)
			s.step(s.broken(why, s.failed(err, why)))
		})
	default:
		s.step(s.broken(why, s.failed(err, why)))
	}
}

// failed makes the error of a connection out of what the pump said; nil if it
// ended in order.
func (s *stream) failed(err, why error) *callError {
	var own *callError
	switch {
	case s.over != nil:
		return s.over
	case errors.As(err, &own): // what we found wrong with it
		return own
	case s.answer && (errors.Is(err, errEnded) || isWhole(err)):
		return nil
	case s.r.ctx.Err() != nil || why != nil:
		return &callError{kind: kind(context.Canceled), cause: context.Canceled}
	}
	return &callError{kind: kind(err), cause: err}
}

// broken reports the end of a connection, and says what kind of end it was.
// why is why it was given up by us, nil if it was not.
func (s *stream) broken(why error, e *callError) error {
	d, r := s.d, s.r
	if e != nil {
		e.method = methodStream
	}
	s.wentAway(why)
	switch {
	case r.ctx.Err() != nil: // our own doing
		if !s.heard {
			s.report(nil)
		}
	case errors.Is(why, errCut): // likewise
		return nil
	case errors.Is(why, errDead):
		e = &callError{method: methodStream, kind: "timeout", cause: errUnheard}
		if s.heard {
			e.cause = errDead
			d.notice(r, eventmeter.DeadStream, d.clock.Now(), errDead.Error())
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
