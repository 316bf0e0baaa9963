package events

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// pipeStream ends one stream over a pipe.
type pipeStream context.CancelFunc

// Close implements streamclient.Stream.
func (c pipeStream) Close() { c() }

// overPipe is connect over the endpoint's pipe, where a stream takes the
// goroutine.
func (s *stream) overPipe(body []byte) {
	ctx, cancel := context.WithCancel(s.r.Ctx)
	defer cancel()
	s.carriedBy(pipeStream(cancel), s.begin())
	e := s.connectPipe(ctx, body)
	s.step(s.broken(s.isOver(), e))
}

// connectPipe opens one stream over the endpoint's pipe and follows it to its
// end. Its messages are taken on the goroutine that reads the pipe.
func (s *stream) connectPipe(ctx context.Context, body []byte) *mcpclient.CallError {
	d, r := s.d, s.r
	id, over := s.id, make(chan struct{})
	x := &mcpclient.Exchange{Traffic: &d.Sockets}
	x.Take = func(at time.Time, l wire.Line, m *wire.Message) {
		s.at = d.Clock.Instant(at)
		s.pulse.Beat(s.at)
		if string(m.Method) == mcpclient.MethodCancelled {
			s.overhead(l.Size, mcpclient.MethodCancelled)
			s.ended = true
		} else {
			s.message(l.Data, l.Size, m)
		}
		if s.ended {
			x.Closed = true
			close(over)
		}
	}
	x.End = func(cause error) {
		s.ended = true
		s.over = &mcpclient.CallError{Method: methodStream, Kind: mcpclient.KindEnded, Cause: cause}
		if s.r.WasActive() {
			d.Notice(r.Sub, eventmeter.Terminated, d.Clock.Now(), s.over.Error())
			r.Fail(s.over)
		}
		close(over)
	}
	s.up = int64(len(body)) + 1
	if err := d.Pipe.Add(id, x); err != nil {
		s.up = 0
		return &mcpclient.CallError{Kind: mcpclient.KindEnded, Cause: err}
	}
	if err := d.Pipe.Send(ctx, body, &d.Sockets); err != nil {
		d.Pipe.Remove(id, x)
		s.up = 0
		return err
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	d.Pipe.Remove(id, x)
	switch {
	case s.over != nil:
		return s.over
	case !s.ended:
		s.cancelledPipe(ctx)
		return mcpclient.TransportError(ctx, ctx.Err())
	}
	return nil
}

// cancelledPipe tells the server that the stream is not wanted any more: on a
// pipe there is nothing to hang up.
func (s *stream) cancelledPipe(ctx context.Context) {
	d := s.d
	up := d.Pipe.Cancel(ctx, s.id, &d.Sockets)
	if up == 0 {
		return // the server is gone
	}
	d.Recorder.Called(eventmeter.Call{
		Lane: d.Opts.Lane, Cause: eventmeter.Unsubscribe, At: d.Clock.Now(), Requests: 1, Up: up, Method: mcpclient.MethodCancelled,
	})
}
