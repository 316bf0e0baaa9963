// Package plan predicts what a workload takes: from the cost sheets of capacity
// searches to CPU, memory, connections, bandwidth and pods, each with an interval. It
// is pure: it reads and runs nothing.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Schema is the version of the JSON of a plan.
const Schema = "eventmeter.plan/1"

// refreshAt is the share of the TTL after which a subscriber refreshes, the default of
// profiles.
const refreshAt = 0.75

// far is how far outside what was measured a prediction may be before the plan warns
// of it.
const far = 3

// wide is the factor between the ends of an interval above which a better search is advised.
const wide = 2

// Pod is what one replica of the target may use. 0 = no bound.
type Pod struct {
	CPU         float64 `json:"cpu"`         // cores
	Memory      float64 `json:"memory"`      // bytes
	Connections float64 `json:"connections"` // open at once
}

// Workload is the load to plan for, on all pods together.
type Workload struct {
	Subscribers float64       `json:"subscribers"`
	Rate        float64       `json:"rate"`   // events per second
	FanOut      float64       `json:"fanOut"` // deliveries per event
	TTL         time.Duration `json:"ttl"`    // of a webhook subscription, in nanoseconds; 0 = no expiry
	// between two polls, in nanoseconds; 0 = as measured
	PollEvery time.Duration `json:"pollEvery"`
	Headroom  float64       `json:"headroom"` // share of each pod that stays free
	Pod       Pod           `json:"pod"`
}

// Check returns an error for a workload that cannot be.
func (w Workload) Check() error {
	switch {
	case !(w.Subscribers >= 1) || w.Subscribers > 1e12:
		return errors.New("subscribers: want 1 or more")
	case !(w.Rate >= 0) || w.Rate > 1e9:
		return errors.New("rate: want 0 or more events per second")
	case !(w.FanOut >= 0) || w.FanOut > w.Subscribers:
		return fmt.Errorf("fan-out: an event is delivered to at most all %v subscribers", w.Subscribers)
	case !(w.Headroom >= 0) || w.Headroom >= 1:
		return errors.New("headroom: want 0 % or more and less than 100 %")
	case w.TTL < 0 || w.PollEvery < 0:
		return errors.New("a duration is negative")
	case !(w.Pod.CPU >= 0) || !(w.Pod.Memory >= 0) || !(w.Pod.Connections >= 0):
		return errors.New("a bound of a pod is negative")
	case w.Pod == Pod{}:
		return errors.New("a pod without any bound holds everything; give its CPU or its memory")
	}
	return nil
}

// Limit is a resource that bounds a pod, and how many pods it takes for it.
type Limit struct {
	Name string `json:"name"` // cpu, memory, connections or slo
	// the number of pods; an upper end of 0 is open: at that end of what is uncertain, no number
	// suffices
	Pods Range `json:"pods"`
	// whether even one pod per subscriber is too few: what each pod needs does not fit
	Never bool `json:"never"`
}

// Need is what a workload takes in one mode.
type Need struct {
	Lane  string `json:"lane"`
	Mode  string `json:"mode"`
	Pods  Range  `json:"pods"`
	Binds string `json:"binds"` // the resource that takes most pods
	Never bool   `json:"never"` // no number of pods suffices
	// pods.high is a bound and pods.value no estimate: no load was shown to break the SLO, so a pod may
	// take more
	AtMost bool    `json:"atMost"`
	Limits []Limit `json:"limits"`
	// what all pods take together, and each pod; memory is at the same moment
	CPU         *Range `json:"cpu"` // cores
	Memory      *Range `json:"memory"`
	PodCPU      *Range `json:"podCpu"`
	PodMemory   *Range `json:"podMemory"`
	Connections Range  `json:"connections"` // streams, pollers, or callbacks
	Requests    Range  `json:"requests"`    // per second: polls, or callbacks and refreshes
	In          Range  `json:"in"`          // bytes per second from the subscribers
	Out         Range  `json:"out"`         // and to them
	// what a load generator for this workload takes
	GeneratorCPU    Range    `json:"generatorCpu"`
	GeneratorMemory Range    `json:"generatorMemory"`
	Warnings        []string `json:"warnings"`
}

// Plan is what a workload takes, mode by mode.
type Plan struct {
	Schema   string   `json:"schema"`
	Workload Workload `json:"workload"`
	Needs    []Need   `json:"needs"`
	// the mode that is certainly the cheapest; empty where none is
	Cheapest string `json:"cheapest"`
	Why      string `json:"why"` // why it is, or why none is
}

// Make plans a workload on each sheet. The workload must be valid.
func Make(sheets []Sheet, w Workload) Plan {
	p := Plan{Schema: Schema, Workload: w}
	for i := range sheets {
		p.Needs = append(p.Needs, sheets[i].need(w))
	}
	p.Cheapest, p.Why = cheapest(p.Needs)
	return p
}

// on is the load of one of n pods. Each takes every event, because the subscribers of
// an event are on all of them.
func (s *Sheet) on(w Workload, n float64) load {
	l := load{held: w.Subscribers / n, events: w.Rate, deliveries: w.Rate * w.FanOut / n}
	switch {
	case s.Mode == "poll":
		every := cmp.Or(w.PollEvery.Seconds(), s.pollEvery)
		if every > 0 {
			l.requests = l.held / every
		}
	case s.Mode == "webhook" && w.TTL > 0:
		l.requests = l.held / (refreshAt * w.TTL.Seconds())
	}
	return l
}

// need plans one mode.
func (s *Sheet) need(w Workload) Need {
	n := Need{Lane: s.Lane, Mode: s.Mode, Warnings: []string{}}
	free := 1 - w.Headroom
	of := func(m *model, x func(load) []float64) func(float64) Range {
		return func(pods float64) Range { return m.predict(x(s.on(w, pods))) }
	}
	add := func(name string, bound float64, use func(pods float64) Range) {
		n.Limits = append(n.Limits, limit(name, bound*free, w.Subscribers, use))
	}
	if w.Pod.CPU > 0 && s.cpu != nil {
		add("cpu", w.Pod.CPU, of(s.cpu, s.work))
	}
	if w.Pod.Memory > 0 && s.memory != nil {
		add("memory", w.Pod.Memory, of(s.memory, s.kept))
	}
	if w.Pod.Connections > 0 {
		add("connections", w.Pod.Connections, func(pods float64) Range { return s.open(w).times(1 / pods) })
	}
	if s.load != nil && w.Rate*w.FanOut > 0 {
		d := w.Rate * w.FanOut
		at := func(most float64) float64 { return math.Max(1, math.Ceil(d/(most*free)-1e-9)) }
		r := Range{at(s.load.Value), at(s.load.High), at(cmp.Or(s.load.Low, s.load.Value))}
		if !s.bounded {
			r.Low = 1 // a higher load was not tried
		}
		n.Limits = append(n.Limits, Limit{Name: "slo", Pods: r})
	}
	n.Pods = Range{1, 1, 1}
	for i, l := range n.Limits {
		if n.Binds == "" || l.Never && !n.Never || l.Never == n.Never && l.Pods.Value > n.Pods.Value {
			n.Binds = n.Limits[i].Name
		}
		n.Never = n.Never || l.Never
		high := max(n.Pods.High, l.Pods.High)
		if n.Pods.High == 0 || l.Pods.High == 0 {
			high = 0
		}
		n.Pods = Range{max(n.Pods.Value, l.Pods.Value), max(n.Pods.Low, l.Pods.Low), high}
	}
	n.AtMost = n.Binds == "slo" && !s.bounded
	s.resources(&n, w)
	s.warn(&n, w)
	return n
}

// limit finds the smallest number of pods with which each stays within bound, for the
// figure and for both ends of its interval. A pod has at least one subscriber.
func limit(name string, bound, most float64, use func(pods float64) Range) Limit {
	l := Limit{Name: name}
	least := func(end func(Range) float64) (pods float64, never bool) {
		lo, hi := 1.0, math.Ceil(most)
		if end(use(hi)) > bound {
			return hi, true
		}
		for lo < hi {
			mid := math.Floor((lo + hi) / 2)
			if end(use(mid)) <= bound {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		return hi, false
	}
	l.Pods.Value, l.Never = least(func(r Range) float64 { return r.Value })
	l.Pods.Low, _ = least(func(r Range) float64 { return r.Low })
	high, open := least(func(r Range) float64 { return r.High })
	if !open {
		l.Pods.High = high
	}
	return l
}

// open is the number of connections that are open at once.
func (s *Sheet) open(w Workload) Range {
	v := w.Subscribers // a poller keeps one
	switch s.Mode {
	case "push":
		v *= s.connections
	case "webhook":
		v = math.Ceil(s.callbacks * w.Rate * w.FanOut)
	}
	return Range{v, v, v}
}

// resources sets what the pods take.
func (s *Sheet) resources(n *Need, w Workload) {
	pods, each, all := n.Pods.Value, s.on(w, n.Pods.Value), s.on(w, 1)
	if s.cpu != nil {
		r := s.cpu.predict(s.work(each))
		total := r.times(pods)
		n.PodCPU, n.CPU = &r, &total
	}
	if s.memory != nil {
		r := s.memory.predict(s.kept(each))
		total := r.times(pods)
		n.PodMemory, n.Memory = &r, &total
	}
	n.Connections = s.open(w)
	out := all.requests
	if s.Mode == "webhook" {
		out += all.deliveries * s.sent
	}
	n.Requests = Range{out, out, out}
	n.In, n.Out = s.up.predict(s.wire(each)).times(pods), s.down.predict(s.wire(each)).times(pods)
	n.GeneratorCPU, n.GeneratorMemory = s.generator.predict(s.work(all)), s.generatorBytes.predict(s.kept(all))
}

// warn says what the figures leave out.
func (s *Sheet) warn(n *Need, w Workload) {
	add := func(format string, args ...any) { n.Warnings = append(n.Warnings, fmt.Sprintf(format, args...)) }
	each := s.on(w, n.Pods.Value)
	if n.Never {
		add("no number of pods suffices: what each pod needs for itself and for taking every event does not fit (%s)", n.Binds)
	}
	for _, m := range []struct {
		name  string
		model *model
		x     []float64
	}{{"CPU", s.cpu, s.work(each)}, {"memory", s.memory, s.kept(each)}} {
		if m.model == nil {
			add(
				"%s: the target's process was not known to the search, so no pods are computed from it; repeat the search with --target-metrics",
				m.name,
			)
		} else if by := m.model.beyond(m.x); by > far {
			add(
				"%s: a pod gets %.0f times the load that was measured, and its interval is %.1f times as wide for it; repeat "+
					"the search with as many subscriptions and events as a pod will have (%.0f, %.3g/s to %.3g each)",
				m.name,
				by,
				math.Sqrt(by),
				each.held,
				each.events,
				each.deliveries/max(each.events, 1e-9),
			)
		}
	}
	if k := each.deliveries / max(each.events, 1e-9); s.fanOut > 0 && k > 1.5*s.fanOut {
		add(
			"CPU: %.4g deliveries per event and pod, and %.4g were measured: with many, each costs less, so it may be "+
				"planned too high; add a search with such a fan-out",
			k,
			s.fanOut,
		)
	}
	if s.Mode == "poll" && !s.paced && each.requests < 0.7*s.polls {
		add(
			"CPU: %.3g polls/s each, and %.3g were measured: of fewer polls each costs more, so it may be planned too "+
				"low; add a search with fewer subscriptions",
			each.requests,
			s.polls,
		)
	}
	if s.hostCPUs > 0 && w.Pod.CPU > float64(s.hostCPUs) {
		add("a pod of %.3g CPUs was not measured: the machine of the search has %d", w.Pod.CPU, s.hostCPUs)
	}
	switch {
	case s.load == nil:
		add("SLO: no search had this lane alone, so the load that meets the SLO is not known, and pods follow from resources only")
	case !s.bounded:
		add(
			"SLO: no higher load than %.4g deliveries/s was shown to break it, so a pod may take more; measure with: "+
				"eventmeter capacity %s --axis %s --from %.4g, with the same target and SLO%s",
			s.load.Value,
			s.profile,
			s.axis,
			s.tried,
			s.elsewhere,
		)
	}
	if !n.Never && n.Binds != "slo" && (n.Pods.High == 0 || n.Pods.High > wide*n.Pods.Low) {
		add(
			"pods: measure with the load of a pod for a narrower interval: eventmeter capacity %s --axis rate --from %.4g --to %.4g "+
				"--set lanes.%s.subscriptions=%.0f, with the same target and SLO",
			s.profile,
			max(each.events, 1),
			2*max(each.events, 1),
			s.Lane,
			math.Ceil(each.held),
		)
	}
	if s.Mode == "webhook" && w.TTL > 0 && !s.refreshes {
		add(
			"no refresh was measured, so %.3g refreshes/s are not in CPU and bandwidth; repeat the search with webhook.ttl below capacity.idle",
			s.on(w, 1).requests,
		)
	}
	if s.Mode == "push" && !s.heartbeats {
		add(
			"no heartbeat was measured, so heartbeats are not in CPU and bandwidth; repeat the search with capacity.idle " +
				"above the heartbeat interval",
		)
	}
	if len(s.missing) > 0 {
		add("the cost sheet has notes on %s; eventmeter report shows them", strings.Join(subjects(s.missing), ", "))
	}
}

// subjects returns what notes are about, each once: what is before their colon.
func subjects(notes []string) []string {
	var out []string
	for _, n := range notes {
		if of, _, _ := strings.Cut(n, ":"); !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	return out
}

// cheapest compares the modes: by pods, and by CPU where pods do not decide. A mode is
// the cheapest only if its interval is below those of all others.
func cheapest(needs []Need) (lane, why string) {
	if len(needs) < 2 {
		return "", "there is one mode only"
	}
	for _, by := range []struct {
		name string
		of   func(Need) *Range
	}{
		{"pods", func(n Need) *Range { return &n.Pods }},
		{"CPU", func(n Need) *Range { return n.CPU }},
	} {
		for i, n := range needs {
			wins := by.of(n) != nil && !n.Never
			for j, other := range needs {
				o := by.of(other)
				wins = wins && (i == j || o != nil && (other.Never || by.of(n).High > 0 && by.of(n).High < o.Low))
			}
			if wins {
				return n.Lane, fmt.Sprintf("its interval of %s is below those of all others", by.name)
			}
		}
	}
	return "", "the intervals of the modes overlap, in pods and in CPU"
}
