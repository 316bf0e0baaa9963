package driver

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// pipeStream is the streamclient.Stream of a stream over a pipe.
type pipeStream context.CancelFunc

// Close implements streamclient.Stream.
func (c pipeStream) Close() { c() }

// Hold implements streamclient.Stream. It does nothing: all streams share the pipe, so
// none of them can be held.
func (pipeStream) Hold(time.Duration) {}

// overPipe is connect over the endpoint's pipe. It blocks until the stream ends.
func (s *Stream) overPipe(req *StreamRequest) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.carriedBy(pipeStream(cancel), s.begin())
	if e := s.connectPipe(ctx, req); e != nil {
		s.more().over = e
	}
	var over error
	if s.rare != nil {
		over = s.rare.over
	}
	s.step(s.broken(s.isOver(), over))
}

// connectPipe opens one stream over the endpoint's pipe and waits for its end. The
// goroutine that reads the pipe handles its messages.
func (s *Stream) connectPipe(ctx context.Context, req *StreamRequest) *mcpclient.CallError {
	pipe, sockets, over := s.streams.caller.Pipe, s.streams.sockets, make(chan struct{})
	x := &mcpclient.Exchange{Traffic: sockets}
	x.Take = func(at time.Time, l wire.Line, m *wire.Message) {
		s.line(at, l, m)
		if s.ended {
			x.Closed = true
			close(over)
		}
	}
	x.End = func(cause error) {
		s.End(&mcpclient.CallError{Kind: mcpclient.KindEnded, Cause: cause})
		close(over)
	}
	open := func() error { return pipe.Add(req.ID, x) }
	remove := func() { pipe.Remove(req.ID, x) }
	if req.ID == 0 {
		open = func() error {
			return pipe.Listen(x, func() {
				s.at = s.streams.caller.Clock.Now()
				s.p.Answered()
				s.admit()
			})
		}
		remove = func() { pipe.Unlisten(x) }
	}
	s.opening.up, s.kernel, s.held, s.shared, s.waited = 0, false, false, false, 0
	if len(req.Body) > 0 {
		s.opening.up = int64(len(req.Body)) + 1
	}
	if err := open(); err != nil {
		s.opening.up = 0
		return &mcpclient.CallError{Kind: mcpclient.KindEnded, Cause: err}
	}
	if req.ID != 0 {
		if err := pipe.Send(ctx, req.Body, sockets); err != nil {
			remove()
			if s.opening != nil {
				s.opening.up = 0
			}
			return err
		}
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	remove()
	if s.ended {
		return nil
	}
	if req.ID != 0 {
		s.cancelPipe(ctx)
	}
	return mcpclient.TransportError(ctx, ctx.Err())
}

// line handles one line of the pipe.
func (s *Stream) line(at time.Time, l wire.Line, m *wire.Message) {
	s.at = s.streams.caller.Clock.Instant(at)
	s.pulse.Beat(s.at)
	if string(m.Method) == mcpclient.MethodCancelled && s.id != 0 {
		s.Overhead(l.Size, mcpclient.MethodCancelled)
		s.End(nil)
	} else {
		s.p.Message(wire.Event{Data: l.Data, Size: l.Size}, m)
	}
	s.admit()
}

// cancelPipe tells the server that the stream has ended: a pipe has no connection to
// close.
func (s *Stream) cancelPipe(ctx context.Context) {
	up := s.streams.caller.Pipe.Cancel(ctx, s.id, s.streams.sockets)
	if up == 0 {
		return // the server is gone
	}
	s.p.Called(eventmeter.Call{
		Lane:     s.streams.caller.Lane,
		Cause:    eventmeter.Unsubscribe,
		At:       s.streams.caller.Clock.Now(),
		Requests: 1,
		Up:       up,
		Method:   mcpclient.MethodCancelled,
	})
}
