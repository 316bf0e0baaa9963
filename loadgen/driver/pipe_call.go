package driver

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// callPipe sends one request over the endpoint's pipe and waits for the answer.
// What comes for it before that (progress) is counted with it. A request that
// ctx gave up is cancelled, as the protocol has it for pipes.
func (c *caller) callPipe(ctx context.Context, method string, body []byte) *answer {
	a := &answer{}
	start := c.clock.Now()
	a.err = c.exchange(ctx, a, body)
	if a.at == 0 {
		a.at = c.clock.Now()
	}
	a.took = a.at.Sub(start)
	if a.err != nil {
		a.err.method = method
	}
	return a
}

func (c *caller) exchange(ctx context.Context, a *answer, body []byte) *callError {
	if err := c.pipe.start(); err != nil {
		return &callError{kind: kindEnded, cause: err}
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
	x := &exchange{traffic: c.traffic}
	x.take = func(at time.Time, l wire.Line, m *wire.Message) {
		a.down += int64(l.Size)
		if m.Method != nil {
			return
		}
		a.at = c.clock.Instant(at)
		a.buf, a.hold = answerBuffers.Get().(*[]byte), budget.Of(c.budget)
		*a.buf = (*a.buf)[:0]
		if full = a.keep(l.Data); full == nil && len(m.Cursor) > maxCursor {
			full = errCursor
		}
		wire.ScanMessage(*a.buf, &a.msg)
		answered, x.closed = true, true
		close(done)
	}
	x.end = func(cause error) {
		ended = cause
		close(done)
	}
	if err := c.pipe.router.add(id, x); err != nil {
		return &callError{kind: kindEnded, cause: err}
	}
	defer c.pipe.router.remove(id, x)
	if err := c.sendPipe(ctx, a, body); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		c.pipe.router.remove(id, x)
		if !answered && ended == nil {
			a.up += c.pipe.cancel(ctx, id, c.traffic)
			return transportError(ctx, ctx.Err())
		}
	}
	if full != nil {
		c.tooLarge(a.at, full)
		return &callError{kind: kindOversized, cause: full}
	}
	return judgeLine(a, ended)
}

// sendPipe queues what a call sends.
func (c *caller) sendPipe(ctx context.Context, a *answer, body []byte) *callError {
	if err := c.pipe.send(ctx, body, c.traffic); err != nil {
		return err
	}
	a.sent = true
	a.up += int64(len(body)) + 1
	return nil
}

func judgeLine(a *answer, ended error) *callError {
	switch {
	case ended != nil:
		return &callError{kind: kindEnded, cause: ended}
	case a.msg.HasError:
		return rpcError("", &a.msg.Error)
	case a.msg.HasResult:
		return nil
	}
	return &callError{kind: kindProtocol, message: "the answer holds no JSON-RPC result"}
}

// cancel tells the server that a request is over, and returns what that took.
// ctx may be over.
func (p *pipe) cancel(ctx context.Context, id uint64, traffic *wire.Traffic) int64 {
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(id))
	line := wire.AppendNotification(nil, methodCancelled, o.End())
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if p.send(ctx, line, traffic) != nil {
		return 0
	}
	return int64(len(line)) + 1
}
