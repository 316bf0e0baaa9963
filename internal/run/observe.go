package run

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// observeFrom starts the observers when the schedule begins.
func (p *pass) observeFrom(start eventmeter.Instant) {
	if p.tracer != nil {
		p.tracer.Start(start)
	}
	if p.observer != nil {
		ph := p.profile.Phases
		p.observer.Start(start.Add(ph.Warmup))
		p.observer.Stop(start.Add(ph.Warmup + ph.Measure))
	}
}

// observed adds the observer's figures to those of the lanes. A pass that ended early
// is measured over the time that it had.
func (p *pass) observed(figures []results.PartFigures, until eventmeter.Instant, warning func(code, lane, format string, args ...any)) {
	if p.observer == nil || p.firing == nil {
		return
	}
	ph := p.profile.Phases
	seconds := min(until.Sub(p.firing.Start())-ph.Warmup, ph.Measure).Seconds()
	for i := range figures {
		l := p.lanes[i]
		if l.HasNoSources() || usesLists(l) { // there are no events to observe
			continue
		}
		if l.Subscriptions == 0 { // a shard may have none of a lane, and then no least or most
			continue
		}
		o := p.observer.Lane(i)
		f := &figures[i]
		if f.Values == nil {
			f.Values = map[string]float64{}
		}
		if f.Timings == nil {
			f.Timings = map[string]ledger.Timing{}
		}
		f.Values["observedEvents"] = float64(o.Events)
		f.Values["observedDuplicates"] = float64(o.Copies)
		f.Values["observedWithoutId"] = float64(o.WithoutID)
		f.Values["observedWithoutTime"] = float64(o.WithoutTime)
		f.Values["observedAhead"] = float64(o.Ahead)
		f.Values["observedLeast"] = float64(o.Least)
		f.Values["observedMost"] = float64(o.Most)
		if seconds > 0 {
			f.Values["observedPerSecond"] = float64(o.Events) / seconds
		}
		f.Timings["observedAge"] = o.Age
		if o.Age.Histogram.TotalCount() > 0 {
			warning(
				"clocks",
				p.lanes[i].Name,
				"observedAge is measured with two clocks, this machine's and the one that stamped the events, and is wrong by their "+
					"difference; %d of %d events carry a time in the future",
				o.Ahead,
				o.Age.Histogram.TotalCount(),
			)
		}
	}
}

// usesLists reports whether the lane receives lists instead of events.
func usesLists(l *lane) bool {
	of, err := systems.Find(l.System)
	return err == nil && of.UsesLists
}

// stopObserving records when the observers stop.
func (p *pass) stopObserving() { p.observedUntil = p.clock.Now() }
