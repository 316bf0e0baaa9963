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
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

const progressEvery = 200 * time.Millisecond

// reportProgress calls [Options.Progress] until the returned function is called,
// which waits for the last call.
func (p *pass) reportProgress() (stop func()) {
	if p.opts.Progress == nil {
		return func() {}
	}
	return during(context.Background(), func(ctx context.Context) {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				name, elapsed, limit := p.current()
				now := Progress{Phase: name, Elapsed: elapsed, Limit: limit, Live: p.ledger.Live(), Lane: p.turn(), Until: p.known()}
				if t := p.trouble.Load(); t != nil {
					now.Trouble = *t
				}
				p.opts.Progress(now)
			}
		}
	})
}

// follow shows the run's metrics if there is a collector.
func (r *run) follow() {
	fleet, shard := shardLabels(r.Result.Run, r.id, r.opts.Shard)
	r.followed = r.opts.Collector.Begin(metrics.Run{
		ID:       r.Result.Run,
		Name:     r.opts.Name,
		Profile:  r.profile.Name,
		Version:  r.opts.Version,
		Upstream: r.profile.Upstream.Kind,
		Schedule: r.profile.Schedule.Kind,
		Fleet:    fleet,
		Shard:    shard,
		Started:  r.Result.Started,
	})
}

func (p *pass) shownBy(w *health.Watch) {
	p.phaseMu.Lock()
	defer p.phaseMu.Unlock()
	p.seen.watch = w
}

// follow shows the pass's metrics.
func (p *pass) follow(ctx context.Context) *metrics.Pass {
	if p.followed == nil {
		return nil
	}
	generator := health.ProcessUsage(os.Getpid())
	target := health.TreeUsage(p.targetPIDs(ctx))
	return p.followed.Pass(func() metrics.Look {
		l := p.lookNow()
		l.Detail = p.ledger.Detail()
		l.Own = make([]metrics.Figures, len(p.drivers))
		for i, d := range p.drivers {
			if f, ok := d.(driver.Figurer); ok {
				own := f.Figures()
				l.Own[i] = metrics.FiguresOf(own.Values, own.Timings)
				l.Own[i].Conform = own.Conform
			}
		}
		l.Health.Generator, l.Health.Target = generator(), target()
		return l
	})
}

// lookNow returns the state of the pass without its ledger and lanes.
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

// bursts returns how many bursts of the schedule were due by now, or by the end of
// publishing, and when the last one was.
func (p *pass) bursts(start, stopped eventmeter.Instant) (int64, time.Time) {
	every := p.profile.Schedule.Every
	if p.profile.Schedule.Kind != "burst" || start == 0 {
		return 0, time.Time{}
	}
	now := p.clock.Now()
	if stopped != 0 {
		now = stopped
	}
	p.phaseMu.Lock()
	end := p.measuredUntil()
	p.phaseMu.Unlock()
	since := min(now, end-1).Sub(start)
	if since < 0 {
		return 0, time.Time{}
	}
	last := since / every
	return int64(last) + 1, p.clock.Time(start.Add(last * every))
}

// lastLook returns the final figures of the account, with the target's resource use
// as in the result.
func (p *pass) lastLook(a *ledger.Account, own []results.PartFigures, target *results.Process) *metrics.Look {
	if p.followed == nil {
		return nil
	}
	l := p.lookNow()
	l.Detail = a.Live()
	for _, f := range own {
		of := metrics.FiguresOf(f.Values, f.Timings)
		of.Conform = f.Conform
		l.Own = append(l.Own, of)
	}
	if target == nil { // it could not be read any more
		delete(l.Health.Used, metrics.Target)
		delete(l.Health.Most, metrics.Target)
	}
	return &l
}

// shardLabels returns the labels that distinguish the shards of a run, and the label
// that they share.
func shardLabels(name string, id uint32, s *Shard) (fleet, shard string) {
	if s == nil {
		return name, ""
	}
	return Name(id, nil), strconv.Itoa(s.Index)
}
