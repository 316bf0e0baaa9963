package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// attach opens the subscriptions of all lanes. It returns when every subscription is
// active and every poller at its pace, or at the first failure of a lane with attach.onFailure: stop.
func (p *pass) attach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.profile.Phases.Ready, errNotReady)
	defer cancel()
	ctx, abort := p.untilStopped(ctx)
	defer abort(nil)
	var wg sync.WaitGroup
	errs := make([]error, len(p.lanes))
	for i, l := range p.lanes {
		wg.Go(func() {
			defer crash.Guard()
			stats, err := loadgen.Attach(ctx, loadgen.AttachOptions{
				N: l.Subscriptions, Rate: float64(l.Lane.Attach.Rate),
				Concurrency: l.Lane.Attach.Concurrency, Continue: l.Lane.Attach.OnFailure == "continue",
			}, p.drivers[i].Attach)
			switch {
			case l.Lane.Attach.OnFailure == "continue" && stats.Attached > 0:
			case err != nil:
				errs[i] = p.attachFailure(l, stats, err)
				abort(errs[i])
			case stats.Attached < l.Subscriptions:
				errs[i] = fmt.Errorf(
					"%w: lane %s: none of its %d subscriptions could be opened, first: %w",
					ErrTarget,
					l.Name,
					l.Subscriptions,
					stats.FirstError,
				)
				abort(errs[i])
			}
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, ErrStopped) || errors.Is(cause, context.Canceled) {
		return cause
	}
	for _, err := range errs {
		if err != nil {
			p.unmeasured(p.driverFigures()...)
			return err
		}
	}
	return p.awaitPace(ctx)
}

// awaitPace waits until every poller has polled once more, or phases.ready is over. A poller's second
// poll comes later than the target asks, up to twice the interval, so that pollers that were opened
// together do not poll together. What such an interval delays is no latency of the target.
func (p *pass) awaitPace(ctx context.Context) error {
	since := p.clock.Now()
	for i, l := range p.lanes {
		d, ok := p.drivers[i].(driver.Asker)
		if !ok || l.Mode != string(eventmeter.Poll) {
			continue
		}
		for {
			behind, open := d.Behind(since)
			if behind == 0 {
				break
			}
			switch err := p.pause(ctx, 20*time.Millisecond); {
			case errors.Is(err, errNotReady):
				p.Warn("poll-pace", l.Name, "%d of %d pollers had not polled twice after phases.ready (%v), so that events waited "+
					"longer than the server asked for: raise it above two intervals (timings.nextPoll)", behind, open, p.profile.Phases.Ready)
				return nil
			case err != nil:
				return err
			}
		}
	}
	return nil
}

var errNotReady = errors.New("not ready in time")

func (p *pass) attachFailure(l *lane, stats loadgen.AttachStats, err error) error {
	late := errors.Is(err, errNotReady)
	if !late && (errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled) || errors.Is(err, ErrTarget)) {
		return err
	}
	active := fmt.Errorf("%w: lane %s: %d of %d subscriptions were active", ErrTarget, l.Name, stats.Attached, l.Subscriptions)
	if !late {
		return AttachError{Err: fmt.Errorf("%w, then: %w", active, err)}
	}
	hint := ""
	if l.Mode == string(eventmeter.Push) && stats.Attached == 0 {
		hint = "; if other requests are answered and nothing comes on streams, a proxy on the path may buffer them"
	}
	return AttachError{
		Err: fmt.Errorf("%w after phases.ready (%v); raise it, or attach.concurrency%s", active, p.profile.Phases.Ready, hint),
	}
}

// untilStopped returns a context that also ends when the run is stopped or the target
// process is gone, with the reason as its cause.
func (p *pass) untilStopped(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var gone <-chan struct{}
	if p.target.child != nil {
		gone = p.target.child.Exited()
	}
	p.watchers.Go(func() {
		defer crash.Guard()
		select {
		case <-p.target.plain.Ended():
			cancel(fmt.Errorf("%w: %w", ErrTarget, p.target.plain.Err()))
		case <-p.opts.Stop:
			cancel(ErrStopped)
		case <-gone:
			cancel(fmt.Errorf("%w: the embedded target ended: %w", ErrTarget, p.target.child.Err()))
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// churn ends and reopens subscriptions of the lanes with a churn rate. The returned
// function stops it and waits.
func (p *pass) churn(ctx context.Context) func() {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i, l := range p.lanes {
		if l.Churn.Rate <= 0 {
			continue
		}
		wg.Go(func() {
			defer crash.Guard()
			stats := loadgen.Churn(ctx, loadgen.ChurnOptions{
				N: l.Subscriptions, Rate: float64(l.Churn.Rate), Pause: l.Churn.Pause, Seed: p.seed(),
				Stop: stop, Detach: p.drivers[i].Detach, Attach: p.drivers[i].Attach,
			})
			if stats.Failed > 0 {
				p.Warn(
					"churn",
					l.Name,
					"%d of %d subscriptions that churn ended or opened again failed, first: %v",
					stats.Failed,
					stats.Failed+stats.Attached+stats.Detached,
					stats.FirstError,
				)
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
}

// detach ends all subscriptions in order. It ignores failures, because everything has
// been measured by then.
func (p *pass) detach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range p.lanes {
		wg.Go(func() {
			defer crash.Guard()
			// The driver ignores subscriptions that are not open.
			_, _ = loadgen.Attach(ctx, loadgen.AttachOptions{
				N: l.Subscriptions, Concurrency: l.Lane.Attach.Concurrency, Continue: true,
			}, p.drivers[i].Detach)
		})
	}
	wg.Wait()
}

func (p *pass) closeDrivers() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, d := range p.drivers {
		_ = d.Close(ctx) // the run is over
	}
	p.drivers = nil
}
