package run

import (
	"cmp"
	"math"

	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
)

// scheduleOf translates the profile's schedule.
func scheduleOf(p *profiles.Profile) loadgen.Schedule {
	s := p.Schedule
	switch s.Kind {
	case "poisson":
		return loadgen.Poisson{Rate: float64(s.Rate), Seed: s.Seed}
	case "burst":
		return loadgen.Burst{Size: s.Burst, Every: s.Every, Spread: s.Spread}
	case "ramp":
		return loadgen.Ramp{From: float64(s.Rate), To: float64(s.To), Over: cmp.Or(s.Period, p.Phases.Warmup+p.Phases.Measure)}
	case "sine":
		return loadgen.Sine{Mean: float64(s.Rate), Amplitude: float64(s.Amplitude), Period: s.Period}
	}
	return loadgen.Constant{Rate: float64(s.Rate)}
}

// Due returns how many measured events a profile has of a lane's sources; the largest int where that is not known
// beforehand.
func Due(p *profiles.Profile, l profiles.Lane) int {
	t, err := profiles.CompileLane(l)
	if err != nil || l.HasNoSources() || p.Schedule.Kind == "trace" || p.Upstream.Kind == "replay" {
		return math.MaxInt
	}
	all, own := uint64(p.Upstream.Sources), map[uint16]bool{}
	share := all
	for i := range l.Subscriptions {
		for _, s := range t.Sources(i) { // none means all
			own[s] = true
			share = uint64(len(own))
		}
	}
	s, begin := scheduleOf(p), p.Phases.Warmup
	return int((loadgen.Count(s, begin+p.Phases.Measure) - loadgen.Count(s, begin)) * share / all)
}

// schedule returns the schedule of a pass.
func (r *run) schedule() loadgen.Schedule {
	switch {
	case r.profile.Upstream.Kind == "none" || r.opts.Idle:
		return loadgen.Trace{} // no emissions
	case r.profile.Schedule.Kind == "trace":
		return r.times
	}
	return scheduleOf(r.profile)
}

// myEmissions returns the part of the schedule that this process publishes, and the
// number of each of its emissions in the whole schedule; nil = the same.
func (r *run) myEmissions() (loadgen.Schedule, func(uint64) uint64) {
	whole := r.schedule()
	s := r.opts.Shard
	if s == nil {
		return whole, nil
	}
	sources := r.profile.Upstream.Sources
	cycle, sourceOf := sources, func(n int) uint16 { return uint16(n) }
	if o, ok := r.target.upstream.(upstream.Sourcer); ok {
		cycle, sourceOf = max(len(r.trace), 1), func(n int) uint16 { return o.Source(uint64(n)) }
	}
	part := r.plan.Part(whole, s.Index, cycle, sourceOf)
	return part, part.Number
}
