package trials

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
)

const (
	// cpuStep is the resolution of a process's CPU time. A difference of two readings
	// must be at least twice that to mean anything.
	cpuStep = 10 * time.Millisecond
	// memoryNoise is how much the memory of a process with a garbage collector varies
	// by itself.
	memoryNoise = 2 << 20

	thousandHours = 1000 * 3600.0 // seconds of 1,000 subscriptions held for an hour
	million       = 1e6
)

// costs draws up the cost sheet. For each lane alone it measures one idle
// subscription, all subscriptions idle, and half the capacity.
func (s *finder) costs(ctx context.Context) error {
	k := s.search.Maximum()
	if s.p.Capacity.Idle == 0 || k.Load == 0 || s.search.Outcome() == capacity.Searching {
		return nil
	}
	for i, l := range s.p.Lanes {
		load := k.Load / 2
		if s.p.Capacity.Axis != "rate" {
			load = max(1, math.Floor(load))
		}
		// Each lane gets a new process, because earlier overloads leave memory behind
		// that this mode does not cost.
		if s.p.Target.IsEmbedded() {
			s.keep.Stop()
		}
		base, err := s.costStep(ctx, stepPlan{load: load, purpose: purposeIdle, lane: l.Name, idle: true, one: true})
		if err != nil {
			return err
		}
		idle, err := s.costStep(ctx, stepPlan{load: load, purpose: purposeIdle, lane: l.Name, idle: true})
		if err != nil {
			return err
		}
		busy, err := s.costStep(ctx, stepPlan{load: load, purpose: purposeCost, lane: l.Name})
		if err != nil {
			return err
		}
		s.out.Costs = append(s.out.Costs, costSheet(s.p.Lanes[i].Name, s.p.Lanes[i].Mode, base, idle, busy))
	}
	return nil
}

// costStep runs a step whose failure only leaves a figure out.
func (s *finder) costStep(ctx context.Context, plan stepPlan) (*usageOf, error) {
	step, m, err := s.stepWith(ctx, plan)
	if err != nil || m == nil {
		return nil, err
	}
	return newUsage(step, m), nil
}

// usageOf is what a step with one lane used.
type usageOf struct {
	subscriptions        int
	seconds              float64 // wall time in which the processes were watched
	cpu                  float64 // seconds of the target; NaN if not known
	memory               float64 // bytes of the target; NaN if not known
	messages, bytes      float64 // copies of events, warm-up included
	requests             float64 // that carried events
	hourRequests, hourUp float64 // requests and bytes that carried none, per subscription-hour
	sound                bool    // the generator was not the bottleneck, and nothing went missing
}

func newUsage(step results.CapacityStep, m *run.Outcome) *usageOf {
	lane, account := &m.Result.Lanes[0], &m.Accounts[0].Lanes[0]
	u := &usageOf{
		subscriptions: lane.Subscriptions, cpu: math.NaN(), memory: math.NaN(),
		messages: float64(account.EventMessages), bytes: float64(account.EventBytes),
		requests:     float64(lane.Overhead.Causes["events"].Requests),
		hourRequests: lane.Overhead.PerSubscriptionHour.Requests, hourUp: lane.Overhead.PerSubscriptionHour.Bytes,
		sound: !step.Generator.Bottleneck && step.Lost == 0,
	}
	for _, ph := range m.Result.Phases {
		if ph.Name != "attach" && ph.Name != "detach" {
			u.seconds += (ph.End - ph.Start).Duration().Seconds()
		}
	}
	if t := step.Target; t != nil {
		u.cpu, u.memory = t.CPU.Duration().Seconds(), float64(t.Memory)
	}
	return u
}

// costSheet returns the entry of one lane.
func costSheet(lane, mode string, base, idle, busy *usageOf) results.CapacityCost {
	c := results.CapacityCost{Lane: lane, Mode: mode, Missing: []string{}}
	miss := func(format string, args ...any) { c.Missing = append(c.Missing, fmt.Sprintf(format, args...)) }
	if base == nil || idle == nil || busy == nil {
		miss("everything: the subscriptions could not be opened")
		return c
	}
	for _, part := range []struct {
		name  string
		sound bool
	}{{"idle", base.sound && idle.sound}, {"delivered", busy.sound}} {
		if !part.sound {
			miss("%s: the generator was the bottleneck, or deliveries went missing, so its figures are too high if anything", part.name)
		}
	}
	c.Idle.Basis = fmt.Sprintf("%d subscriptions held for %.3gs, less 1 held for %.3gs", idle.subscriptions, idle.seconds, base.seconds)
	c.Delivered.Basis = fmt.Sprintf("%.0f deliveries to %d subscriptions in %.3gs, less what these cost idle", busy.messages, busy.subscriptions, busy.seconds)
	c.Idle.Requests, c.Idle.Bytes = number(1000*idle.hourRequests), number(1000*idle.hourUp)
	if busy.messages > 0 {
		c.Delivered.Requests, c.Delivered.Bytes = number(million*busy.requests/busy.messages), number(million*busy.bytes/busy.messages)
	}
	if math.IsNaN(base.cpu + idle.cpu + busy.cpu) {
		miss("CPU and memory: the target's process is not known; give --target-metrics")
		return c
	}
	costIdle(&c, base, idle, miss)
	if busy.messages > 0 {
		c.Delivered.Resolution = 2 * cpuStep.Seconds() / busy.messages * million
		used := busy.cpu - idle.cpu/idle.seconds*busy.seconds
		if cost := used / busy.messages * million; cost >= c.Delivered.Resolution {
			c.Delivered.CPU = number(cost)
		} else {
			miss("CPU of deliveries: %.0f are too few to be distinguished from none; raise capacity.step", busy.messages)
		}
	}
	return c
}

// costIdle sets the CPU time and memory that idle subscriptions cost.
func costIdle(c *results.CapacityCost, base, idle *usageOf, miss func(string, ...any)) {
	more := float64(idle.subscriptions - base.subscriptions)
	if more < 1 {
		miss("idle: the cost of one subscription cannot be distinguished from none; hold more subscriptions")
		return
	}
	perSecond := thousandHours / more / idle.seconds
	c.Idle.Resolution = 2 * cpuStep.Seconds() * perSecond
	if cost := (idle.cpu - base.cpu/base.seconds*idle.seconds) * perSecond; cost >= c.Idle.Resolution {
		c.Idle.CPU = number(cost)
	} else {
		miss("idle CPU: less than %.3g s per 1,000 subscription-hours cannot be distinguished from none here; raise capacity.idle, or hold more subscriptions", c.Idle.Resolution)
	}
	if grown := idle.memory - base.memory; grown >= memoryNoise {
		c.Idle.Memory = number(grown / more * 1000)
	} else {
		miss("memory: %.0f subscriptions grew it by %.1f MiB, which cannot be distinguished from noise below %d MiB; hold more subscriptions", more, grown/(1<<20), memoryNoise>>20)
	}
}

func number(v float64) *float64 { return &v }
