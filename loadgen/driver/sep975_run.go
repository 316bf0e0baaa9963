package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/sinks"
)

// run975 is one attachment of a subscription: the requests that it makes after
// one another, from Attaching to Detached or Failed.
type run975 struct {
	attachment
	who  *principal
	args json.RawMessage
	rand *rand.Rand    // of the one goroutine that runs it
	done chan struct{} // closed when its goroutine is over
}

// Attach begins subscription i's first request and returns when it can be
// resumed.
func (d *sep975) Attach(ctx context.Context, i int) error {
	r, err := d.begin(i)
	if err != nil {
		return fmt.Errorf("attach %s: subscription %d: %w", d.set.Tool, i, err)
	}
	confirmed := make(chan struct{})
	var failure error
	d.work.Go(func() {
		defer crash.Guard()
		defer close(r.done)
		failure = d.serve(r, sync.OnceFunc(func() { close(confirmed) }))
	})
	select {
	case <-confirmed:
		return nil
	case <-r.done:
		select {
		case <-confirmed:
			return nil
		default:
		}
		if err = failure; err == nil {
			err = notConfirmed(nil, context.Canceled)
		}
	case <-ctx.Done():
		r.cancel()
		<-r.done
		err = notConfirmed(nil, ctx.Err())
		var ce *callError
		if errors.As(failure, &ce) && ce.throttled() {
			err = notConfirmed(ce, ctx.Err())
		}
	}
	r.fail(err)
	return fmt.Errorf("attach %s at %s: %w", d.set.Tool, d.ep.opts.URL, err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *sep975) begin(i int) (*run975, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := mayAttach(d.closed, d.runs, i); err != nil {
		return nil, err
	}
	args := json.RawMessage("{}")
	if d.opts.Arguments != nil {
		if a := d.opts.Arguments(i); len(a) > 0 {
			args = a
		}
	}
	var f wire.Fields
	if !wire.ScanFields(args, &f) {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", ErrInvalid, line(string(args)))
	}
	r := &run975{
		attachment: attachment{sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, to: &d.caller},
		who:        d.ep.principal(d.opts.number(i)),
		args:       args,
		rand:       rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.number(i)))),
		done:       make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(d.life)
	d.runs[i] = r
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Attaching, At: d.clock.Now()})
	return r, nil
}

// Detach ends subscription i. A request that is under way is given up; the
// draft has no way to say so, and the target forgets it when its policy ends.
func (d *sep975) Detach(_ context.Context, i int) error {
	r := lastTurn(&d.mu, d.runs, i)
	if r == nil || !r.leave() {
		return nil
	}
	r.cancel()
	<-r.done
	d.rec.Changed(eventmeter.Transition{Sub: r.sub, To: eventmeter.Detached, At: d.clock.Now()})
	return nil
}

// Close ends everything. The account is complete afterwards.
func (d *sep975) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	d.end() // every run's context hangs on it, so the loop below does not wait for one after the other
	for i := range d.runs {
		if err := d.Detach(ctx, i); err != nil {
			return err
		}
	}
	d.work.Wait()
	d.watch.Close()
	d.hangUp()
	return nil
}

// Traffic returns the lane's totals.
func (d *sep975) Traffic() Traffic {
	return Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened()}
}

func (d *sep975) notice(r *run975, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.rec.Noticed(eventmeter.Notice{Sub: r.sub, Kind: k, At: at, Detail: line(detail)})
}

// called reports an exchange.
func (d *sep975) called(c eventmeter.Call) {
	c.Lane = d.opts.Lane
	if c.Requests > 0 {
		c.Connections = d.traffic.TakeOpened()
	}
	if c.At == 0 {
		c.At = d.clock.Now()
	}
	d.rec.Called(c)
}

// agreement returns what the run's principal agreed on.
func (d *sep975) agreement(ctx context.Context, r *run975) (*agreement, error) {
	return r.who.agree(ctx, func(c eventmeter.Call) {
		c.Lane, c.At = d.opts.Lane, d.clock.Now()
		d.rec.Called(c)
	})
}

// lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (d *sep975) lost(r *run975, a *agreement, e *callError) bool {
	if a.session == "" || !e.forgotten() {
		return false
	}
	r.who.forget(a)
	return true
}

// serve makes one request after another until the run is over or the lane
// drains. It returns why the first could not be made; later it reports instead.
func (d *sep975) serve(r *run975, confirm func()) error {
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax, Rand: r.rand}
	opened := false
	for n := 0; r.ctx.Err() == nil && !d.drained.Load(); n++ {
		t := d.newTask(r, n)
		t.confirmed = func(at eventmeter.Instant) {
			if !opened {
				opened = true
				r.activate(at)
				confirm()
			}
		}
		err := t.run()
		if err == nil {
			backoff.Reset()
			continue
		}
		var ce *callError
		known := errors.As(err, &ce)
		lost := known && ce.kind == kindSession
		switch {
		case r.ctx.Err() != nil:
			return err
		case !opened && !lost && !(known && ce.throttled()):
			return err
		case known && ce.final():
			d.notice(r, eventmeter.Terminated, d.clock.Now(), err.Error())
			r.fail(err)
			return nil
		case opened:
			d.notice(r, eventmeter.TransientError, d.clock.Now(), err.Error())
		}
		wait := backoff.Next(0)
		if known {
			wait += ce.retryAfter
		}
		if !sinks.Sleep(r.ctx, wait) {
			return err
		}
	}
	return nil
}

// kindSession is the failure word for a session that the server has forgotten.
const kindSession = "session lost"
