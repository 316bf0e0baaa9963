package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/results"
)

// getReady is how long before publishing a run that waits for others starts to watch its own
// health.
const getReady = 250 * time.Millisecond

// begin waits for the other shards, or for the other run of a duet, until shortly
// before publishing begins, and returns the instant at which it begins; 0 = at once,
// without others.
func (p *pass) begin(ctx context.Context) (eventmeter.Instant, error) {
	if p.opts.Shard == nil && p.opts.Together == nil {
		return 0, nil
	}
	p.enter("wait", 0)
	ctx, cancel := p.untilStopped(ctx)
	defer cancel(nil)
	start, at, err := p.meet(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, err
	}
	if err := p.pause(ctx, time.Until(at)-getReady); err != nil {
		return 0, err
	}
	return start, nil
}

// meet waits for the others, and returns when publishing begins.
func (p *pass) meet(ctx context.Context) (eventmeter.Instant, time.Time, error) {
	if s := p.opts.Shard; s != nil {
		at, err := s.Barrier(ctx, int(p.number))
		return p.clock.Now().Add(time.Until(at)), at, err
	}
	at, err := p.opts.Together.Meet(ctx)
	at = at.Add(2 * getReady)
	// Exactly the same instant in both runs: two readings of a clock are as far apart
	// as the machine is busy.
	return p.clock.Instant(at), at, err
}

// loop publishes the emissions of the pass, alone or with the other run of a duet.
func (p *pass) loop(ctx context.Context) {
	o := loadgen.LoopOptions{Fire: p.target.upstream.Fire, Workers: p.profile.Upstream.Workers}
	if t := p.opts.Together; t != nil {
		t.Loop(ctx, p.firing, o)
		return
	}
	loadgen.Loop(ctx, p.firing, o)
}

// fire runs the schedule through warm-up and measured phase, with churn beside it.
func (p *pass) fire(ctx context.Context, start eventmeter.Instant) error {
	ph := p.profile.Phases
	schedule, number := p.myEmissions()
	if start == 0 {
		start = p.clock.Now()
	}
	var err error
	p.firing, err = loadgen.NewFiring(loadgen.FiringOptions{
		Clock: p.clock, Recorder: p.recorder, Stamper: p.stamper, Schedule: schedule,
		Start: start, Number: number, Warmup: ph.Warmup, Duration: ph.Longest(),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	p.observeFrom(p.firing.Start())
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
		p.enter("measure", ph.Longest())
	})
	defer measuring.Stop()

	stopReading := p.readBacklog(ctx)
	defer stopReading()
	stopChurn := p.churn(ctx)
	defer stopChurn()
	endBeside := p.beside(ctx)
	defer endBeside()
	stopLooking := p.endWhenKnown(ctx)
	defer stopLooking()
	p.loop(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The schedule may end a little before the phase does, but the profile promises
	// the whole length of the phase.
	if err := p.pauseUnless(ctx, ph.Warmup+ph.Longest()-p.clock.Now().Sub(p.firing.Start()), p.ended); err != nil {
		return err
	}
	stopLooking()
	p.awaitChurn(ctx, stopChurn)
	return watch.whole(outer)
}

// awaitChurn stops churn and waits for its calls, because the end of the watch would
// cancel them and count them as failed. It waits at most as long as a subscription
// may take to open, and only while the target answers.
func (p *pass) awaitChurn(ctx context.Context, stop func()) {
	ended := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(ended)
		stop() // the caller calls stop again, which waits for this call
	}()
	most := time.NewTimer(p.profile.Phases.Ready)
	defer most.Stop()
	again := time.NewTicker(returnWithin)
	defer again.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-most.C:
			return
		case <-again.C:
			if p.ask(ctx, askFor) != nil {
				return
			}
		}
	}
}

// lastFailure ends a sentence with the reason why the latest emission failed and what
// to check.
func (p *pass) lastFailure() string {
	if e, ok := p.target.upstream.(upstream.Explainer); ok {
		if _, latest := e.Failures(); latest != "" {
			return fmt.Sprintf(", the last one: %s; is the target still up, and upstream (kind %s) right?", latest, p.profile.Upstream.Kind)
		}
	}
	return fmt.Sprintf(": the target is gone, or upstream.kind %s cannot reach it", p.profile.Upstream.Kind)
}

func (p *pass) firingFrom(start eventmeter.Instant) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.start = start
	p.ledger.Measure(start.Add(p.profile.Phases.Warmup), p.measuredUntil())
}

// measuredUntil returns when the measured phase ended, or ends at the latest. The caller
// holds phaseMu.
func (p *pass) measuredUntil() eventmeter.Instant {
	ph := &p.profile.Phases
	return cmp.Or(p.seen.end, p.seen.start.Add(ph.Warmup+ph.Longest()))
}

func (p *pass) firedUntil(at eventmeter.Instant) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.stopped = at
	if p.seen.start == 0 {
		p.ledger.Measure(at, at) // nothing was published
		return
	}
	// A run that was stopped early is measured until the stop.
	from, end := p.seen.start.Add(p.profile.Phases.Warmup), p.measuredUntil()
	p.ledger.Measure(from, min(end, at))
	by := results.EndedByBound
	switch {
	case at < end:
		by = results.EndedByStop
	case p.seen.end != 0:
		by = results.EndedByCondition
	}
	for _, l := range p.lanes {
		p.Measured(l.Name, max(min(end, at).Sub(from), 0), by)
	}
}

// beginOwn tells the lanes that do their own work when the measured phase begins and
// ends.
func (p *pass) beginOwn(start eventmeter.Instant) {
	ph := p.profile.Phases
	for _, d := range p.drivers {
		if d, ok := d.(driver.Beginner); ok {
			d.Begin(start.Add(ph.Warmup), start.Add(ph.Warmup+ph.Longest()))
		}
	}
}

// drainOwn makes the lanes that do their own work start nothing new.
func (p *pass) drainOwn() { p.eachPhased(driver.Phased.Drain) }

// pendingOwn returns how much of the lanes' own work is still in progress.
func (p *pass) pendingOwn() (n int64) {
	p.eachPhased(func(d driver.Phased) { n += d.Pending() })
	return n
}

func (p *pass) eachPhased(do func(driver.Phased)) {
	for _, d := range p.drivers {
		if d, ok := d.(driver.Phased); ok {
			do(d)
		}
	}
}

// inboxOf returns what receives the callbacks of a lane, nil if it has none.
func inboxOf(d driver.Driver) *driver.Inbox {
	if r, ok := d.(interface{ Callbacks() *driver.Inbox }); ok {
		return r.Callbacks()
	}
	return nil
}

// beside starts [Options.Beside]. The caller must call the function that it returns,
// which cancels the work and waits for it.
func (p *pass) beside(ctx context.Context) (end func()) {
	if p.opts.Beside == nil {
		return func() {}
	}
	first := p.lanes[0]
	b := Beside{
		Clock: p.clock, Endpoint: p.target.plain, Event: first.Event, Arguments: first.templates.Arguments(0), Types: p.types,
		Publishing: p.profile.Upstream.Kind != "none",
		List: func(ctx context.Context) (conform.Account, error) {
			of, _ := systems.Find(first.System) // the run's lanes have systems
			offer, err := askSystem(ctx, p.target.plain, of, false)
			return offer.Conform, err
		},
	}
	for _, d := range p.drivers {
		if b.Inbox == nil {
			b.Inbox = inboxOf(d)
		}
	}
	return during(ctx, func(ctx context.Context) { p.opts.Beside(ctx, b) })
}
