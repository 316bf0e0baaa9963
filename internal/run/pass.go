package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// pass takes some lanes through all phases, with a ledger of their own.
type pass struct {
	*run
	lanes    []*lane
	ledger   *sinks.Ledger
	recorder eventmeter.Recorder // the ledger, and who looks on beside it
	number   uint32              // from 0
	observer *sinks.Observer     // nil where something is fired
	stamper  *loadgen.Stamper
	drivers  []driver.Driver
	firing   *loadgen.Firing
	watch    *health.Watch
	progress *progress
	trouble  atomic.Pointer[string] // what is wrong with the target now; nil if nothing is
	watchers sync.WaitGroup         // goroutines that end with the contexts of a phase

	lookedUntil eventmeter.Instant

	phaseMu sync.Mutex
	seen    seen // what metrics are read from
	phase   string
	began   eventmeter.Instant
	limit   time.Duration
}

// pass runs lanes through their phases and adds what came of it to the result.
// When firing had begun, the account is added even if an error is returned.
func (r *run) pass(ctx context.Context, lanes []*lane) (err error) {
	p := &pass{run: r, lanes: lanes}
	if err := p.prepare(); err != nil {
		return err
	}
	defer r.endTrace() // when the drivers are closed, and nobody tells it anything
	p.progress = startProgress(p)
	defer p.progress.stop()
	defer p.watchers.Wait()
	defer p.closeDrivers()

	p.enter("attach", r.profile.Phases.Ready)
	shown := p.follow(ctx)
	defer shown.Settle(nil) // where there is no account
	if err := p.attach(ctx); err != nil {
		return err
	}
	start, err := p.begin(ctx)
	if err != nil {
		// Nothing was fired, so there is nothing to tell.
		p.enter("detach", closeTimeout)
		p.detach(ctx)
		return err
	}
	ph := &r.profile.Phases
	p.watch, err = health.Start(health.WatchOptions{
		TargetPID: r.targetPID(ctx), TargetMetrics: r.opts.TargetMetrics, Guard: r.guard, Siblings: r.siblings,
		KernelTimestamps: r.stamped(lanes), Length: ph.Warmup + ph.Measure,
	})
	switch {
	case errors.Is(err, health.ErrMetrics):
		return fmt.Errorf("%w: %w", ErrTarget, err)
	case err != nil:
		return err
	}
	p.shownBy(p.watch)
	endCheckpoints := p.checkpoints()
	defer endCheckpoints()
	err = p.fire(ctx, start)
	p.firedUntil(p.clock.Now())
	p.looked()
	if drained := p.drain(ctx, err); err == nil {
		err = drained
	}
	if err == nil {
		err = p.stillThere(ctx, p.ledger.Outstanding() > 0)
	}
	endCheckpoints()
	if p.backlog != nil {
		p.backlog.Undrained = p.ledger.Outstanding()
	}
	emissions := p.ledger.Live().Measured
	generator, process := p.watch.Stop(summary.Share(emissions.Dropped, emissions.Fired+emissions.Dropped))
	p.enter("detach", closeTimeout)
	p.detach(ctx)
	p.enter("", 0)
	shown.Freeze()
	account := p.ledger.Account()
	p.wholeNames(&account)
	p.keepSubscriptions()
	if asked := p.measured(ctx); err == nil {
		err = asked
	}
	own := p.driverFigures()
	p.observed(own, p.lookedUntil, p.Warn)
	shown.Settle(p.lastLook(&account, own, process))
	p.keepPart(account, own, generator, process)
	r.Add(account, own, generator, process)
	return err
}

// keepSubscriptions keeps the counts of each subscription, where they are wanted.
func (p *pass) keepSubscriptions() {
	if !p.opts.Subscriptions {
		return
	}
	for i, l := range p.lanes {
		counts := make([]sinks.SubCounts, l.Subscriptions)
		for j := range counts {
			counts[j] = p.ledger.SubAccount(eventmeter.Sub{Lane: uint16(i), Index: uint32(j)})
		}
		p.subs = append(p.subs, counts)
	}
}

// measured calls [Options.Measured].
func (p *pass) measured(ctx context.Context) error {
	if p.opts.Measured == nil {
		return nil
	}
	admin := ""
	if p.profile.Target.IsEmbedded() {
		admin = p.adminURL()
	}
	return p.opts.Measured(ctx, admin, p.guard.Client())
}

// driverFigures asks each lane's driver for what only its system has.
func (p *pass) driverFigures() []results.PartFigures {
	out := make([]results.PartFigures, len(p.drivers))
	for i, d := range p.drivers {
		if f, ok := d.(driver.Figurer); ok {
			own := f.Figures()
			out[i] = results.PartFigures{Values: own.Values, Timings: own.Timings}
		}
	}
	return out
}

// prepare makes the ledger and the lanes' drivers.
func (p *pass) prepare() error {
	r := p.run
	err := p.openLedger()
	if err != nil {
		return err
	}
	if p.recorder, err = p.recorderOf(); err != nil {
		return err
	}
	if r.opts.Recorder != nil {
		p.recorder = eventmeter.Tee(p.recorder, r.opts.Recorder)
	}
	p.stamper = loadgen.NewStamper(r.clock, p.recorder, p.ledger.Run(), r.profile.Upstream.Sources)
	if o, ok := r.target.upstream.(upstream.Sourcer); ok {
		p.stamper.Assign(o.Source)
	}
	for i, l := range p.lanes {
		o := l.options(uint16(i), r.clock, p.recorder, &r.target, r.profile.Schedule.Seed)
		o.Push.KernelTimestamps = r.stampedLane(&l.Lane)
		o.Acked, o.Sole = p.ledger.AckedAt, p.ledger.Sole
		o.SEP2549.Emissions = p.ledger
		d, err := driver.New(o)
		if err != nil {
			p.closeDrivers()
			return fmt.Errorf("%w: lane %s: %w", ErrProfile, l.Name, err)
		}
		p.drivers = append(p.drivers, d)
	}
	return nil
}

// interval is the width of the intervals that a display shows: about a hundred
// a run, of 100 ms to 1 s.
func interval(measure time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return min(max((measure/100).Truncate(step), step), time.Second)
}

// recorded is the width of the intervals of a run's time series: at most 120
// intervals, however long the run is. Each holds two histograms of every lane,
// which would otherwise be most of the memory that a long run takes.
func recorded(measure time.Duration) time.Duration {
	const most = 120
	width := interval(measure)
	return width * max((measure+most*width-1)/(most*width), 1)
}

// fire runs the schedule: warm-up, then the measured part, with churn beside it.
func (p *pass) fire(ctx context.Context, start eventmeter.Instant) error {
	ph := p.profile.Phases
	schedule, number := p.myEmissions()
	if start == 0 {
		start = p.clock.Now()
	}
	var err error
	p.firing, err = loadgen.NewFiring(loadgen.FiringOptions{
		Clock: p.clock, Recorder: p.recorder, Stamper: p.stamper, Schedule: schedule,
		Start: start, Number: number, Warmup: ph.Warmup, Duration: ph.Measure,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	p.lookFrom(p.firing.Start())
	p.firingFrom(p.firing.Start())
	p.beginOwn(p.firing.Start())
	ctx, cancel := p.untilStopped(ctx)
	defer cancel(nil)
	outer := ctx
	ctx, watch := p.watchTarget(ctx)
	defer watch.end()
	p.enter("warm-up", ph.Warmup)
	measuring := time.AfterFunc(start.Sub(p.clock.Now())+ph.Warmup, func() {
		defer crash.Guard()
		p.enter("measure", ph.Measure)
	})
	defer measuring.Stop()

	stopReading := p.readBacklog(ctx)
	defer stopReading()
	stopChurn := p.churn(ctx)
	defer stopChurn()
	loadgen.Loop(ctx, p.firing, loadgen.LoopOptions{Fire: p.target.upstream.Fire, Workers: p.profile.Upstream.Workers})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The schedule may end a little before the phase does; the phase is a
	// length of time that the profile promises.
	if err := p.pause(ctx, ph.Warmup+ph.Measure-p.clock.Now().Sub(p.firing.Start())); err != nil {
		return err
	}
	stopChurn() // the end of the watch would cancel its calls, and count them as failed
	return watch.whole(outer)
}

func (p *pass) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastFailure says for the end of a sentence why the latest emission failed, and
// what to look at.
func (p *pass) lastFailure() string {
	if e, ok := p.target.upstream.(upstream.Explainer); ok {
		if _, latest := e.Failures(); latest != "" {
			return fmt.Sprintf(", the last one: %s; is the target still up, and upstream (kind %s) right?", latest, p.profile.Upstream.Kind)
		}
	}
	return fmt.Sprintf(": it is gone, or upstream.kind %s cannot reach it", p.profile.Upstream.Kind)
}

// churn ends and reopens subscriptions of the lanes that ask for it; the
// returned function stops it and waits.
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
				p.Warn("churn", l.Name, "%d of %d subscriptions that churn ended or opened again failed, first: %v", stats.Failed, stats.Failed+stats.Attached+stats.Detached, stats.FirstError)
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
}

// detach ends all subscriptions in order. An end that the target does not
// confirm is not held against anybody: the run is over.
func (p *pass) detach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range p.lanes {
		wg.Go(func() {
			defer crash.Guard()
			// Detach leaves a subscription alone that is not open.
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
		_ = d.Close(ctx) // likewise
	}
	p.drivers = nil
}

// enter begins a phase and closes the one before; limit is how long it may take.
func (p *pass) enter(name string, limit time.Duration) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	now := p.clock.Now()
	p.seen.enter(name, p.turn(), p.clock.Time(now))
	if p.phase != "" {
		p.Result.Phases = append(p.Result.Phases, p.phaseUntil(now))
	}
	p.phase, p.began, p.limit = name, now, limit
}

// phaseUntil is the phase that goes on, if it ended at now; the caller holds
// phaseMu.
func (p *pass) phaseUntil(now eventmeter.Instant) results.Phase {
	return results.Phase{Name: p.phase, Lane: p.turn(), Start: results.Nanos(p.began), End: results.Nanos(now)}
}

func (p *pass) current() (name string, elapsed, limit time.Duration) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	return p.phase, p.clock.Now().Sub(p.began), p.limit
}
