package sep975

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// run is one attachment of a subscription: the requests that it makes after
// one another, from Attaching to Detached or Failed.
type run struct {
	driver.Attachment
	who  *mcpclient.Principal
	args json.RawMessage
	rand *rand.Rand    // of the one goroutine that runs it
	done chan struct{} // closed when its goroutine is over
}

// Attach begins subscription i's first request and returns when it can be
// resumed.
func (d *lane) Attach(ctx context.Context, i int) error {
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
			err = driver.NotConfirmed(nil, context.Canceled)
		}
	case <-ctx.Done():
		r.Cancel()
		<-r.done
		err = driver.NotConfirmed(nil, ctx.Err())
		var ce *mcpclient.CallError
		if errors.As(failure, &ce) && ce.Throttled() {
			err = driver.NotConfirmed(ce, ctx.Err())
		}
	}
	r.Fail(err)
	return fmt.Errorf("attach %s at %s: %w", d.set.Tool, d.ep.Name(), err)
}

// begin makes a run for subscription i and reports Attaching.
func (d *lane) begin(i int) (*run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := driver.MayAttach(d.closed, d.runs, i); err != nil {
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
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(args)))
	}
	r := &run{
		Attachment: driver.Attachment{Sub: eventmeter.Sub{Lane: d.opts.Lane, Index: uint32(i)}, Caller: &d.Caller},
		who:        d.ep.Principal(d.opts.NumberOf(i)),
		args:       args,
		rand:       rand.New(rand.NewPCG(d.opts.Seed, uint64(d.opts.Lane)<<32|uint64(d.opts.NumberOf(i)))),
		done:       make(chan struct{}),
	}
	r.Ctx, r.Cancel = context.WithCancel(d.life)
	d.runs[i] = r
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Attaching, At: d.Clock.Now()})
	return r, nil
}

// Detach ends subscription i. A request that is under way is given up; the
// draft has no way to say so, and the target forgets it when its policy ends.
func (d *lane) Detach(_ context.Context, i int) error {
	r := driver.LastTurn(&d.mu, d.runs, i)
	if r == nil || !r.Leave() {
		return nil
	}
	r.Cancel()
	<-r.done
	d.Recorder.Changed(eventmeter.Transition{Sub: r.Sub, To: eventmeter.Detached, At: d.Clock.Now()})
	return nil
}

// Close ends everything. The account is complete afterwards.
func (d *lane) Close(ctx context.Context) error {
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
func (d *lane) Traffic() mcpclient.Traffic {
	return mcpclient.Traffic{Up: d.traffic.Up(), Down: d.traffic.Down(), Opened: d.traffic.Opened()}
}

func (d *lane) notice(r *run, k eventmeter.NoticeKind, at eventmeter.Instant, detail string) {
	d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: k, At: at, Detail: errtext.Line(detail)})
}

// called reports an exchange.
func (d *lane) called(c eventmeter.Call) {
	c.Lane = d.opts.Lane
	if c.Requests > 0 {
		c.Connections = d.traffic.TakeOpened()
	}
	if c.At == 0 {
		c.At = d.Clock.Now()
	}
	d.Recorder.Called(c)
}

// agreement returns what the run's principal agreed on.
func (d *lane) agreement(ctx context.Context, r *run) (*mcpclient.Session, error) {
	return r.who.Session(ctx, func(c eventmeter.Call) {
		c.Lane, c.At = d.opts.Lane, d.Clock.Now()
		d.Recorder.Called(c)
	})
}

// lost tells whether an answer means that the server no longer knows the
// session, and then forgets it.
func (d *lane) lost(r *run, a *mcpclient.Session, e *mcpclient.CallError) bool {
	if a.ID == "" || !e.Forgotten() {
		return false
	}
	r.who.Forget(a)
	return true
}

// serve makes one request after another until the run is over or the lane
// drains. It returns why the first could not be made; later it reports instead.
func (d *lane) serve(r *run, confirm func()) error {
	backoff := sinks.Backoff{Min: d.opts.Push.BackoffMin, Max: d.opts.Push.BackoffMax, Rand: r.rand}
	opened := false
	for n := 0; r.Ctx.Err() == nil && !d.drained.Load(); n++ {
		t := d.newTask(r, n)
		t.confirmed = func(at eventmeter.Instant) {
			if !opened {
				opened = true
				r.Activate(at)
				confirm()
			}
		}
		err := t.run()
		if err == nil {
			backoff.Reset()
			continue
		}
		var ce *mcpclient.CallError
		known := errors.As(err, &ce)
		lost := known && ce.Kind == mcpclient.KindSession
		switch {
		case r.Ctx.Err() != nil:
			return err
		case !opened && !lost && !(known && ce.Throttled()):
			return err
		case known && ce.Final():
			d.notice(r, eventmeter.Terminated, d.Clock.Now(), err.Error())
			r.Fail(err)
			return nil
		case opened:
			d.notice(r, eventmeter.TransientError, d.Clock.Now(), err.Error())
		}
		wait := backoff.Next(0)
		if known {
			wait += ce.RetryAfter
		}
		if !sinks.Sleep(r.Ctx, wait) {
			return err
		}
	}
	return nil
}
