package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// pass runs lanes through all phases and adds their figures to the result. Once
// publishing has begun, the account is added even if pass returns an error.
func (r *run) pass(ctx context.Context, lanes []*lane) (err error) {
	p := &pass{run: r, lanes: lanes}
	if err := p.prepare(); err != nil {
		return err
	}
	defer r.endTrace() // after the drivers are closed and write nothing more
	endProgress := p.reportProgress()
	defer endProgress()
	defer p.watchers.Wait()
	defer p.closeDrivers()

	watched := p.watchOptions(ctx)
	levels := p.followLevels(watched)
	defer levels.Stop()
	marks := p.marks()
	p.enter("attach", r.profile.Phases.Ready)
	shown := p.follow(ctx)
	defer shown.Settle(nil) // if there is no account
	if err := p.attach(ctx); err != nil {
		return err
	}
	start, err := p.begin(ctx)
	if err != nil {
		// Nothing was published, so there is nothing to report.
		p.enter("detach", closeTimeout)
		p.detach(ctx)
		return err
	}
	if err := p.watchGenerator(watched); err != nil {
		return err
	}
	endCheckpoints := p.checkpoints()
	defer endCheckpoints()
	err = p.fire(ctx, start)
	p.firedUntil(p.clock.Now())
	if p.firing != nil { // a run without others begins when it is ready
		start = p.firing.Start()
	}
	marks.From, marks.To = (time.Duration(start) + p.profile.Phases.Warmup).Seconds(), p.seconds()
	p.stopObserving()
	if drained := p.drain(ctx, err); err == nil {
		err = drained
	}
	if err == nil {
		err = p.stillThere(ctx, p.ledger.Outstanding() > 0)
	}
	if err == nil {
		p.lookAgain()
	}
	endCheckpoints()
	if p.backlog != nil {
		p.backlog.Undrained = p.ledger.Outstanding()
	}
	emissions := p.ledger.Live().Measured
	generator, process := p.watch.Stop(results.ShareOf(emissions.Dropped, emissions.Fired+emissions.Dropped))
	for name, v := range watched.TargetMetrics.Odd() {
		p.Warn("target-metrics", "", "the target reported %s %g, which no process can have: the metric is left out", errtext.Line(name), v)
	}
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
	p.observed(own, p.observedUntil, p.Warn)
	p.findings(own, p.Warn)
	if err == nil {
		err = p.coolDown(ctx, &marks)
	}
	if err == nil {
		err = p.wasStopped(ctx) // while it drained, or later
	}
	if g := health.Growths(levels.Stop(), marks); g != nil {
		r.Result.Target.Leak = g
	}
	p.keepPart(account, own, generator, process)
	r.Add(account, own, generator, process)
	if r.Result.Target.Process == nil {
		process = nil // it cannot be the target's
	}
	shown.Settle(p.lastLook(&account, own, process))
	return err
}

// wasStopped returns the error of a run that was stopped or canceled; nil if it was not.
func (p *pass) wasStopped(ctx context.Context) error {
	select {
	case <-p.opts.Stop:
		return ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

// followLevels follows what the target holds. It returns nil where nothing could be said about it: lanes
// that take turns are no constant load, and a shard does not know when the others end.
func (p *pass) followLevels(o health.WatchOptions) *health.Levels {
	if p.turn() != "" || p.opts.Shard != nil {
		return nil
	}
	return health.FollowLevels(o, p.seconds)
}

// marks begins the times of the pass.
func (p *pass) marks() health.Marks {
	kind := p.profile.Schedule.Kind
	return health.Marks{Attach: p.seconds(), Varying: kind == "ramp" || kind == "trace", Planned: p.profile.Phases.Cooldown > 0}
}

// coolDown leaves the target alone, without subscriptions.
func (p *pass) coolDown(ctx context.Context, m *health.Marks) error {
	d := p.profile.Phases.Cooldown
	if d == 0 {
		return nil
	}
	p.closeDrivers()
	p.enter("cool-down", d)
	defer p.enter("", 0)
	m.Cool = p.seconds()
	ctx, cancel := p.untilStopped(ctx)
	defer cancel(nil)
	if err := p.pause(ctx, d); err != nil {
		return err
	}
	m.Cooled = p.seconds()
	return nil
}

// seconds is the time since the start of the run.
func (p *pass) seconds() float64 { return time.Duration(p.clock.Now()).Seconds() }

// watchOptions says what is watched.
func (p *pass) watchOptions(ctx context.Context) health.WatchOptions {
	ph := &p.profile.Phases
	return health.WatchOptions{
		TargetPIDs: p.targetPIDs(ctx), TargetMetrics: health.NewMetrics(p.opts.TargetMetrics, p.guard), Siblings: p.siblings,
		KernelTimestamps: p.stamped(p.lanes), Length: ph.Warmup + ph.Longest(),
	}
}

// watchGenerator starts to watch this process and the target's.
func (p *pass) watchGenerator(o health.WatchOptions) (err error) {
	p.watch, err = health.Start(o)
	switch {
	case errors.Is(err, health.ErrMetrics):
		return fmt.Errorf("%w: %w", ErrTarget, err)
	case err != nil:
		return err
	}
	p.shownBy(p.watch)
	return nil
}

// keepSubscriptions stores the counts of each subscription if Options requests them.
func (p *pass) keepSubscriptions() {
	if !p.opts.Subscriptions {
		return
	}
	for i, l := range p.lanes {
		counts := make([]ledger.SubCounts, l.Subscriptions)
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
	for _, e := range p.target.endpoints() {
		e.SettleTokens() // so that both ends have counted the same
	}
	admin := ""
	if p.profile.Target.IsEmbedded() {
		admin = p.adminURL()
	}
	return p.opts.Measured(ctx, admin, p.guard.Client())
}

// driverFigures returns the figures that only the lanes' own systems have.
func (p *pass) driverFigures() []results.PartFigures {
	out := make([]results.PartFigures, len(p.drivers))
	for i, d := range p.drivers {
		if f, ok := d.(driver.Figurer); ok {
			out[i] = results.PartFigures(f.Figures())
			if p.lanes[i] == p.listedFor {
				out[i].Conform = out[i].Conform.Plus(p.listed)
			}
		}
	}
	return out
}
