package run

import (
	"fmt"
	"math"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

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
		o.KernelTimestamps = r.stampedStreams(&l.Lane)
		o.Webhook.Proven = o.Webhook.Proven || r.profile.Target.Embedded.Proof == "allow-list"
		o.Published, o.Sole = p.ledger, p.ledger.Sole
		d, err := systems.New(o)
		if err != nil {
			p.closeDrivers()
			return fmt.Errorf("%w: lane %s: %w", ErrProfile, l.Name, err)
		}
		p.drivers = append(p.drivers, d)
	}
	return nil
}

// openLedger makes the pass's ledger and gives the pass its run number. Late events
// of an earlier pass have another run number and count as foreign.
func (p *pass) openLedger() error {
	r := p.run
	specs := make([]ledger.LaneSpec, len(p.lanes))
	for i, l := range p.lanes {
		specs[i] = l.spec()
	}
	id, sibling := r.runID(r.passNo)
	p.number = r.passNo
	r.passNo++
	// A phase that may end early needs intervals that are not too long for it: with
	// phases.until there are up to 600.
	shown := max(r.profile.Phases.Measure, r.profile.Phases.Longest()/5)
	var err error
	p.ledger, err = ledger.New(ledger.Options{
		Clock: r.clock, Run: id, Sibling: sibling, Sources: r.profile.Upstream.Sources, Lanes: specs,
		LateAfter: r.profile.Phases.Late, DetachGrace: r.profile.Phases.Drain, Interval: interval(shown), Recorded: recorded(shown),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProfile, err)
	}
	// Until publishing begins, keep everything out of the measured window; otherwise
	// live counters of the window would fall back to 0 then.
	p.ledger.Measure(math.MaxInt64, math.MaxInt64)
	return nil
}

// interval returns the width of the intervals that a display shows: about a hundred
// per run, of 100 ms to 1 s.
func interval(measure time.Duration) time.Duration {
	const step = 100 * time.Millisecond
	return min(max((measure/100).Truncate(step), step), time.Second)
}

// recorded returns the width of the intervals of a run's time series, so that there
// are at most 120 of them. Each holds two histograms of every lane, which would
// otherwise be most of the memory of a long run.
func recorded(measure time.Duration) time.Duration {
	const most = 120
	width := interval(measure)
	return width * max((measure+most*width-1)/(most*width), 1)
}

// recorderOf returns the recorder of a pass: the ledger, and the observers beside it.
func (p *pass) recorderOf() (eventmeter.Recorder, error) {
	all := []eventmeter.Recorder{p.ledger}
	if p.profile.Upstream.Kind == "none" {
		var lanes []int
		for _, l := range p.lanes {
			lanes = append(lanes, l.Subscriptions)
		}
		var err error
		if p.observer, err = sinks.NewObserver(sinks.ObserverOptions{Clock: p.clock, Lanes: lanes}); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProfile, err)
		}
		all = append(all, p.observer)
	}
	if err := p.startTrace(); err != nil {
		return nil, err
	}
	if p.tracer != nil {
		all = append(all, p.tracer)
	}
	return eventmeter.Tee(all...), nil
}
