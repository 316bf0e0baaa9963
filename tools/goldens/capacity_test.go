package goldens

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

const searchProfile = `name: search
lanes:
  - {name: push, mode: push, subscriptions: 100, event: tick}
upstream: {payload: {text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 10/s}
phases: {warmup: 500ms, measure: 4s, drain: 1s}
capacity: {axis: rate, from: 10, to: 160, slo: {p99: 250ms, loss: 0, backlog: 0.01}, step: 4s, confirm: 1, precision: 0.1, idle: 3s}
`

// step is a step of a made-up search.
type step struct {
	purpose, verdict string
	load             float64
	reasons          []string
	subscriptions    int
	rate             float64 // events per second
	lost             int64
	p99              time.Duration
	cpu              time.Duration // of the target
	memory           int64
}

// steps of a search that finds its limit between 80 and 120 events a second.
var steps = []step{
	{purpose: "bracket", verdict: "passed", load: 10, subscriptions: 100, rate: 10, p99: 9 * time.Millisecond, cpu: 160e6, memory: 30 << 20},
	{purpose: "bracket", verdict: "passed", load: 40, subscriptions: 100, rate: 40, p99: 12 * time.Millisecond, cpu: 520e6, memory: 33 << 20},
	{
		purpose: "bracket", verdict: "failed", load: 160, subscriptions: 100, rate: 160, lost: 120, p99: 2 * time.Second, cpu: 3900e6,
		memory: 90 << 20, reasons: []string{"push p99 is 2s, over 250ms", "push lost 0.19 % of its deliveries"},
	},
	{purpose: "bisect", verdict: "passed", load: 80, subscriptions: 100, rate: 80, p99: 60 * time.Millisecond, cpu: 1050e6, memory: 40 << 20},
	{
		purpose: "bisect", verdict: "unclear", load: 120, subscriptions: 100, rate: 120, p99: 700 * time.Millisecond, cpu: 1600e6,
		memory: 50 << 20, reasons: []string{"push p99 is 700ms, over 250ms, and the generator was the bottleneck"},
	},
	{
		purpose: "retry", verdict: "failed", load: 120, subscriptions: 100, rate: 120, p99: 600 * time.Millisecond, cpu: 1590e6,
		memory: 50 << 20, reasons: []string{"push p99 is 600ms, over 250ms"},
	},
	{purpose: "confirm", verdict: "passed", load: 80, subscriptions: 100, rate: 80, p99: 64 * time.Millisecond, cpu: 1060e6, memory: 41 << 20},
	{purpose: "recover", verdict: "aside", load: 10, subscriptions: 100, rate: 10, p99: 9 * time.Millisecond, cpu: 170e6, memory: 42 << 20},
	{purpose: "idle", verdict: "aside", load: 40, subscriptions: 1, cpu: 2e6, memory: 28 << 20},
	{purpose: "cost", verdict: "aside", load: 40, subscriptions: 1, rate: 40, p99: 5 * time.Millisecond, cpu: 60e6, memory: 28 << 20},
	{purpose: "idle", verdict: "aside", load: 40, subscriptions: 100, cpu: 30e6, memory: 32 << 20},
	{purpose: "cost", verdict: "aside", load: 40, subscriptions: 100, rate: 40, p99: 12 * time.Millisecond, cpu: 510e6, memory: 33 << 20},
}

// result is the step in a result. The whole step takes five seconds, of which four are
// measured.
func (s *step) result(number int, lane string) results.CapacityStep {
	const seconds, window = 5, 4
	sent := int64(s.rate * window)
	expected := sent * int64(s.subscriptions)
	latency := results.Summarise(timing(uint64(number), 400, max(s.p99/3, time.Millisecond)))
	if s.rate == 0 {
		latency = results.Quantiles{}
	}
	of := results.CapacityStepLane{
		Name: lane, Mode: lane, Subscriptions: s.subscriptions, Lost: s.lost, FromIntended: latency, FromSent: latency,
	}
	out := results.CapacityStep{
		Number: number, Purpose: s.purpose, Load: s.load, Verdict: s.verdict, Reasons: append([]string{}, s.reasons...), Events: s.rate,
		FanOut: float64(s.subscriptions), Offered: s.rate * float64(s.subscriptions), Expected: expected, Delivered: expected - s.lost,
		Lost: s.lost, Undrained: s.lost, Lanes: []results.CapacityStepLane{of},
		Target: &results.Process{CPU: results.Nanos(s.cpu), CPUShare: s.cpu.Seconds() / seconds, Memory: s.memory, Resolution: 1000},
		Backlog: results.CapacityBacklog{
			Growth: float64(s.lost) / window, Error: 0.5, Share: float64(s.lost) / float64(max(expected, 1)), Most: 2*s.lost + 3,
		},
		Usage: &results.CapacityUsage{
			Seconds: seconds, Subscriptions: s.subscriptions, Events: int64(s.rate * seconds),
			Deliveries: int64(s.rate*seconds) * int64(s.subscriptions), Connections: int64(s.subscriptions),
			Measured: results.OverheadWindow{
				Received: expected - s.lost, SubscriptionHours: float64(s.subscriptions) * window / 3600,
				Causes: map[string]results.Traffic{
					"events": {BytesDown: 371 * (expected - s.lost)}, "heartbeat": {BytesDown: int64(90 * s.subscriptions)},
				},
			},
		},
	}
	out.Achieved = float64(out.Delivered) / window
	out.Generator.Process = results.Process{CPU: results.Nanos(s.cpu / 2), CPUShare: s.cpu.Seconds() / 2 / seconds, Memory: 20 << 20}
	if s.verdict == "unclear" {
		out.Generator.Bottleneck, out.Generator.Reasons = true, []string{"it used all processors"}
	}
	if s.verdict == "aside" && s.purpose != "recover" {
		out.Lane = lane
	}
	return out
}

// search is a made-up search for a capacity.
func search(t *testing.T) *results.Capacity {
	t.Helper()
	p, err := profiles.Parse("search", []byte(searchProfile), nil, systems.Table)
	must(t, err)
	text, err := json.Marshal(p)
	must(t, err)
	figure := func(v float64) *float64 { return &v }
	span := func(v float64) results.CapacityRange {
		return results.CapacityRange{Value: v, Low: 0.8 * v, High: 1.3 * v}
	}
	peak := span(140)
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &results.Capacity{
		Schema: results.CapacitySchema, Version: "v0.0.0-golden", Name: "golden", Started: began, Finished: began.Add(time.Minute),
		Profile: text,
		Target:  results.Target{Embedded: true, URL: "http://127.0.0.1:8080/mcp", Era: "modern", Protocol: "2026-07-28"},
		Host:    results.Host{OS: "linux", Arch: "amd64", CPU: "a processor", CPUs: 4, Memory: 8 << 30, Go: "go1.26", Files: 1 << 16},
		Axis:    "rate", Unit: "events/s", SLO: results.CapacitySLO{P99: 250e6, Backlog: 0.01}, Outcome: "found",
		Stopped: "80 events/s met the SLO and 120 events/s did not: push p99 is 600ms, over 250ms",
		Maximum: results.CapacityMaximum{
			Load: 80, Above: 120, From: 80, To: 120, Passed: 2, AboveFailed: 1, Events: 80, Deliveries: 8000, FanOut: 100,
			Limits: []string{"push p99 is 600ms, over 250ms"},
		},
		Law: &results.CapacityLaw{
			Unit: 10, Lambda: span(1000), Sigma: span(0.01), Kappa: span(0.002), Peak: &peak, PeakShare: 0.9, Points: 5, Loads: 4, Low: 10,
			High: 160, Residual: 0.02, Worst: 0.05, R2: 0.99, Doubts: []string{"few loads"},
		},
		Costs: []results.CapacityCost{{
			Lane: "push", Mode: "push",
			Idle: results.CostOf{
				CPU: figure(20), Resolution: 2, Memory: figure(40e6), Requests: figure(0), Bytes: figure(324e6), Basis: "100 held for 5s, less 1",
			},
			Delivered: results.CostOf{CPU: figure(21), Resolution: 0.3, Requests: figure(0), Bytes: figure(371e6), Basis: "20000 deliveries"},
			Event:     &results.CostOf{CPU: figure(290), Resolution: 30, Basis: "200 events to 1 subscription"},
			Base:      &results.CostOf{CPU: figure(1.4), Resolution: 1, Memory: figure(28e6), Basis: "1 subscription held for 5s"},
			Missing:   []string{"the memory of a delivery"},
		}},
		Warnings: []results.Warning{{Code: "unclear-steps", Text: "in 1 of 12 steps the generator was the bottleneck"}},
	}
	for i := range steps {
		c.Steps = append(c.Steps, steps[i].result(i+1, "push"))
	}
	return c
}

// A search for a capacity, and plans from it: both verbs read what a search stores.
func TestCapacityAndPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := search(t)
	must(t, os.Mkdir(filepath.Join(dir, "search"), 0o755))
	must(t, results.WriteFile(filepath.Join(dir, "search", results.CapacityFile), c.Write))
	for _, form := range []string{"text", "markdown", "html", "json"} {
		golden(t, "capacity/"+fileOf(form), readable(run(t, dir, "report", "search", "--format", form)))
	}
	workload := []string{"plan", "search", "--rate", "20/s", "--pod-cpu", "1", "--pod-memory", "256MiB", "--slo", "p99 < 250ms"}
	one := append(workload, "--subscribers", "40000", "--fan-out", "1%")
	for _, form := range []string{"text", "markdown", "json"} {
		golden(t, "plan/"+fileOf(form), run(t, dir, append(one, "--format", form)...))
	}
	golden(t, "plan/table.txt", run(t, dir, append(workload, "--fan-out", "400", "--over", "subscribers=10000..1000000")...))
	golden(t, "plan/table.md", run(t, dir, append(workload, "--fan-out", "400", "--over", "subscribers=10000..1000000", "-f", "markdown")...))
}
