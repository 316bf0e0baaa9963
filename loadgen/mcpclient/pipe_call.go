package mcpclient

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// callPipe sends one request over the endpoint's pipe and waits for the answer. Messages
// that precede the answer, such as progress, are counted with it. If ctx ends before, the
// request is cancelled with notifications/cancelled.
func (c *Caller) callPipe(ctx context.Context, method string, body []byte) *Answer {
	a := &Answer{}
	start := c.Clock.Now()
	a.Err = c.exchange(ctx, a, body)
	if a.At == 0 {
		a.At = c.Clock.Now()
	}
	a.Took = a.At.Sub(start)
	if a.Err != nil {
		a.Err.Method = method
	}
	return a
}

func (c *Caller) exchange(ctx context.Context, a *Answer, body []byte) *CallError {
	if err := c.Pipe.start(); err != nil {
		return &CallError{Kind: KindEnded, Cause: err}
	}
	var m wire.Message
	id, isRequest := uint64(0), false
	if wire.ScanMessage(body, &m) {
		id, isRequest = numberOf(m.ID)
	}
	if !isRequest {
		return c.sendPipe(ctx, a, body)
	}
	done := make(chan struct{})
	var ended error
	answered := false
	var full error // why the answer is too large
	x := &Exchange{Traffic: c.traffic}
	x.Take = func(at time.Time, l wire.Line, m *wire.Message) {
		a.Down += int64(l.Size)
		if m.Method != nil {
			return
		}
		a.At = c.Clock.Instant(at)
		a.Buf, a.hold = answerBuffers.Get().(*[]byte), budget.Of(c.Budget)
		*a.Buf = (*a.Buf)[:0]
		if full = a.keep(l.Data); full == nil && len(m.Cursor) > MaxCursor {
			full = ErrCursor
		}
		wire.ScanMessage(*a.Buf, &a.Msg)
		c.otherID(a)
		answered, x.Closed = true, true
		close(done)
	}
	x.End = func(cause error) {
		ended = cause
		close(done)
	}
	if err := c.Pipe.Add(id, x); err != nil {
		return &CallError{Kind: KindEnded, Cause: err}
	}
	defer c.Pipe.Remove(id, x)
	if err := c.sendPipe(ctx, a, body); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		c.Pipe.Remove(id, x)
		if !answered && ended == nil {
			a.Up += c.Pipe.Cancel(ctx, id, c.traffic)
			return TransportError(ctx, ctx.Err())
		}
	}
	if full != nil {
		c.TooLarge(a.At, full)
		return &CallError{Kind: KindOversized, Cause: full}
	}
	return judgeLine(a, ended)
}

// sendPipe queues the message of a call.
func (c *Caller) sendPipe(ctx context.Context, a *Answer, body []byte) *CallError {
	if err := c.Pipe.Send(ctx, body, c.traffic); err != nil {
		return err
	}
	a.sent = true
	a.Up += int64(len(body)) + 1
	return nil
}

func judgeLine(a *Answer, ended error) *CallError {
	switch {
	case ended != nil:
		return &CallError{Kind: KindEnded, Cause: ended}
	case a.Msg.HasError:
		return RPCError("", &a.Msg.Error)
	case a.Msg.HasResult:
		return nil
	}
	return &CallError{Kind: KindProtocol, Message: "the answer holds no JSON-RPC result"}
}

// Cancel tells the server that a request is over, and returns how many bytes that took.
// It works even if ctx has ended.
func (p *Pipe) Cancel(ctx context.Context, id uint64, traffic *wire.Traffic) int64 {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(id))
	line := wire.Notification(MethodCancelled, o.End())
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), CancelTime)
	defer stop()
	if p.Send(ctx, line, traffic) != nil {
		return 0
	}
	return int64(len(line)) + 1
}
