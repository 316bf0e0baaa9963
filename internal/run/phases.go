package run

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// pass takes some lanes through all phases, with a ledger of their own.
type pass struct {
	*run
	lanes    []*lane
	ledger   *ledger.Ledger
	recorder eventmeter.Recorder // the ledger, and the observers beside it
	number   uint32              // from 0
	observer *sinks.Observer     // nil if the run publishes events
	stamper  *loadgen.Stamper
	drivers  []driver.Driver
	firing   *loadgen.Firing
	watch    *health.Watch
	trouble  atomic.Pointer[string] // the target's current trouble; nil if there is none
	watchers sync.WaitGroup         // goroutines that end with the contexts of a phase

	observedUntil eventmeter.Instant

	ended chan struct{}          // closed when the conditions of phases.until held
	exact atomic.Pointer[string] // how exactly the latencies were known at the latest look

	phaseMu sync.Mutex
	seen    seen // for metrics
	phase   string
	began   eventmeter.Instant
	limit   time.Duration
}

// seen holds what the metrics of a pass are made of. It is guarded by the pass's
// phaseMu.
type seen struct {
	phases  []metrics.Phase
	watch   *health.Watch
	start   eventmeter.Instant // of the schedule; 0 until then
	end     eventmeter.Instant // of the measured phase, if phases.until ended it; 0 until then
	stopped eventmeter.Instant // end of publishing; 0 until then
}

// enter ends the current phase, and begins the phase of that name if metrics show it.
func (s *seen) enter(name, lane string, at time.Time) {
	if n := len(s.phases); n > 0 && s.phases[n-1].End.IsZero() {
		s.phases[n-1].End = at
	}
	if name != "" {
		s.phases = append(s.phases, metrics.Phase{Name: name, Lane: lane, Start: at})
	}
}

// enter ends the current phase and begins another; limit is its longest duration.
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

// mayTake changes the longest duration of the current phase.
func (p *pass) mayTake(limit time.Duration) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.limit = limit
}

// phaseUntil returns the current phase as if it ended at now. The caller holds
// phaseMu.
func (p *pass) phaseUntil(now eventmeter.Instant) results.Phase {
	return results.Phase{Name: p.phase, Lane: p.turn(), Start: results.Nanos(p.began), End: results.Nanos(now)}
}

func (p *pass) current() (name string, elapsed, limit time.Duration) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	return p.phase, p.clock.Now().Sub(p.began), p.limit
}

// turn returns the lane whose turn it is, or "" if lanes do not take turns.
func (p *pass) turn() string {
	if p.profile.Phases.Order == "turns" {
		return p.lanes[0].Name
	}
	return ""
}

func (p *pass) pause(ctx context.Context, d time.Duration) error {
	return p.pauseUnless(ctx, d, nil)
}

// pauseUnless returns after d, or when over is closed.
func (p *pass) pauseUnless(ctx context.Context, d time.Duration, over <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	// lookEvery and lookGrowth: the phase must have become this much longer, and longer by
	// this share, from one look at how exactly latencies are known to the next.
	lookEvery  = time.Second
	lookGrowth = 20
	// lookShare bounds the cost of looks to 1 % of a processor.
	lookShare = 100
	// heldWhile is how many times as long the phase must become while all looks find that
	// the conditions hold: chance makes some intervals narrow. tools/trust measures what
	// is left of that.
	heldWhile = 1.25
	// leastPhase is how many times as long as a latency the phase must be. A look lacks the
	// deliveries under way: of those that take a time l, the share l/phase.
	leastPhase = 10
)

// awaitKnown calls look again and again, and returns true when a phase that began at from is
// at least least long, and look returned true while it became [heldWhile] times as long. It
// returns false if ctx ends before.
func awaitKnown(ctx context.Context, from time.Time, least time.Duration, look func() bool) bool {
	next := time.NewTimer(time.Until(from) + time.Duration(float64(least)/heldWhile))
	defer next.Stop()
	for since := time.Duration(0); ; { // length at the first look that found it; 0 = the latest did not
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
		}
		began := time.Now()
		length := began.Sub(from)
		switch {
		case !look():
			since = 0
		case since == 0:
			since = length
		case length >= least && float64(length) >= heldWhile*float64(since):
			return true
		}
		next.Reset(max(lookEvery, length/lookGrowth, lookShare*time.Since(began)))
	}
}

// endWhenKnown ends the measured phase when the conditions of phases.until on the lanes of
// the pass hold. The returned function stops looking, and waits.
func (p *pass) endWhenKnown(ctx context.Context) (stop func()) {
	if len(p.conditions()) == 0 {
		return func() {}
	}
	p.ended = make(chan struct{})
	from := time.Now().Add(p.firing.Start().Sub(p.clock.Now()) + p.profile.Phases.Warmup)
	return during(ctx, func(ctx context.Context) {
		if awaitKnown(ctx, from, p.profile.Phases.Measure, p.look) {
			p.endMeasured()
		}
	})
}

// conditions returns those of phases.until that are about lanes of the pass.
func (p *pass) conditions() (all []results.Condition) {
	for _, c := range p.Until {
		if slices.ContainsFunc(p.lanes, func(l *lane) bool { return c.Of(l.Name) && !l.HasNoSources() }) {
			all = append(all, c)
		}
	}
	return all
}

// look reports whether the latencies are known as exactly as phases.until wants.
func (p *pass) look() bool {
	account := p.ledger.Snapshot(true)
	m := account.Measured
	in, _ := p.watch.SoFar(results.ShareOf(m.Dropped, m.Fired+m.Dropped))
	lag := results.Summarise(account.FireLag)
	measured := p.clock.Now().Sub(p.firing.Start().Add(p.profile.Phases.Warmup))
	enough := true
	var texts []string
	for i, l := range p.lanes {
		conditions := slices.DeleteFunc(p.conditions(), func(c results.Condition) bool { return l.HasNoSources() || !c.Of(l.Name) })
		if len(conditions) == 0 {
			continue
		}
		figures := results.NewLane(&account.Lanes[i])
		figures.Latency.MarkDoubts(in.ReadDelay.P99, &lag)
		for _, c := range conditions {
			now := c.Judge(&figures)
			enough = enough && now.Reached && now.Value.Duration()*leastPhase <= measured
			texts = append(texts, now.Brief())
		}
	}
	text := strings.Join(texts, ", ")
	p.exact.Store(&text)
	return enough
}

// known returns what the latest look found.
func (p *pass) known() string {
	if text := p.exact.Load(); text != nil {
		return *text
	}
	return ""
}

// endMeasured ends publishing and the measured phase.
func (p *pass) endMeasured() {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	// Never after the end that the phase has anyway.
	p.seen.end = min(p.firing.End(), p.measuredUntil())
	p.ledger.Measure(p.seen.start.Add(p.profile.Phases.Warmup), p.seen.end)
	close(p.ended)
}
