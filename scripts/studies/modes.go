package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// modes compares what the delivery modes cost the server at different rates of events.
//
// The expectation is a line for each mode: u is what an idle action costs (an empty poll, a
// heartbeat, a refresh), n how many of them there are for each event at a rate, and e what an event
// costs, so that an event costs u × n + e. u is measured without events, e at the highest rate; the
// rates below it are predicted.
type modes struct {
	FanOut int         `json:"fanOut"` // subscriptions of one source
	Units  []modeUnit  `json:"units"`
	Points []modePoint `json:"points"`
}

// modeUnit is the cost of one idle action.
type modeUnit struct {
	Mode          string  `json:"mode"`
	PeriodSeconds float64 `json:"periodSeconds"` // between the idle actions of a subscription in the points
	Actions       int64   `json:"actions"`       // measured, in all runs
	CPUMicros     spread  `json:"cpuMicros"`     // of the server, per action
	Bytes         spread  `json:"bytes"`         // both directions, per action
}

// modePoint is a mode at a rate.
type modePoint struct {
	Mode          string  `json:"mode"`
	Rate          float64 `json:"rate"`        // meant, of one subscription, events per second
	Actual        float64 `json:"actual"`      // received, mean of the runs
	ActualBytes   float64 `json:"actualBytes"` // the same in the measured phase, of which the bytes are
	Subscriptions int     `json:"subscriptions"`
	Received      int64   `json:"received"` // in all runs
	Lost          int64   `json:"lost"`
	P50MS         spread  `json:"p50Ms"` // published → received
	P99MS         spread  `json:"p99Ms"`
	CPUMicros     spread  `json:"cpuMicros"`   // of the server, per delivered event
	ClockMicros   float64 `json:"clockMicros"` // resolution of CPUMicros
	Bytes         spread  `json:"bytes"`       // both directions, per delivered event
}

// modeKind says how a mode is run, and what it does while there are no events.
type modeKind struct {
	mode, profile, title string
	period               time.Duration // between idle actions
	cause                string        // of the traffic of idle actions
	always               bool          // idle actions go on whether there are events or not
	unseen               bool          // the period is longer than a run
	args                 []string
	unitPeriod           time.Duration // a shorter one, to measure an action
	unitArgs             []string
}

const (
	quietPeriod  = 15 * time.Second // of heartbeats, by default, and of long polls
	refreshShare = 0.75             // of the time to live, after which a subscription is refreshed
	defaultTTL   = 30 * time.Minute
)

var modeKinds = []modeKind{
	{mode: "poll", profile: "poll", title: "poll every second", period: time.Second, cause: "emptyPoll", always: true, unitPeriod: time.Second},
	{mode: "fast-poll", profile: "poll", title: "poll every 250 ms", period: 250 * time.Millisecond, cause: "emptyPoll", always: true,
		args: []string{"--set", "target.embedded.nextPoll=250ms", "--set", "lanes.poll.poll.minInterval=250ms"}},
	{mode: "longpoll", profile: "longpoll", title: "long poll", period: quietPeriod, cause: "emptyPoll", unitPeriod: time.Second,
		args: []string{"--set", "lanes.longpoll.poll.timeout=15s"}, unitArgs: []string{"--set", "lanes.longpoll.poll.timeout=1s"}},
	{mode: "push", profile: "push", title: "push", period: quietPeriod, cause: "heartbeat", unitPeriod: time.Second,
		unitArgs: []string{"--set", "target.embedded.heartbeat=1s"}},
	{mode: "webhook", profile: "webhook", title: "webhook", period: time.Duration(refreshShare * float64(defaultTTL)), cause: "refresh", always: true, unseen: true, unitPeriod: 3 * time.Second,
		unitArgs: []string{"--set", "lanes.webhook.webhook.ttl=4s", "--set", "target.embedded.ttlMin=1s"}},
}

func kindOf(mode string) modeKind {
	for _, k := range modeKinds {
		if k.mode == mode {
			return k
		}
	}
	return modeKind{mode: mode, title: mode, period: time.Second}
}

// modeRates are the rates of one subscription and how many of them there are: fewer as the rate
// rises, so that each rate is far from what the machine can do.
var modeRates = []struct {
	rate          float64
	subscriptions int
	measure       time.Duration
}{
	{0.001, 4000, quietPeriod},
	{0.01, 4000, quietPeriod},
	{0.1, 2000, quietPeriod},
	{1, 500, 8 * time.Second},
	{10, 100, 8 * time.Second},
}

const (
	modesFanOut   = 10
	modesRepeats  = 2
	pollersMost   = 2000            // polls cost the most while idle
	modesShortest = 5 * time.Second // of a trial
)

// repeats is how often a point is measured: once in a small trial.
func repeats(l *lab, n int) int {
	if l.scale < 0.5 {
		return 1
	}
	return n
}

func (m *modes) measure(ctx context.Context, l *lab) error {
	m.FanOut = modesFanOut
	for _, k := range modeKinds {
		if k.unitPeriod == 0 {
			continue
		}
		u, err := k.measureUnit(ctx, l)
		if err != nil {
			return err
		}
		m.Units = append(m.Units, u)
	}
	for _, r := range modeRates {
		for _, k := range modeKinds {
			if k.unitPeriod == 0 && (r.rate < 0.1 || r.rate > 1) {
				continue // one more interval, to see that the price of polls follows from it
			}
			least := int(1.2 * modesFanOut / (r.rate * modesShortest.Seconds())) // for one event
			n := l.subscriptions(r.subscriptions, max(least, 5*modesFanOut))
			if k.profile == "poll" {
				n = min(n, pollersMost)
			}
			p, err := k.measurePoint(ctx, l, r.rate, n, l.duration(r.measure, modesShortest))
			if err != nil {
				return err
			}
			m.Points = append(m.Points, p)
		}
	}
	return nil
}

// measureUnit measures idle actions: nothing that is published reaches the subscriptions.
func (k modeKind) measureUnit(ctx context.Context, l *lab) (modeUnit, error) {
	n := l.subscriptions(1000, 50)
	u := modeUnit{Mode: k.mode, PeriodSeconds: k.period.Seconds()}
	var cpu, bytes []float64
	for i := range repeats(l, modesRepeats) {
		lane := "lanes." + k.profile
		args := []string{"--profile", k.profile, "--set", fmt.Sprintf("%s.subscriptions=%d", lane, n),
			"--set", lane + ".sources=none", "--set", lane + ".arguments={channel: nobody}", "--set", "upstream.sources=1", "--set", "upstream.event=chat.message",
			"--set", "schedule={kind: constant, rate: 0.5/s}", "--set", "phases.warmup=0s", "--set", "phases.measure=" + l.duration(9*time.Second, modesShortest).String()}
		r, err := l.run(ctx, fmt.Sprintf("unit-%s-%d", k.mode, i+1), append(append(args, k.args...), k.unitArgs...)...)
		if err != nil {
			return u, err
		}
		// Actions are counted in the measured phase, and go on in the drain, which CPU includes.
		t := r.Lanes[0].Overhead.Measured.Causes[k.cause]
		share := phaseSeconds(r, "measure") / phaseSeconds(r, "warm-up", "measure", "drain")
		actions := t.Requests
		if k.cause == "heartbeat" { // no requests
			actions = int64(math.Round(float64(n) * phaseSeconds(r, "measure") / k.unitPeriod.Seconds()))
		}
		if actions == 0 || r.Target.Process == nil {
			return u, fmt.Errorf("unit-%s-%d: nothing was measured: %d idle actions", k.mode, i+1, actions)
		}
		u.Actions += actions
		cpu = append(cpu, float64(r.Target.Process.CPU)/1e3*share/float64(actions))
		bytes = append(bytes, float64(t.BytesUp+t.BytesDown)/float64(actions))
	}
	u.CPUMicros, u.Bytes = spreadOf(cpu), spreadOf(bytes)
	return u, nil
}

// clockTick is the resolution of the CPU time of another process where the run does not say it.
const clockTick = 10 * time.Millisecond

func (k modeKind) measurePoint(ctx context.Context, l *lab, rate float64, n int, measure time.Duration) (modePoint, error) {
	p := modePoint{Mode: k.mode, Rate: rate, Subscriptions: n}
	sources, runs := n/modesFanOut, repeats(l, modesRepeats)
	var p50, p99, cpu, bytes []float64
	var tick time.Duration
	for i := range runs {
		name := fmt.Sprintf("%s-%g-%d", k.mode, rate, i+1)
		lane := "lanes." + k.profile
		args := []string{"--profile", k.profile, "--set", fmt.Sprintf("%s.subscriptions=%d", lane, n),
			"--set", fmt.Sprintf("%s.sources={{mod .Index %d}}", lane, sources), "--set", fmt.Sprintf(`%s.arguments={channel: "channel-{{mod .Index %d}}"}`, lane, sources),
			"--set", fmt.Sprintf("upstream.sources=%d", sources), "--set", fmt.Sprintf("schedule={kind: constant, rate: %.6g/s}", rate*float64(sources)),
			"--set", "phases.warmup=1s", "--set", "phases.measure=" + measure.String()}
		r, err := l.run(ctx, name, append(args, k.args...)...)
		if err != nil {
			return p, err
		}
		lr := &r.Lanes[0]
		if lr.Received == 0 || lr.Overhead.Measured.Received == 0 || r.Target.Process == nil {
			return p, fmt.Errorf("%s: nothing was measured: %d events received", name, lr.Received)
		}
		tick = max(tick, cmp.Or(r.Target.Process.Resolution.Duration(), clockTick))
		p.Actual += float64(lr.Received) / (float64(n) * phaseSeconds(r, "warm-up", "measure", "drain")) / float64(runs)
		p.ActualBytes += float64(lr.Overhead.Measured.Received) / (lr.Overhead.Measured.SubscriptionHours * time.Hour.Seconds()) / float64(runs)
		p.Received += lr.Received
		p.Lost += lr.Lost()
		p50 = append(p50, milliseconds(lr.Latency.FromSent.P50))
		p99 = append(p99, milliseconds(lr.Latency.FromSent.P99))
		cpu = append(cpu, float64(r.Target.Process.CPU)/1e3/float64(lr.Received))
		bytes = append(bytes, lr.Overhead.TotalPerDelivered.Bytes)
	}
	p.P50MS, p.P99MS, p.CPUMicros, p.Bytes = spreadOf(p50), spreadOf(p99), spreadOf(cpu), spreadOf(bytes)
	p.ClockMicros = tick.Seconds() * 1e6 * float64(runs) / float64(p.Received)
	return p, nil
}

func milliseconds(d results.Nanos) float64 { return float64(d) / 1e6 }

// phaseSeconds adds up the phases of these names.
func phaseSeconds(r *results.Result, names ...string) float64 {
	var sum time.Duration
	for _, p := range r.Phases {
		for _, n := range names {
			if p.Name == n {
				sum += (p.End - p.Start).Duration()
			}
		}
	}
	return sum.Seconds()
}
