package driver

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// connectPipe listens over the endpoint's pipe: with a request in the modern
// era; in the legacy one, what concerns no subscription comes by itself.
func (l *listening) connectPipe(agreed *agreement) (opened bool, err error) {
	d := l.d
	over := make(chan struct{})
	var refused *callError
	x := &exchange{traffic: &d.traffic, end: func(error) { close(over) }}
	x.take = func(at time.Time, line wire.Line, m *wire.Message) {
		l.at = d.clock.Instant(at)
		l.event(wire.Event{Data: line.Data, Size: line.Size})
		if m.Method != nil && string(m.Method) != methodCancelled {
			return
		}
		if m.HasError {
			refused = rpcError(methodListen, &m.Error)
		}
		x.closed = true
		close(over)
	}
	call := eventmeter.Call{Lane: d.opts.Lane, Cause: eventmeter.Discovery, Method: methodListen}
	var id uint64
	switch agreed.era {
	case Modern:
		what := wire.BeginObject(nil)
		what.Raw("eventsListChanged", []byte("true"))
		o := wire.BeginObject(nil)
		o.Raw("notifications", what.End())
		var body []byte
		id, body = d.build(methodListen, o, agreed)
		call.Requests, call.Up = 1, int64(len(body))+1
		if err := d.pipe.router.add(id, x); err != nil {
			return false, errNoChannel
		}
		defer d.pipe.router.remove(id, x)
		if err := d.pipe.send(d.life, body, &d.traffic); err != nil {
			return false, err
		}
	case Legacy:
		if d.pipe.router.hear(x) != nil {
			return false, errNoChannel
		}
		defer d.pipe.router.deafen(x)
	default:
		return false, errNoChannel
	}
	call.At = d.clock.Now()
	d.rec.Called(call)
	d.tally.count("listens", 1)
	l.wake(0)
	select {
	case <-over:
		if refused != nil && refused.final() {
			return false, errNoChannel
		}
	case <-d.life.Done():
		if id != 0 {
			up := d.pipe.cancel(context.WithoutCancel(d.life), id, &d.traffic)
			d.rec.Called(eventmeter.Call{Lane: d.opts.Lane, Cause: eventmeter.Discovery, At: d.clock.Now(), Requests: 1, Up: up, Method: methodCancelled})
		}
	}
	return true, nil
}
