package run

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// follow shows the run's metrics, where somebody wants them.
func (r *run) follow() {
	fleet, shard := shardLabels(r.Result.Run, r.id, r.opts.Shard)
	r.followed = r.opts.Collector.Begin(metrics.Run{
		ID: r.Result.Run, Profile: r.profile.Name, Version: r.opts.Version, Upstream: r.profile.Upstream.Kind, Schedule: r.profile.Schedule.Kind,
		Fleet: fleet, Shard: shard, Started: r.Result.Started,
	})
}

// seen is what the metrics of a pass are read from; it is guarded by the pass's
// phaseMu.
type seen struct {
	phases  []metrics.Phase
	watch   *health.Watch
	start   eventmeter.Instant // of the schedule, 0 before
	stopped eventmeter.Instant // when no more was fired, 0 before
}

// enter ends the last phase, and begins the one of that name if it has one.
func (s *seen) enter(name, lane string, at time.Time) {
	if n := len(s.phases); n > 0 && s.phases[n-1].End.IsZero() {
		s.phases[n-1].End = at
	}
	if name != "" {
		s.phases = append(s.phases, metrics.Phase{Name: name, Lane: lane, Start: at})
	}
}

// turn is the lane whose turn it is, or "" where they do not take turns.
func (p *pass) turn() string {
	if p.profile.Phases.Order == "turns" {
		return p.lanes[0].Name
	}
	return ""
}

func (p *pass) shownBy(w *health.Watch) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.watch = w
}

func (p *pass) firingFrom(start eventmeter.Instant) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.start = start
	ph := &p.profile.Phases
	p.ledger.Measure(start.Add(ph.Warmup), start.Add(ph.Warmup+ph.Measure))
}

func (p *pass) firedUntil(at eventmeter.Instant) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.stopped = at
	if p.seen.start == 0 {
		p.ledger.Measure(at, at) // nothing was fired
		return
	}
	// A run that was stopped early is measured until then.
	ph := &p.profile.Phases
	p.ledger.Measure(p.seen.start.Add(ph.Warmup), min(p.seen.start.Add(ph.Warmup+ph.Measure), at))
}

// follow shows the pass's metrics.
func (p *pass) follow(ctx context.Context) *metrics.Pass {
	if p.followed == nil {
		return nil
	}
	generator := health.ProcessUsage(os.Getpid())
	target := func() metrics.Usage { return metrics.Usage{} }
	if pid := p.targetPID(ctx); pid != 0 {
		target = health.ProcessUsage(pid)
	}
	return p.followed.Pass(func() metrics.Look {
		l := p.lookNow()
		l.Detail = p.ledger.Detail()
		l.Own = make([]metrics.Figures, len(p.drivers))
		for i, d := range p.drivers {
			if f, ok := d.(driver.Figurer); ok {
				own := f.Figures()
				l.Own[i] = metrics.FiguresOf(own.Values, own.Timings)
			}
		}
		l.Health.Generator, l.Health.Target = generator(), target()
		return l
	})
}

// lookNow looks at all but the ledger and the lanes.
func (p *pass) lookNow() metrics.Look {
	p.phaseMu.Lock()
	s := p.seen
	s.phases = append([]metrics.Phase(nil), s.phases...)
	p.phaseMu.Unlock()
	l := metrics.Look{Phases: s.phases, Health: s.watch.Health()}
	l.Bursts, l.Burst = p.bursts(s.start, s.stopped)
	up := p.upstreamFigures()
	l.Upstream = metrics.FiguresOf(up.Values, up.Timings)
	return l
}

// bursts is how many bursts of the schedule were due by now, or until firing was
// over, and when the last was.
func (p *pass) bursts(start, stopped eventmeter.Instant) (int64, time.Time) {
	every := p.profile.Schedule.Every
	if p.profile.Schedule.Kind != "burst" || start == 0 {
		return 0, time.Time{}
	}
	now := p.clock.Now()
	if stopped != 0 {
		now = stopped
	}
	since := min(now.Sub(start), p.profile.Phases.Warmup+p.profile.Phases.Measure-1)
	if since < 0 {
		return 0, time.Time{}
	}
	last := since / every
	return int64(last) + 1, p.clock.Time(start.Add(last * every))
}

// lastLook is what the account says, with the target's use as in the result.
func (p *pass) lastLook(a *sinks.Account, own []results.PartFigures, target *results.Process) *metrics.Look {
	if p.followed == nil {
		return nil
	}
	l := p.lookNow()
	l.Detail = a.Live()
	for _, f := range own {
		l.Own = append(l.Own, metrics.FiguresOf(f.Values, f.Timings))
	}
	if target == nil { // it was lost from sight
		delete(l.Health.Used, metrics.Target)
		delete(l.Health.Most, metrics.Target)
	}
	return &l
}

// shardLabels are what tells the shards of a run apart, and what they share.
func shardLabels(name string, id uint32, s *Shard) (fleet, shard string) {
	if s == nil {
		return name, ""
	}
	return Name(id, nil), strconv.Itoa(s.Index)
}
