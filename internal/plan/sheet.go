package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// load is the load of one target, per second except held.
type load struct {
	held       float64 // subscriptions
	events     float64
	deliveries float64
	requests   float64 // polls, or refreshes
}

// Sheet is what searches say of one lane: its costs, and the load that met the SLO.
type Sheet struct {
	Lane string
	Mode string // poll, push or webhook

	cpu, memory               *model // of the target: cores, bytes; nil = not measured
	generator, generatorBytes *model
	up, down                  *model // bytes per second, from and to the subscribers
	callbacks                 float64
	connections               float64 // per subscription
	sent                      float64 // requests of the target per delivery
	fanOut                    float64 // largest that was measured, deliveries per event
	pollEvery                 float64 // seconds
	refreshes                 bool    // whether any was measured
	polls                     float64 // largest rate that was measured, per second
	paced                     bool    // whether polls were measured at several rates
	heartbeats                bool
	load                      *Range  // deliveries per second that met the SLO, on one target
	bounded                   bool    // whether a higher load did not meet it
	profile, axis             string  // of the search that has the load
	elsewhere                 string  // what else a higher load needs; "" = nothing
	tried                     float64 // the load, on the axis
	hostCPUs                  int
	missing                   []string
}

// ErrSheet is wrapped by the errors of searches that no plan can be made from.
var ErrSheet = errors.New("no cost sheet")

// Search is a capacity search, with the name that errors call it.
type Search struct {
	Name     string
	Capacity *results.Capacity
}

// Sheets returns the sheets of all lanes of searches, in the order of the lanes.
// Searches of the same lane are taken as repetitions of each other; they must be of
// the same target.
func Sheets(searches []Search) ([]Sheet, error) {
	var out []Sheet
	for _, s := range searches {
		first := searches[0].Capacity.Target
		if t := s.Capacity.Target; t.Name != first.Name || t.Version != first.Version || t.Embedded != first.Embedded {
			return nil, fmt.Errorf(
				"%w: %s measured %s %s and %s measured %s %s; give searches of one target",
				ErrSheet,
				searches[0].Name,
				first.Name,
				first.Version,
				s.Name,
				t.Name,
				t.Version,
			)
		}
		if results.Warned(s.Capacity.Warnings, results.TargetIdle) {
			return nil, fmt.Errorf("%w: what %s took for the target was idle while events were delivered, so others do its work; "+
				"repeat the search with --target-metrics", ErrSheet, s.Name)
		}
		if len(s.Capacity.Costs) == 0 {
			return nil, fmt.Errorf("%w: %s has none; run eventmeter capacity with a capacity.idle above 0, until it ends", ErrSheet, s.Name)
		}
		for _, c := range s.Capacity.Costs {
			i := slices.IndexFunc(out, func(o Sheet) bool { return o.Lane == c.Lane })
			if i >= 0 && out[i].Mode == c.Mode {
				continue
			}
			if i >= 0 {
				return nil, fmt.Errorf("%w: lane %s has mode %s in one search and %s in another", ErrSheet, c.Lane, out[i].Mode, c.Mode)
			}
			if c.Mode != "poll" && c.Mode != "push" && c.Mode != "webhook" {
				return nil, fmt.Errorf(
					"%w: %s: lane %s has mode %q; a plan is for poll, push and webhook",
					ErrSheet,
					s.Name,
					c.Lane,
					c.Mode,
				)
			}
			sheet, err := newSheet(c.Lane, c.Mode, searches)
			if err != nil {
				return nil, err
			}
			out = append(out, *sheet)
		}
	}
	return out, nil
}

// work is one step of a lane alone.
type work struct {
	step  *results.CapacityStep
	usage *results.CapacityUsage
	aside bool // a step of the cost sheet
	own   bool // its memory is not what an earlier step made the process take
}

// steps returns the steps of the lane alone that lost nothing.
func steps(lane string, searches []Search) []work {
	var out []work
	for _, s := range searches {
		load := slices.IndexFunc(s.Capacity.Steps, func(s results.CapacityStep) bool { return s.Lane == "" })
		most := 0 // subscriptions of a step of the cost sheet with events
		for _, step := range s.Capacity.Steps {
			if u := step.Usage; step.Lane == lane && step.Lost == 0 && u != nil && u.Events > 0 {
				most = max(most, u.Subscriptions)
			}
		}
		for i := range s.Capacity.Steps {
			step := &s.Capacity.Steps[i]
			aside := step.Lane == lane
			if step.Usage == nil || step.Lost > 0 || step.Usage.Seconds <= 0 || len(step.Lanes) != 1 || step.Lanes[0].Name != lane {
				continue
			}
			if u := step.Usage; aside || step.Verdict == "passed" {
				own := u.Events == 0 || load <= 0 || u.Subscriptions == most
				out = append(out, work{step, u, aside, aside && own})
			}
		}
	}
	return out
}

func newSheet(lane, mode string, searches []Search) (*Sheet, error) {
	s := &Sheet{Lane: lane, Mode: mode}
	all := steps(lane, searches)
	if len(all) < 3 {
		return nil, fmt.Errorf(
			"%w: lane %s has %d usable steps of its own, and a plan needs three: the others lost deliveries, or the "+
				"search is of an older version; repeat it",
			ErrSheet,
			lane,
			len(all),
		)
	}
	for _, w := range all {
		if w.usage.Events > 0 {
			s.fanOut = max(s.fanOut, float64(w.usage.Deliveries)/float64(w.usage.Events))
		}
		s.refreshes = s.refreshes || w.usage.Measured.Causes["refresh"].Requests > 0
		s.heartbeats = s.heartbeats || w.usage.Measured.Causes["heartbeat"].BytesDown > 0
	}
	if mode == "poll" {
		s.pace(all)
	}
	var cpu, memory, generator, generatorBytes, up, down []point
	for _, w := range all {
		l := s.loadOf(&w)
		// The memory of the steps of the search is not used, nor that of smaller ones after it: a process
		// does not give back what an overload made it take.
		if t := w.step.Target; t != nil {
			cpu = append(cpu, point{s.work(l), t.CPU.Duration().Seconds() / w.usage.Seconds})
			if w.own {
				memory = append(memory, point{s.kept(l), float64(t.Memory)})
			}
		}
		g := w.step.Generator.Process
		generator = append(generator, point{s.work(l), g.CPU.Duration().Seconds() / w.usage.Seconds})
		if w.aside {
			generatorBytes = append(generatorBytes, point{s.kept(l), float64(g.Memory)})
		}
		if seconds := w.seconds(); seconds > 0 {
			upBytes, downBytes := 0.0, 0.0
			for _, t := range w.usage.Measured.Causes {
				upBytes += float64(t.BytesUp) / seconds
				downBytes += float64(t.BytesDown) / seconds
			}
			l.deliveries = float64(w.usage.Measured.Received) / seconds
			up, down = append(up, point{s.wire(l), upBytes}), append(down, point{s.wire(l), downBytes})
		}
	}
	if len(cpu) >= 3 {
		s.cpu = fit(cpu, priorNoise, 2e-4)
	}
	if len(memory) >= 3 {
		s.memory = fit(memory, priorNoise, 1<<20)
	}
	s.generator, s.generatorBytes = fit(generator, priorNoise, 2e-4), fit(generatorBytes, priorNoise, 1<<20)
	if len(up) == 0 {
		return nil, fmt.Errorf("%w: lane %s held no subscription while it was measured", ErrSheet, lane)
	}
	s.up, s.down = fit(up, trafficNoise, 1), fit(down, trafficNoise, 1)
	s.up.counted, s.down.counted = true, true
	s.rates(all)
	s.limit(searches)
	return s, nil
}

// seconds is the length of the measured window.
func (w *work) seconds() float64 {
	if w.usage.Subscriptions == 0 {
		return 0
	}
	return w.usage.Measured.SubscriptionHours * 3600 / float64(w.usage.Subscriptions)
}

// pace notes the rates at which polls were measured: three are several, because one of
// them is that of a single subscription. Those within a fifth of each other are one.
func (s *Sheet) pace(all []work) {
	var rates []float64
	for i := range all {
		rates = append(rates, s.loadOf(&all[i]).requests)
	}
	slices.Sort(rates)
	n := 0
	for _, r := range rates {
		if r > 1.2*s.polls {
			n, s.polls = n+1, r
		}
	}
	s.paced = n >= 3
}

// requestsOf counts the requests of the measured window that are the model's own
// column: all polls, or all refreshes.
func (s *Sheet) requestsOf(u *results.CapacityUsage) float64 {
	c := u.Measured.Causes
	if s.Mode == "poll" {
		return float64(c["emptyPoll"].Requests + c["events"].Requests)
	}
	return float64(c["refresh"].Requests)
}

// loadOf is the load of a step on one target.
func (s *Sheet) loadOf(w *work) load {
	u := w.usage
	l := load{held: float64(u.Subscriptions), events: float64(u.Events) / u.Seconds, deliveries: float64(u.Deliveries) / u.Seconds}
	if seconds := w.seconds(); seconds > 0 {
		l.requests = s.requestsOf(u) / seconds
	}
	return l
}

// work is the load in the columns that CPU time depends on: the process itself,
// subscriptions, events, deliveries, requests, and events times a power of their
// fan-out, because of an event with many deliveries each costs less: the server is
// awake. The power is that which fits the reference server, from 5 deliveries per event
// to 800; its cost needs searches of several fan-outs. A poller that waits costs nothing
// but its polls, and where refreshes were measured, they happened at one rate for
// each subscription, so that the cost of holding one is in that of its refreshes. Of many polls
// a second, each costs less, for the same reason: 400 took 0.19 ms each on the reference
// server, and 1,000 took 0.125. The last column, the square root of their rate, needs
// searches with several numbers of subscriptions.
func (s *Sheet) work(l load) []float64 {
	many := 0.0
	if l.events > 0 {
		many = l.events * math.Pow(l.deliveries/l.events, 2.0/3)
	}
	if s.Mode == "poll" || s.refreshes {
		often := 0.0
		if s.paced {
			often = math.Sqrt(l.requests)
		}
		return []float64{1, 0, l.events, l.deliveries, l.requests, many, often}
	}
	return []float64{1, l.held, l.events, l.deliveries, 0, many, 0}
}

// wire is the load in the columns that bytes on the wire depend on.
func (s *Sheet) wire(l load) []float64 {
	x := s.work(l)
	return []float64{x[1], x[3], x[4]}
}

// kept is the load in the columns that memory depends on: the process itself,
// subscriptions, and either subscriptions that receive or, for webhooks, the deliveries
// of an event, because so many are in flight at once. What a delivery takes is given
// back, and how much of that is waiting to be given back depends on the size of the rest.
func (s *Sheet) kept(l load) []float64 {
	switch {
	case l.deliveries == 0 || l.events == 0:
		return []float64{1, l.held, 0}
	case s.Mode == "webhook":
		return []float64{1, l.held, l.deliveries / l.events}
	}
	return []float64{1, l.held, l.held}
}

// rates sets what is counted once and not fitted.
func (s *Sheet) rates(all []work) {
	var sent, received, opened, held, polls, pollSeconds, callbacks, delivered float64
	for _, w := range all {
		u := w.usage
		if u.Measured.Received > 0 {
			sent += float64(u.Measured.Causes["events"].Requests)
			received += float64(u.Measured.Received)
		}
		if u.Subscriptions > 1 && u.Events == 0 {
			opened += float64(u.Connections)
			held += float64(u.Subscriptions)
		}
		polls += s.requestsOf(u)
		pollSeconds += u.Measured.SubscriptionHours * 3600
	}
	for _, w := range all {
		if u := w.usage; u.Subscriptions > 1 && u.Deliveries > 0 && held > 0 {
			callbacks += max(0, float64(u.Connections)-opened/held*float64(u.Subscriptions))
			delivered += float64(u.Deliveries) / u.Seconds
		}
	}
	if received > 0 {
		s.sent = sent / received
	}
	if held > 0 {
		s.connections = opened / held
	}
	if polls > 0 {
		s.pollEvery = pollSeconds / polls
	}
	if delivered > 0 {
		s.callbacks = callbacks / delivered
	}
}

// limit sets the load that met the SLO, from the searches that had the lane alone.
func (s *Sheet) limit(searches []Search) {
	for _, of := range searches {
		c := of.Capacity
		for _, cost := range c.Costs {
			if cost.Lane == s.Lane {
				s.missing = append(s.missing, cost.Missing...)
				s.profile = cmp.Or(s.profile, c.Source, "PROFILE")
			}
		}
		s.hostCPUs = max(s.hostCPUs, c.Host.CPUs)
		k := c.Maximum
		if len(c.Costs) != 1 || c.Costs[0].Lane != s.Lane || k.Load == 0 || k.Deliveries == 0 {
			continue
		}
		each := k.Deliveries / k.Load
		r := Range{k.Deliveries, k.From * each, max(k.To, k.Load) * each}
		// Of the loads that were shown to break the SLO, the least counts; where none was, the
		// highest that was tried.
		if k.Load > s.tried {
			s.axis, s.tried, s.elsewhere = c.Axis, k.Load, ""
			if c.Outcome == "generator" {
				s.elsewhere = ", and the generator on another machine"
			}
		}
		switch bounded := k.To > 0; {
		case s.load == nil, bounded && !s.bounded:
			s.load, s.bounded = &r, bounded
		case bounded:
			*s.load = Range{min(s.load.Value, r.Value), min(s.load.Low, r.Low), max(s.load.High, r.High)}
		case !s.bounded && r.Value > s.load.Value:
			*s.load = r
		}
	}
}
