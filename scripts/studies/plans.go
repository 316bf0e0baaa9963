package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/eventmeter/eventmeter/internal/plan"
	"github.com/eventmeter/eventmeter/results"
)

// plans holds what eventmeter plan predicts from searches against runs at loads that no search had.
type plans struct {
	Repeats int           `json:"repeats"` // runs of each load
	Modes   []plannedMode `json:"modes"`
}

// plannedMode is a mode with its searches and runs.
type plannedMode struct {
	Mode     string          `json:"mode"`
	Searches []plannedSearch `json:"searches"`
	Points   []plannedPoint  `json:"points"`
}

// plannedSearch is a capacity search.
type plannedSearch struct {
	Subscriptions int     `json:"subscriptions"`
	Sources       int     `json:"sources"` // the subscriptions are spread over them
	From          float64 `json:"from"`    // events per second
	To            float64 `json:"to"`
	Steps         int     `json:"steps"`
}

// plannedPoint is a load, and what it took. Rate and fan-out are those of the run.
type plannedPoint struct {
	Subscriptions int        `json:"subscriptions"`
	Sources       int        `json:"sources"`
	Rate          float64    `json:"rate"`   // events per second, warm-up and drain included
	FanOut        float64    `json:"fanOut"` // deliveries per event
	Lost          int64      `json:"lost"`
	CPU           prediction `json:"cpu"`    // cores
	Memory        prediction `json:"memory"` // bytes
	Up            prediction `json:"up"`     // bytes per second from the subscribers, in the measured phase
	Down          prediction `json:"down"`   // and to them
}

// prediction is a figure before and after the run.
type prediction struct {
	Value    float64 `json:"value"`
	Low      float64 `json:"low"` // of its 95 % interval
	High     float64 `json:"high"`
	Measured float64 `json:"measured"`
}

// plansLoad is a load of subscriptions that are spread over sources.
type plansLoad struct {
	subscriptions int
	rate          float64 // of all sources, events per second
	sources       int
}

// plansMode says how a mode is searched, and at which loads it is tried.
type plansMode struct {
	mode     string
	searches []plannedSearch
	slo      string        // p99
	idle     time.Duration // long enough for what a subscription does while it is idle
	loads    []plansLoad
	args     []string
	ttl      [2]time.Duration // of the searches, and of the loads
}

// plansModes: each mode has searches with two numbers of subscriptions and three fan-outs, and loads
// between and beside them. Idle steps and loads have whole numbers of heartbeats and refreshes.
var plansModes = []plansMode{
	{mode: "push", slo: "1s", idle: 30 * time.Second, // a heartbeat comes every 15 s
		searches: []plannedSearch{{1000, 10, 10, 40, 0}, {400, 2, 4, 16, 0}, {1000, 2, 2, 8, 0}},
		loads:    []plansLoad{{850, 28, 85}, {550, 18, 22}, {650, 12, 6}, {900, 5, 2}, {300, 9, 1}}},
	{mode: "poll", slo: "2500ms", idle: 12 * time.Second,
		searches: []plannedSearch{{1000, 10, 10, 20, 0}, {300, 2, 4, 8, 0}, {1000, 2, 2, 4, 0}},
		loads:    []plansLoad{{850, 18, 85}, {550, 12, 22}, {650, 9, 6}, {900, 3, 2}, {450, 5, 1}}},
	{mode: "webhook", slo: "1s", idle: 20 * time.Second, ttl: [2]time.Duration{13 * time.Second, 20 * time.Second},
		searches: []plannedSearch{{500, 10, 5, 20, 0}, {200, 2, 2, 8, 0}, {500, 2, 1, 4, 0}},
		loads:    []plansLoad{{400, 12, 40}, {280, 9, 14}, {320, 7, 4}, {450, 3, 2}, {240, 3, 1}}},
}

// searchedCodes are the exit codes of searches that have a cost sheet, whether or not they found a maximum load.
var searchedCodes = []int{0, 1, 4}

const (
	plansStep    = 8 * time.Second
	plansMeasure = 15 * time.Second
	plansRepeats = 2
)

func (s *plans) measure(ctx context.Context, l *lab) error {
	s.Repeats = repeats(l, plansRepeats)
	for _, m := range plansModes {
		of := plannedMode{Mode: m.mode}
		var searches []plan.Search
		for i, q := range m.searches {
			q.Subscriptions = l.subscriptions(q.Subscriptions, 100)
			c, err := m.search(ctx, l, fmt.Sprintf("%s-search-%d", m.mode, i+1), q)
			if err != nil {
				return err
			}
			// What is predicted is what a load takes, whether or not a search tried as much.
			c.Maximum = results.CapacityMaximum{}
			q.Steps = len(c.Steps)
			of.Searches = append(of.Searches, q)
			searches = append(searches, plan.Search{Name: fmt.Sprintf("search %d", i+1), Capacity: c})
		}
		sheets, err := plan.Sheets(searches)
		if err != nil {
			return err
		}
		for i, load := range m.loads {
			load.subscriptions = l.subscriptions(load.subscriptions, load.sources)
			p, err := m.try(ctx, l, fmt.Sprintf("%s-load-%d", m.mode, i+1), load, sheets)
			if err != nil {
				return err
			}
			of.Points = append(of.Points, p)
		}
		s.Modes = append(s.Modes, of)
	}
	return nil
}

// set returns the arguments for subscriptions that are spread over sources.
func (m *plansMode) set(subscriptions, sources int, ttl time.Duration) []string {
	lane := "lanes." + m.mode
	args := []string{"--set", fmt.Sprintf("%s.subscriptions=%d", lane, subscriptions), "--set", fmt.Sprintf("upstream.sources=%d", sources),
		"--set", fmt.Sprintf("%s.sources={{mod .Index %d}}", lane, sources), "--set", fmt.Sprintf(`%s.arguments={channel: "channel-{{mod .Index %d}}"}`, lane, sources)}
	if ttl > 0 {
		args = append(args, "--set", lane+".webhook.ttl="+ttl.String(), "--set", "target.embedded.ttlMin=1s")
	}
	return args
}

// search makes a capacity search.
func (m *plansMode) search(ctx context.Context, l *lab, name string, q plannedSearch) (*results.Capacity, error) {
	at := filepath.Join(l.temp, name)
	args := append([]string{"capacity", m.mode, "--quiet", "--out", at, "--axis", "rate", "--from", fmt.Sprint(q.From), "--to", fmt.Sprint(q.To), "--slo", "p99 < " + m.slo,
		"--set", "capacity.step=" + l.duration(plansStep, 3*time.Second).String(), "--set", "capacity.idle=" + l.duration(m.idle, 4*time.Second).String(),
		"--set", "capacity.confirm=1", "--set", "capacity.precision=0.5"}, m.set(q.Subscriptions, q.Sources, m.ttl[0])...)
	if err := l.command(ctx, name, searchedCodes, args); err != nil {
		return nil, err
	}
	c, err := results.RebuildCapacity(at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, errors.Join(l.keep(name, filepath.Join(at, results.CapacityFile)), os.RemoveAll(at))
}

// try runs a load several times, and predicts it.
func (m *plansMode) try(ctx context.Context, l *lab, name string, load plansLoad, sheets []plan.Sheet) (plannedPoint, error) {
	p := plannedPoint{Subscriptions: load.subscriptions, Sources: load.sources}
	var seconds, events, received, cpu, memory, window, copies, up, down float64
	n := repeats(l, plansRepeats)
	for i := range n {
		r, err := l.run(ctx, fmt.Sprintf("%s-%d", name, i+1), append([]string{m.mode, "--rate", fmt.Sprintf("%g/s", load.rate), "--set", "phases.warmup=1s",
			"--set", "phases.measure=" + l.duration(plansMeasure, 5*time.Second).String()}, m.set(load.subscriptions, load.sources, m.ttl[1])...)...)
		if err != nil {
			return p, err
		}
		lr := &r.Lanes[0]
		if lr.Received == 0 || r.Target.Process == nil {
			return p, fmt.Errorf("%s: nothing was measured: %d events received", name, lr.Received)
		}
		p.Lost += lr.Lost()
		seconds, events, received = seconds+phaseSeconds(r, "warm-up", "measure", "drain"), events+float64(r.Upstream.Published+r.Upstream.Warmup), received+float64(lr.Received)
		cpu, memory = cpu+r.Target.Process.CPU.Duration().Seconds(), memory+float64(r.Target.Process.Memory)/float64(n)
		measured := &lr.Overhead.Measured
		window, copies = window+measured.SubscriptionHours*time.Hour.Seconds()/float64(load.subscriptions), copies+float64(measured.Received)
		for _, t := range measured.Causes {
			up, down = up+float64(t.BytesUp), down+float64(t.BytesDown)
		}
	}
	p.Rate, p.FanOut = events/seconds, received/events
	all, err := m.predict(sheets, load, p.Rate, p.FanOut)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	p.CPU, p.Memory = against(*all.PodCPU, cpu/seconds), against(*all.PodMemory, memory)
	// Bytes are counted in the measured phase alone, whose rate is another one.
	wire, err := m.predict(sheets, load, copies/p.FanOut/window, p.FanOut)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	p.Up, p.Down = against(wire.In, up/window), against(wire.Out, down/window)
	return p, nil
}

// predict plans a load on one pod that holds it all.
func (m *plansMode) predict(sheets []plan.Sheet, load plansLoad, rate, fanOut float64) (plan.Need, error) {
	n := plan.Make(sheets, plan.Workload{Subscribers: float64(load.subscriptions), Rate: rate, FanOut: fanOut, TTL: m.ttl[1], Pod: plan.Pod{CPU: 100}}).Needs[0]
	if n.PodCPU == nil || n.PodMemory == nil {
		return n, errors.New("the searches know nothing of the target's process")
	}
	if n.Pods.Value != 1 {
		return n, fmt.Errorf("the plan has %g pods, because of its bound %s, and one was measured", n.Pods.Value, n.Binds)
	}
	return n, nil
}

func against(r plan.Range, measured float64) prediction {
	return prediction{Value: r.Value, Low: r.Low, High: r.High, Measured: measured}
}
