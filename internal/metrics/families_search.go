package metrics

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventmeter/eventmeter/results"
)

// Search is one search for a capacity. Its methods do nothing on nil.
type Search struct {
	name, given, profile, axis string

	mu    sync.Mutex
	steps []results.CapacityStep
	end   *results.Capacity
}

// Search adds a search. name must be unique; given is the name that a person gave it, or "". On nil it returns nil, a search that is
// not shown.
func (c *Collector) Search(name, given, profile, axis string) *Search {
	if c == nil {
		return nil
	}
	s := &Search{name: strings.ToValidUTF8(name, "\uFFFD"), given: strings.ToValidUTF8(given, "\uFFFD"), profile: profile, axis: axis}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.searches = append(c.searches, s)
	return s
}

// Step adds a step that is over.
func (s *Search) Step(step results.CapacityStep) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

// Finish ends the search.
func (s *Search) Finish(c *results.Capacity) {
	if s == nil || c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = c
}

func (s *Search) collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	x := Search{name: s.name, given: s.given, profile: s.profile, axis: s.axis, steps: slices.Clone(s.steps), end: s.end}
	s.mu.Unlock()
	show(to, &x, searchFamilies, nil, x.name)
}

func ofSearch(name, help string, of func(x *Search, emit emitter), own ...string) family[Search] {
	return newFamily(SearchLabels, gauge, name, help, own, of)
}

// steps are the metrics that each step has.
var steps = []struct {
	name, help string
	of         func(*results.CapacityStep) float64
}{
	{"load", "Load of a step, in the unit of the axis.", func(s *results.CapacityStep) float64 { return s.Load }},
	{"offered_rate", "Deliveries per second that were due in a step.", func(s *results.CapacityStep) float64 { return s.Offered }},
	{"achieved_rate", "Copies of events received per second in a step.", func(s *results.CapacityStep) float64 { return s.Achieved }},
	{"expected", "Owed pairs of a step.", func(s *results.CapacityStep) float64 { return float64(s.Expected) }},
	{"lost", "Owed pairs of a step that were never received.", func(s *results.CapacityStep) float64 { return float64(s.Lost) }},
	{
		"backlog_growth_rate", "Growth of the backlog of owed deliveries, in deliveries per second.",
		func(s *results.CapacityStep) float64 { return s.Backlog.Growth },
	},
}

// ends are the metrics of what a search found.
var ends = []struct {
	name, help string
	of         func(*results.CapacityMaximum) float64
}{
	{
		"load", "The largest load that met the SLO below all that did not; 0 when there is none.",
		func(k *results.CapacityMaximum) float64 { return k.Load },
	},
	{
		"above_load", "The smallest load that did not meet the SLO; 0 when there is none.",
		func(k *results.CapacityMaximum) float64 { return k.Above },
	},
	{
		"from_load", "Lower end of the maximum load's interval: no trial at or below it failed; 0 = open.",
		func(k *results.CapacityMaximum) float64 { return k.From },
	},
	{
		"to_load", "Upper end of the maximum load's interval: no trial at or above it passed; 0 = open.",
		func(k *results.CapacityMaximum) float64 { return k.To },
	},
	{"deliveries_rate", "Deliveries per second at the maximum.", func(k *results.CapacityMaximum) float64 { return k.Deliveries }},
}

func ofSteps() (all []family[Search]) {
	for _, m := range steps {
		all = append(all, ofSearch("eventmeter_capacity_step_"+m.name, m.help, func(x *Search, emit emitter) {
			for i := range x.steps {
				emit(m.of(&x.steps[i]), strconv.Itoa(x.steps[i].Number))
			}
		}, "step"))
	}
	return all
}

func ofEnds() (all []family[Search]) {
	for _, m := range ends {
		all = append(all, ofSearch("eventmeter_capacity_maximum_"+m.name, m.help, func(x *Search, emit emitter) {
			if x.end != nil {
				emit(m.of(&x.end.Maximum))
			}
		}))
	}
	return all
}

// searchFamilies are the metrics of searches for a capacity. They are told when
// a step is over.
var searchFamilies = slices.Concat([]family[Search]{
	ofSearch(
		"eventmeter_capacity_info",
		"1, for each search that is shown. name is the one that was given with --name, or empty. axis is rate, subscriptions or burst.",
		func(x *Search, emit emitter) { emit(1, x.given, x.profile, x.axis) },
		"name",
		"profile",
		"axis",
	),
	ofSearch(
		"eventmeter_capacity_step_info",
		"1, for each step: what it was for, and how it was judged (passed, failed, unclear or aside).",
		func(x *Search, emit emitter) {
			for _, s := range x.steps {
				emit(1, strconv.Itoa(s.Number), s.Purpose, s.Verdict)
			}
		},
		"step",
		"purpose",
		"verdict",
	),
}, ofSteps(), []family[Search]{
	ofSearch(
		"eventmeter_capacity_step_latency_seconds",
		"Scheduled → received of a lane in a step, by figure: p50, p90, p95, p99 or p999.",
		func(x *Search, emit emitter) {
			for _, s := range x.steps {
				for _, l := range s.Lanes {
					q := l.FromIntended
					if q.Count == 0 {
						continue
					}
					for _, v := range q.All() {
						emit(v.Value.Duration().Seconds(), strconv.Itoa(s.Number), l.Name, l.Mode, v.Name)
					}
				}
			}
		},
		"step",
		"lane",
		"mode",
		"figure",
	),
	ofSearch(
		"eventmeter_capacity_step_target_cpu_cores",
		"CPU time of the target over wall time in a step, where it is known.",
		func(x *Search, emit emitter) {
			for _, s := range x.steps {
				if s.Target != nil {
					emit(s.Target.CPUShare, strconv.Itoa(s.Number))
				}
			}
		},
		"step",
	),
	ofSearch(
		"eventmeter_capacity_outcome",
		"1 for how the search ended: found, none, bound, generator, exhausted or searching (interrupted).",
		func(x *Search, emit emitter) {
			if x.end != nil {
				emit(1, x.end.Outcome)
			}
		},
		"outcome",
	),
}, ofEnds())
