package trials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
)

const (
	// cpuStep is the resolution of a process's CPU time where it is not known.
	cpuStep = 10 * time.Millisecond
	// cpuNoise is how much CPU time a process uses more or less by itself, for timers and
	// the garbage collector.
	cpuNoise = time.Millisecond
	// memoryNoise is how much the memory of a process with a garbage collector varies
	// by itself.
	memoryNoise = 2 << 20

	hour          = 3600.0        // in seconds
	thousandHours = 1000 * 3600.0 // seconds of 1,000 subscriptions held for an hour
	million       = 1e6

	// What idle subscriptions cost is known where they take shownMemory times the memory that the
	// target takes for one, or shownCPU processors. At most mostHeld are opened for it.
	shownMemory = 4
	shownCPU    = 0.25
	mostHeld    = 10_000
)

// hold measures what each lane alone takes without events: one subscription, those of the profile, and more of them until
// they show in the target's memory or CPU time.
func (s *finder) hold(ctx context.Context) error {
	if s.p.Capacity.Idle == 0 || s.held != nil {
		return nil
	}
	most := min(mostHeld, s.p.Limits.Subscriptions)
	for _, l := range s.p.Lanes {
		m := &costSteps{}
		s.held = append(s.held, m)
		plan := stepPlan{load: s.p.Capacity.From, lane: l.Name, idle: true, held: 1}
		m.base = s.costStep(ctx, plan)
		plan.held = 0
		for m.base != nil {
			more := s.costStep(ctx, plan)
			if more == nil {
				break
			}
			if m.more = more; m.idle == nil {
				m.idle = more
			}
			n, grown, need := more.Subscriptions, more.memory-m.base.memory, shownMemory*m.base.memory
			if !(grown < need) || more.cpu >= shownCPU*more.Seconds || n >= most {
				break
			}
			plan.held = min(most, int(float64(n)*min(8, max(2, 1.2*need/max(grown, 1)))))
		}
	}
	return s.failed
}

// costs draws up the cost sheet. For each lane alone it measures one subscription and all
// subscriptions with events, at half the capacity. These differ in deliveries per event, which
// tells the cost of an event from that of a delivery. Where the search raises the rate, it then
// publishes as many deliveries a second to the most that were held idle, because a pod has many
// subscriptions that receive little.
func (s *finder) costs(ctx context.Context) error {
	k := s.search.Maximum()
	if s.p.Capacity.Idle == 0 || k.Load == 0 || s.search.Outcome() == capacity.Searching {
		return nil
	}
	if err := s.hold(ctx); err != nil {
		return err
	}
	for i, l := range s.p.Lanes {
		m, load := s.held[i], k.Load/2
		if s.p.Capacity.Axis != "rate" {
			load = max(1, math.Floor(load))
		}
		if s.idleTarget && m.base != nil {
			m.base.cpu = math.NaN()
		}
		plan := stepPlan{load: load, lane: l.Name, held: 1}
		m.event = s.costStep(ctx, plan)
		plan.held = 0
		m.busy = s.costStep(ctx, plan)
		if m.more != m.idle && s.p.Capacity.Axis == "rate" {
			plan.held = m.more.Subscriptions
			plan.load *= float64(m.idle.Subscriptions) / float64(plan.held)
			s.costStep(ctx, plan)
		}
		if s.failed != nil {
			break
		}
		s.out.Costs = append(s.out.Costs, costSheet(l.Name, l.Mode, *m))
	}
	return s.failed
}

// costSteps are the steps of a cost sheet; nil where a step could not open its
// subscriptions.
type costSteps struct {
	base  *usageOf // one subscription, no events
	event *usageOf // one subscription, with events
	idle  *usageOf // all subscriptions, no events
	busy  *usageOf // all subscriptions, with events
	more  *usageOf // as many subscriptions as it took to see what they cost, no events
}

// costStep runs a step whose failure only leaves a figure out, unless it ends the search (failed). It gets a new
// process if it can, because earlier steps leave memory behind that it does not cost.
func (s *finder) costStep(ctx context.Context, plan stepPlan) *usageOf {
	if s.failed != nil {
		return nil
	}
	if plan.purpose = purposeCost; plan.idle {
		plan.purpose = purposeIdle
	}
	if s.p.Target.IsEmbedded() {
		s.keep.Stop()
	}
	debug.FreeOSMemory() // so that the generator's memory is that of the step
	step, m, err := s.stepWith(ctx, plan)
	if !errors.Is(err, run.ErrProfile) { // a run cannot have as many subscriptions, or as few events
		s.failed = err
	}
	if err != nil || m == nil {
		return nil
	}
	return newUsage(step, m)
}

// usageOf is what a step with one lane used.
type usageOf struct {
	results.CapacityUsage
	cpu                  float64 // seconds of the target; NaN if not known
	noise                float64 // seconds that cpu may be off
	memory               float64 // bytes of the target; NaN if not known
	messages, bytes      float64 // copies of events, warm-up included
	requests             float64 // that carried events
	hourRequests, hourUp float64 // requests and bytes that carried none, per subscription-hour
	sound                bool    // the generator was not the bottleneck, and nothing went missing
}

func newUsage(step results.CapacityStep, m *run.Outcome) *usageOf {
	lane, account := &m.Result.Lanes[0], &m.Accounts[0].Lanes[0]
	u := &usageOf{
		CapacityUsage: *step.Usage, cpu: math.NaN(), memory: math.NaN(),
		messages: float64(account.EventMessages), bytes: float64(account.EventBytes),
		requests:     float64(lane.Overhead.Causes["events"].Requests),
		hourRequests: lane.Overhead.PerSubscriptionHour.Requests, hourUp: lane.Overhead.PerSubscriptionHour.Bytes,
		sound: len(m.Result.Doubts()) == 0 && step.Lost == 0,
	}
	if t := step.Target; t != nil {
		u.cpu, u.memory = t.CPU.Duration().Seconds(), float64(t.Memory)
		u.noise = max(cpuNoise, cmp.Or(t.Resolution.Duration(), cpuStep)).Seconds()
	}
	return u
}

// usage returns the work of a step with one lane, nil for several.
func usage(m *run.Outcome) *results.CapacityUsage {
	r := m.Result
	if len(r.Lanes) != 1 || len(m.Accounts) != 1 || len(m.Accounts[0].Lanes) != 1 {
		return nil
	}
	lane := &r.Lanes[0]
	u := &results.CapacityUsage{
		Subscriptions: lane.Subscriptions, Events: r.Upstream.Published + r.Upstream.Warmup,
		Deliveries: m.Accounts[0].Lanes[0].EventMessages, Connections: lane.Overhead.Connections, Measured: lane.Overhead.Measured,
	}
	for _, ph := range r.Phases {
		if ph.Name != "attach" && ph.Name != "detach" {
			u.Seconds += (ph.End - ph.Start).Duration().Seconds()
		}
	}
	return u
}

// costSheet returns the entry of one lane.
func costSheet(lane, mode string, m costSteps) results.CapacityCost {
	c := results.CapacityCost{Lane: lane, Mode: mode, Missing: []string{}}
	miss := func(format string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(format, args...)) }
	base, idle, busy := m.base, m.more, m.busy
	if base == nil || idle == nil || busy == nil {
		miss("everything: the subscriptions could not be opened")
		return c
	}
	for _, part := range []struct {
		name  string
		sound bool
	}{{"idle", base.sound && idle.sound}, {"event", m.event == nil || m.event.sound}, {"delivered", busy.sound}} {
		if !part.sound {
			miss("%s: the generator was the bottleneck, or deliveries went missing, so its figures are too high if anything", part.name)
		}
	}
	c.Idle.Basis = fmt.Sprintf("%d subscriptions held for %.3gs, less 1 held for %.3gs", idle.Subscriptions, idle.Seconds, base.Seconds)
	c.Delivered.Basis = fmt.Sprintf(
		"%.0f deliveries to %d subscriptions in %.3gs, less what these and the events cost",
		busy.messages,
		busy.Subscriptions,
		busy.Seconds,
	)
	c.Idle.Requests, c.Idle.Bytes = number(1000*idle.hourRequests), number(1000*idle.hourUp)
	if busy.messages > 0 {
		c.Delivered.Requests, c.Delivered.Bytes = number(million*busy.requests/busy.messages), number(million*busy.bytes/busy.messages)
	}
	if math.IsNaN(base.cpu + idle.cpu + busy.cpu) {
		miss("CPU and memory: the target's process is not known; give --target-metrics")
		return c
	}
	c.Base = &results.CostOf{
		CPU: number(base.cpu / base.Seconds * hour), Resolution: base.noise / base.Seconds * hour, Memory: number(base.memory),
		Basis: fmt.Sprintf("1 subscription held for %.3gs", base.Seconds),
	}
	costIdle(&c, base, idle, miss)
	if busy.messages > 0 {
		costEvents(&c, m, miss)
	}
	return c
}

// costEvents sets the CPU time that events and deliveries cost: the two steps with
// events are two equations in the cost of an event and that of a delivery.
func costEvents(c *results.CapacityCost, m costSteps, miss func(string, ...any)) {
	busy, event := m.busy, m.event
	idle := m.more
	if m.idle.Subscriptions == busy.Subscriptions {
		idle = m.idle
	}
	share := float64(busy.Subscriptions-1) / float64(max(1, idle.Subscriptions-1))
	used := busy.cpu - busy.Seconds*(m.base.cpu/m.base.Seconds*(1-share)+idle.cpu/idle.Seconds*share)
	events, deliveries := float64(busy.Events), busy.messages
	perEvent := 0.0
	switch {
	case event == nil || math.IsNaN(event.cpu) || event.Events == 0:
		miss("CPU of events: one subscription with events could not be measured, so it is in that of deliveries")
	default:
		alone := event.cpu - m.base.cpu/m.base.Seconds*event.Seconds
		det := float64(event.Events)*deliveries - event.messages*events
		// Without twice as many deliveries per event, the two equations are nearly the same.
		if det < float64(event.Events)*deliveries/2 {
			miss(
				"CPU of events: %.3g deliveries per event with all subscriptions, %.3g with one, so it cannot be told from that "+
					"of deliveries and is in it; hold more subscriptions for each event",
				deliveries/events,
				event.messages/float64(event.Events),
			)
			break
		}
		c.Event = &results.CostOf{
			Resolution: 2 * event.noise / float64(event.Events) * million,
			Basis: fmt.Sprintf(
				"%d events to 1 subscription in %.3gs, less what it costs idle and the %.0f deliveries",
				event.Events,
				event.Seconds,
				event.messages,
			),
		}
		perEvent = max(0, (alone*deliveries-used*event.messages)/det)
		if cost := perEvent * million; cost >= c.Event.Resolution {
			c.Event.CPU = number(cost)
		} else {
			miss(
				"CPU of events: less than %.3g s per million events cannot be distinguished from none here; raise capacity.step",
				c.Event.Resolution,
			)
		}
	}
	c.Delivered.Resolution = 2 * busy.noise / deliveries * million
	if cost := (used - perEvent*events) / deliveries * million; cost >= c.Delivered.Resolution {
		c.Delivered.CPU = number(cost)
	} else {
		miss("CPU of deliveries: %.0f are too few to be distinguished from none; raise capacity.step", deliveries)
	}
}

// costIdle sets the CPU time and memory that idle subscriptions cost.
func costIdle(c *results.CapacityCost, base, idle *usageOf, miss func(string, ...any)) {
	more := float64(idle.Subscriptions - base.Subscriptions)
	if more < 1 {
		miss("idle: the cost of one subscription cannot be distinguished from none; hold more subscriptions")
		return
	}
	perSecond := thousandHours / more / idle.Seconds
	c.Idle.Resolution = 2 * idle.noise * perSecond
	if cost := (idle.cpu - base.cpu/base.Seconds*idle.Seconds) * perSecond; cost >= c.Idle.Resolution {
		c.Idle.CPU = number(cost)
	} else {
		miss(
			"idle CPU: less than %.3g s per 1,000 subscription-hours cannot be distinguished from none here; raise "+
				"capacity.idle, or hold more subscriptions",
			c.Idle.Resolution,
		)
	}
	if grown := idle.memory - base.memory; grown >= memoryNoise {
		c.Idle.Memory = number(grown / more * 1000)
	} else {
		miss(
			"memory: %.0f subscriptions grew it by %.1f MiB, which cannot be distinguished from noise below %d MiB; hold more subscriptions",
			more,
			grown/(1<<20),
			memoryNoise>>20,
		)
	}
}

func number(v float64) *float64 { return &v }
