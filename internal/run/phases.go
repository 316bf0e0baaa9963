package run

import (
	"context"
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
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
