package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/plan"
	"github.com/eventmeter/eventmeter/results"
)

// sheetStep is a step of a lane alone, for 10 s.
func sheetStep(number int, mode, purpose string, subscriptions, rate, fanOut, cores, memory float64) results.CapacityStep {
	const seconds = 10
	events, deliveries := int64(rate*seconds), int64(rate*fanOut*seconds)
	causes := map[string]results.Traffic{}
	switch mode {
	case "poll": // once a second, with 200 bytes each way
		polls := int64(subscriptions) * seconds
		causes["emptyPoll"] = results.Traffic{Requests: polls, BytesUp: 200 * polls, BytesDown: 200 * polls}
	case "webhook":
		causes["events"] = results.Traffic{Requests: deliveries}
	}
	t := causes["events"]
	t.BytesDown = 300 * deliveries
	causes["events"] = t
	process := results.Process{CPU: results.Nanos(cores * seconds * 1e9), Memory: int64(memory)}
	return results.CapacityStep{
		Number:    number,
		Purpose:   purpose,
		Lane:      mode,
		Verdict:   "aside",
		Reasons:   []string{},
		Target:    &process,
		Generator: results.Generator{Reasons: []string{}, Process: process},
		Lanes:     []results.CapacityStepLane{{Name: mode, Mode: mode, Subscriptions: int(subscriptions)}},
		Usage: &results.CapacityUsage{
			Seconds: seconds, Subscriptions: int(subscriptions), Events: events, Deliveries: deliveries, Connections: int64(subscriptions),
			Measured: results.OverheadWindow{Received: deliveries, SubscriptionHours: subscriptions * seconds / 3600, Causes: causes},
		},
	}
}

// writeSearch writes a search of 1,000 subscriptions at 20 events/s to 100 of them each,
// on a target with 10 mcores and 20 MiB of its own, 10 KiB for a subscription, 1 ms for
// an event, and so many seconds for a delivery and for a poll or an hour of holding.
func writeSearch(t *testing.T, dir, mode string, delivery, held float64) {
	t.Helper()
	cpu := func(n, rate, fanOut float64) float64 { return 0.01 + n*held + rate*0.001 + rate*fanOut*delivery }
	memory := func(n float64) float64 { return 20*1048576 + n*10*1024 }
	c := &results.Capacity{
		Schema:  results.CapacitySchema,
		Version: "test",
		Profile: json.RawMessage("{}"),
		Target:  results.Target{Embedded: true, Name: "target"},
		Host:    results.Host{CPUs: 4},
		Axis:    "rate",
		Unit:    "events/s",
		SLO:     results.CapacitySLO{P99: 250e6},
		Outcome: "found",
		Maximum: results.CapacityMaximum{
			Load:       40,
			Above:      41,
			From:       40,
			To:         41,
			Events:     40,
			FanOut:     100,
			Deliveries: 4000,
			Limits:     []string{},
		},
		Steps: []results.CapacityStep{
			sheetStep(
				1,
				mode,
				"idle",
				1,
				0,
				0,
				cpu(1, 0, 0),
				memory(1),
			),
			sheetStep(2, mode, "cost", 1, 20, 0.1, cpu(1, 20, 0.1), memory(1)),
			sheetStep(
				3,
				mode,
				"idle",
				1000,
				0,
				0,
				cpu(1000, 0, 0),
				memory(1000),
			),
			sheetStep(4, mode, "cost", 1000, 20, 100, cpu(1000, 20, 100), memory(1000)),
		},
		Costs:    []results.CapacityCost{{Lane: mode, Mode: mode, Missing: []string{}}},
		Warnings: []results.Warning{},
	}
	must(t, os.MkdirAll(dir, 0o755))
	must(t, results.WriteFile(filepath.Join(dir, results.CapacityFile), c.Write))
}

// planned runs the plan command in this process.
func planned(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	err := runCommand(t.Context(), append([]string{"plan"}, args...), streams{in: strings.NewReader(""), out: &out, err: &errs})
	if err != nil {
		errs.WriteString(err.Error())
	}
	return out.String(), errs.String(), exitCode(err)
}

// TestPlan has hand-computed values. A pod of 2 CPUs, half of it free, takes 1 core:
// n pods share 10,000 subscribers and 20 events/s to 1,000 of them each, so that each
// needs 0.01 + 0.02 + (10,000·held + 20,000·delivery)/n.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	push, poll := filepath.Join(dir, "push"), filepath.Join(dir, "poll")
	writeSearch(t, push, "push", 50e-6, 1e-6) // 0.01 + 1: 1.01/0.97 = 1.04: 2 pods
	writeSearch(t, poll, "poll", 50e-6, 1e-3) // 10 + 1: 11/0.97 = 11.3: 12 pods
	args := []string{push, poll, "--subscribers", "10000", "--rate", "20/s", "--fan-out", "10%", "--pod-cpu", "2", "--headroom", "50%"}
	out, stderr, code := planned(t, append(args, "--format", "json")...)
	var p plan.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	// The SLO was met at 4,000 deliveries/s, of which half are planned: 20,000 need 10.
	want := map[string]struct {
		cpu, slo, pods float64
		binds          string
		cores, memory  float64
		requests, out  float64
	}{
		"push": {2, 10, 10, "slo", 10*0.03 + 1.01, 10*20*1048576 + 10000*10*1024, 0, 6e6},
		"poll": {12, 10, 12, "cpu", 12*0.03 + 11, 12*20*1048576 + 10000*10*1024, 10000, 6e6 + 2e6},
	}
	for _, n := range p.Needs {
		w := want[n.Lane]
		limits := map[string]plan.Limit{}
		for _, l := range n.Limits {
			limits[l.Name] = l
		}
		if limits["cpu"].Pods.Value != w.cpu || limits["slo"].Pods.Value != w.slo || n.Pods.Value != w.pods || n.Binds != w.binds {
			t.Errorf("%s: %+v, %v pods by %s", n.Lane, n.Limits, n.Pods, n.Binds)
		}
		near := func(name string, got plan.Range, want float64) {
			if got.Value < 0.99*want || got.Value > 1.01*want || got.Low > want || got.High < want {
				t.Errorf("%s: %s is %+v, want %v", n.Lane, name, got, want)
			}
		}
		near("CPU", *n.CPU, w.cores)
		near("memory", *n.Memory, w.memory)
		near("requests", n.Requests, w.requests)
		near("bytes", n.Out, w.out)
		if n.Connections.Value != 10000 {
			t.Errorf("%s: %v connections", n.Lane, n.Connections)
		}
	}
	if p.Cheapest != "push" {
		t.Errorf("the cheapest is %q: %s", p.Cheapest, p.Why)
	}
	text, _, _ := planned(t, args...)
	for i, line := range golden(t, "plan.golden", strings.Split(strings.TrimSuffix(text, "\n"), "\n")) {
		if lines := strings.Split(text, "\n"); i >= len(lines) || lines[i] != line {
			t.Fatalf("line %d of the output is not\n%s\nbut\n%s", i+1, line, text)
		}
	}
	if out, _, code := planned(t, append(args, "--format", "markdown")...); code != 0 || !strings.Contains(out, "| pods | 10 (") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	over := append(args[:2:2], args[4:]...)
	out, _, code = planned(t, append(over, "--over", "subscribers=10000..640000", "--mode", "push")...)
	if code != 0 || !strings.Contains(out, "\n10000 ") || !strings.Contains(out, "\n640000 ") || !strings.Contains(out, "\n80000 ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, _, code = planned(t, append(over, "--over", "subscribers=10000..640000", "--format", "json")...)
	var plans []plan.Plan
	if err := json.Unmarshal([]byte(out), &plans); err != nil || code != 0 || len(plans) != 7 || plans[3].Workload.FanOut != 8000 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestPlanExitCodes: docs/endings.md has the code of each way in which plan ends.
func TestPlanExitCodes(t *testing.T) {
	dir := t.TempDir()
	writeSearch(t, dir, "push", 50e-6, 1e-6)
	args := []string{"plan", dir, "--subscribers", "1000", "--rate", "1/s", "--fan-out", "1", "--pod-cpu", "1"}
	full := streams{in: strings.NewReader(""), out: fullDisk{}, err: io.Discard}
	_, _, good := planned(t, args[1:]...)
	_, _, never := planned(t, append(args[1:], "--rate", "5000/s")...)
	_, _, bad := planned(t, append(args[1:], "--pod-cpu", "-1")...)
	text, err := os.ReadFile("../../docs/endings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Plans\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for text, code := range map[string]int{
		"the plan, or the table": good, "no number of pods": never, "the plan cannot be written": exitCode(runCommand(t.Context(), args, full)),
		"a bad flag": bad,
	} {
		_, row, found := strings.Cut(section, "\n| "+text)
		if row, _, _ = strings.Cut(row, "\n"); !found || !strings.HasSuffix(row, fmt.Sprintf("| %d |", code)) {
			t.Errorf("code %d, and the page has: %s%s", code, text, row)
		}
	}
	if n := strings.Count(section, "\n| "); n != 5 { // with the heading
		t.Errorf("%d rows", n)
	}
}

// TestPlanNever: a pod that is too small for the process itself is not a matter of
// numbers.
func TestPlanNever(t *testing.T) {
	dir := t.TempDir()
	writeSearch(t, dir, "push", 50e-6, 1e-6)
	out, _, code := planned(t, dir, "--subscribers", "1000", "--rate", "5000/s", "--fan-out", "1", "--pod-cpu", "1", "--pod-memory", "1GiB")
	if code != 0 || !strings.Contains(out, "none suffices") || !strings.Contains(out, "no number of pods suffices") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// 2 events of 1 ms and 10 mcores of the process are close to what is free of a pod of
	// 13.7 mcores: within the interval, no number suffices.
	out, _, code = planned(t, dir, "--subscribers", "1000", "--rate", "2/s", "--fan-out", "1", "--pod-cpu", "0.0137", "--headroom", "0")
	if code != 0 || !strings.Contains(out, " to open)") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestPlanAtMost: a search that no load broke gives an upper bound of pods and no estimate, and the
// command that finds the limit.
func TestPlanAtMost(t *testing.T) {
	dir := t.TempDir()
	writeSearch(t, dir, "push", 50e-6, 1e-6)
	changeSearch(t, dir, func(c *results.Capacity) {
		c.Maximum.To, c.Maximum.Above, c.Outcome, c.Source = 0, 0, "bound", "team/mine.yaml"
	})
	out, stderr, code := planned(t, dir, "--subscribers", "10000", "--rate", "20/s", "--fan-out", "10%", "--pod-cpu", "2", "--headroom", "50%")
	flat := strings.Join(strings.Fields(out), " ")
	if code != 0 || !strings.Contains(flat, "pods at most 10 bound by slo") ||
		!strings.Contains(flat, "eventmeter capacity team/mine.yaml --axis rate --from 40, with") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	// A pod for which a few subscriptions were measured has a wide interval, and the way to narrow it.
	out, _, _ = planned(t, dir, "--subscribers", "1000000", "--rate", "1/s", "--fan-out", "1", "--pod-memory", "4GiB")
	if flat := strings.Join(strings.Fields(out), " "); !strings.Contains(flat, "for a narrower interval: eventmeter capacity team/mine.yaml") {
		t.Errorf("no command narrows the interval:\n%s", out)
	}
}

// changeSearch changes the search that [writeSearch] wrote.
func changeSearch(t *testing.T, dir string, change func(*results.Capacity)) {
	t.Helper()
	file := filepath.Join(dir, results.CapacityFile)
	data := readFile(t, file)
	c, err := results.ReadCapacity(bytes.NewReader(data))
	must(t, err)
	change(c)
	must(t, results.WriteFile(file, c.Write))
}

// TestPlanOfAnIdleListener: a search that did not see the processes that work makes no plan.
func TestPlanOfAnIdleListener(t *testing.T) {
	dir := t.TempDir()
	writeSearch(t, dir, "push", 50e-6, 1e-6)
	changeSearch(t, dir, func(c *results.Capacity) { c.Warnings = []results.Warning{{Code: results.TargetIdle}} })
	out, stderr, code := planned(t, dir, "--subscribers", "1000", "--rate", "2/s", "--fan-out", "1", "--pod-cpu", "1")
	if code != 2 || out != "" || !strings.Contains(stderr, "was idle while events were delivered") ||
		strings.Contains(strings.TrimSpace(stderr), "\n") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}

func TestPlanBadInput(t *testing.T) {
	dir := t.TempDir()
	writeSearch(t, dir, "push", 50e-6, 1e-6)
	other := filepath.Join(t.TempDir(), "other")
	writeSearch(t, other, "push", 50e-6, 1e-6)
	c := readFile(t, filepath.Join(other, results.CapacityFile))
	if err := os.WriteFile(
		filepath.Join(other, results.CapacityFile),
		[]byte(strings.Replace(string(c), `"name": "target"`, `"name": "another"`, 1)),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	good := []string{"--subscribers", "100", "--rate", "1/s", "--fan-out", "10", "--pod-cpu", "1"}
	with := func(args ...string) []string { return append(append([]string{dir}, good...), args...) }
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "requires at least 1 arg"},
		{[]string{dir}, "a workload needs all three"},
		{append([]string{t.TempDir()}, good...), "give the directory of a capacity search"},
		{append([]string{dir, other}, good...), "give searches of one target"},
		{with("--fan-out", "101"), "an event is delivered to at most all 100 subscribers"},
		{with("--fan-out", "many"), `--fan-out "many": write a number of subscriptions, or a share`},
		{with("--rate", "often"), `--rate "often"`},
		{with("--headroom", "100%"), "headroom: want 0 % or more and less than 100 %"},
		{with("--headroom", "x"), "write a share like 30%"},
		{with("--pod-memory", "1GB"), `--pod-memory "1GB"`},
		{with("--pod-cpu", "0"), "a pod without any bound holds everything"},
		{with("--pod-cpu", "-1"), "a bound of a pod is negative"},
		{with("--ttl", "-1s"), "a duration is negative"},
		{with("--slo", "p99<200ms"), "had no limit as strict as this"},
		{with("--slo", "p50<200ms"), "had no limit as strict as this"},
		{with("--slo", "p95<200ms"), "had no limit as strict as this"},
		{with("--slo", "queue_length < 5"), "did not have this limit; repeat it"},
		{with("--slo", "p98<1s"), "want p50, p90"},
		{with("--mode", "poll"), "no search has a lane of this mode"},
		{with("--format", "html"), "want text, markdown or json"},
		{with("--over", "ttl=1..2"), "want subscribers, rate or fan-out=FROM..TO"},
		{with("--over", "rate=1..2"), "--rate has no effect beside --over"},
	} {
		_, stderr, code := planned(t, tt.args...)
		if code != exitUsage || !strings.Contains(stderr, tt.want) || strings.Contains(strings.TrimSpace(stderr), "\n") {
			t.Errorf("%v: exit code %d\n%s", tt.args, code, stderr)
		}
	}
	old := filepath.Join(t.TempDir(), "old")
	writeSearch(t, old, "push", 50e-6, 1e-6)
	searches, err := readSearches([]string{old})
	must(t, err)
	for i := range searches[0].Capacity.Steps {
		searches[0].Capacity.Steps[i].Usage = nil // as before there were plans
	}
	must(t, results.WriteFile(filepath.Join(old, results.CapacityFile), searches[0].Capacity.Write))
	if _, stderr, code := planned(
		t,
		append([]string{old}, good...)...); code != exitUsage ||
		!strings.Contains(stderr, "has 0 usable steps of its own") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := planned(t, with("--slo", "p99<=250ms", "--slo", "loss<=0.1%")...); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
