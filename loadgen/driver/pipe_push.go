package driver

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// pipeStream ends one stream over a pipe.
type pipeStream context.CancelFunc

// Close implements pump.Stream.
func (c pipeStream) Close() { c() }

// overPipe is connect over the endpoint's pipe, where a stream takes the
// goroutine.
func (s *stream) overPipe(body []byte) {
	ctx, cancel := context.WithCancel(s.r.ctx)
	defer cancel()
	s.carriedBy(pipeStream(cancel), s.begin())
	e := s.connectPipe(ctx, body)
	s.step(s.broken(s.isOver(), e))
}

// connectPipe opens one stream over the endpoint's pipe and follows it to its
// end. Its messages are taken on the goroutine that reads the pipe.
func (s *stream) connectPipe(ctx context.Context, body []byte) *callError {
	d, r := s.d, s.r
	id, over := s.id, make(chan struct{})
	x := &exchange{traffic: &d.traffic}
	x.take = func(at time.Time, l wire.Line, m *wire.Message) {
		s.at = d.clock.Instant(at)
		s.pulse.Beat(s.at)
		if string(m.Method) == methodCancelled {
			s.overhead(l.Size, methodCancelled)
			s.ended = true
		} else {
			s.message(l.Data, l.Size, m)
		}
		if s.ended {
			x.closed = true
			close(over)
		}
	}
	x.end = func(cause error) {
		s.ended = true
		s.over = &callError{method: methodStream, kind: kindEnded, cause: cause}
		if s.r.wasActive() {
			d.notice(r, eventmeter.Terminated, d.clock.Now(), s.over.Error())
			r.fail(s.over)
		}
		close(over)
	}
	s.up = int64(len(body)) + 1
	if err := d.pipe.router.add(id, x); err != nil {
		s.up = 0
		return &callError{kind: kindEnded, cause: err}
	}
	if err := d.pipe.send(ctx, body, &d.traffic); err != nil {
		d.pipe.router.remove(id, x)
		s.up = 0
		return err
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	d.pipe.router.remove(id, x)
	switch {
	case s.over != nil:
		return s.over
	case !s.ended:
		s.cancelledPipe(ctx)
		return transportError(ctx, ctx.Err())
	}
	return nil
}

// cancelledPipe tells the server that the stream is not wanted any more: on a
// pipe there is nothing to hang up.
func (s *stream) cancelledPipe(ctx context.Context) {
	d := s.d
	up := d.pipe.cancel(ctx, s.id, &d.traffic)
	if up == 0 {
		return // the server is gone
	}
	d.rec.Called(eventmeter.Call{
		Lane: d.opts.Lane, Cause: eventmeter.Unsubscribe, At: d.clock.Now(), Requests: 1, Up: up, Method: methodCancelled,
	})
}
