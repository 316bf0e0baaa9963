package trials

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// pretend is a target of a fake run: it says what becomes of a step.
type pretend func(o run.Options) (*run.Outcome, error)

// meets is the outcome of a step that loses what it was told to, with one
// process that used some CPU for each delivery and subscription.
func meets(o run.Options, lost int64) *run.Outcome {
	p := o.Profile
	emissions := int64(math.Round(float64(p.Schedule.Rate) * p.Phases.Measure.Seconds()))
	if o.Idle {
		emissions = 0
	}
	r := &results.Result{
		Schema:    results.Schema,
		Upstream:  results.Upstream{Scheduled: emissions, Published: emissions, Accepted: emissions},
		Generator: results.Generator{Reasons: []string{}},
	}
	var account ledger.Account
	var deliveries, subscriptions int64
	for _, l := range p.Lanes {
		n := emissions * int64(l.Subscriptions)
		deliveries += n
		subscriptions += int64(l.Subscriptions)
		r.Lanes = append(r.Lanes, results.Lane{
			Name:          l.Name,
			Mode:          l.Mode,
			Subscriptions: l.Subscriptions,
			Expected:      n,
			Delivered:     n - lost,
			LostSilent:    lost,
			Latency:       results.Latency{FromIntended: results.Quantiles{Count: n, P99: 1e6}},
			Overhead: results.Overhead{
				PerSubscriptionHour: results.Share{Requests: 2, Bytes: 100},
				Causes:              map[string]results.Traffic{"events": {Requests: n}},
			},
		})
		account.Lanes = append(account.Lanes, ledger.LaneAccount{LaneCounts: ledger.LaneCounts{EventMessages: n, EventBytes: 300 * n}})
		lost = 0
	}
	seconds := p.Phases.Measure.Seconds() + 1
	r.Phases = []results.Phase{{Name: "attach", End: 1e9}, {Name: "measure", Start: 1e9, End: results.Nanos(1e9 + seconds*1e9)}}
	cpu := 50e-6*float64(deliveries) + 200e-6*float64(emissions) + 0.001*float64(subscriptions)*seconds + 0.01*seconds
	r.Target.Process = &results.Process{CPU: results.Nanos(cpu * 1e9), CPUShare: cpu / seconds, Memory: 10<<20 + subscriptions<<16}
	return &run.Outcome{
		Result: r, Accounts: []ledger.Account{account},
		Backlog: &run.Backlog{Achieved: float64(deliveries) / p.Phases.Measure.Seconds()},
	}
}

func find(t *testing.T, target pretend, set ...string) (*results.Capacity, error) {
	t.Helper()
	p, err := profiles.Load(
		"capacity",
		append([]string{"capacity.from=10", "capacity.to=1000", "capacity.precision=0.05"}, set...),
		systems.Table,
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newFinder(t.Context(), Options{Options: run.Options{Profile: p}})
	if err != nil {
		t.Fatal(err)
	}
	s.run = func(_ context.Context, o run.Options) (*run.Outcome, error) { return target(o) }
	err = s.steps(t.Context())
	s.finish(err)
	return s.out, err
}

func rateOf(o run.Options) float64 { return float64(o.Profile.Schedule.Rate) }

func TestCapacitySearch(t *testing.T) {
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		if rateOf(o) > 100 {
			return meets(o, 5), nil
		}
		return meets(o, 0), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Outcome != "found" || c.Maximum.Load > 100 || c.Maximum.Load < 95 || c.Maximum.Above <= 100 || c.Maximum.FanOut != 100 ||
		math.Abs(c.Maximum.Deliveries-100*c.Maximum.Load) > 100 {
		t.Errorf("%s, %+v", c.Outcome, c.Maximum)
	}
	if len(c.Maximum.Limits) != 1 || !strings.Contains(c.Maximum.Limits[0], "deliveries missing") ||
		!strings.Contains(c.Stopped, "did not: 5 of ") {
		t.Errorf("limits %v, stopped %s", c.Maximum.Limits, c.Stopped)
	}
	var purposes []string
	for i, s := range c.Steps {
		if s.Number != i+1 || s.Dir == "" {
			t.Errorf("step %d: %+v", i+1, s)
		}
		if purposes = append(purposes, s.Purpose); len(purposes) > 1 && purposes[len(purposes)-2] == s.Purpose {
			purposes = purposes[:len(purposes)-1]
		}
	}
	if want := []string{"idle", "bracket", "bisect", "confirm", "cost"}; !slices.Equal(purposes, want) {
		t.Errorf("purposes %v, want %v", purposes, want)
	}
	// The pretended target: 50 µs for a delivery, 200 µs for an event, 1 ms/s and 64 KiB for a
	// subscription, and 10 ms/s for being there.
	cost := c.Costs[0]
	near := func(name string, got *float64, want float64) {
		if got == nil || math.Abs(*got-want) > 0.03*want {
			t.Errorf("%s is %v, want %v; %v", name, got, want, cost.Missing)
		}
	}
	near("idle CPU", cost.Idle.CPU, 3600)
	near("memory", cost.Idle.Memory, 1000<<16)
	near("idle requests", cost.Idle.Requests, 2000)
	near("CPU of deliveries", cost.Delivered.CPU, 50)
	near("CPU of events", cost.Event.CPU, 200)
	near("CPU of the target", cost.Base.CPU, 3600*0.011)
	near("memory of the target", cost.Base.Memory, 10<<20+1<<16)
	near("requests of deliveries", cost.Delivered.Requests, 1e6)
	near("bytes of deliveries", cost.Delivered.Bytes, 3e8)
	if len(cost.Missing) != 0 {
		t.Errorf("missing %v", cost.Missing)
	}
}

// TestCapacityWithoutAHighestLoad: the load is doubled until the SLO breaks, or until a run may not have twice as much.
func TestCapacityWithoutAHighestLoad(t *testing.T) {
	for _, c := range []struct {
		axis      string
		holds     float64
		outcome   string
		low, high float64
		stopped   string
	}{
		{"rate, from: 10", 3000, "found", 2900, 3000, "did not: 5 of "},
		{"rate, from: 10", 1e9, "bound", 10240, 10240, "limits.rate"},
		{"subscriptions, from: 10", 1e9, "bound", 2560, 163840, "subscriptions"}, // by the files that this process may have
	} {
		got, err := find(t, func(o run.Options) (*run.Outcome, error) {
			if rateOf(o) > c.holds {
				return meets(o, 5), nil
			}
			return meets(o, 0), nil
		}, "capacity={axis: "+c.axis+", slo: {p99: 250ms}, idle: 0}")
		if err != nil {
			t.Fatal(err)
		}
		if k := got.Maximum; got.Outcome != c.outcome || k.Load < c.low || k.Load > c.high || !strings.Contains(got.Stopped, c.stopped) {
			t.Errorf("%s: %s at %v, %s", c.axis, got.Outcome, k.Load, got.Stopped)
		}
	}
	p, err := profiles.Load("capacity", []string{"capacity={axis: rate, from: 15000}"}, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newFinder(t.Context(), Options{Options: run.Options{Profile: p}}); !errors.Is(err, run.ErrProfile) {
		t.Errorf("from a load of which no run can have twice as much: %v", err)
	}
}

// TestCostSheetHoldsMore: where few subscriptions do not show in the target's memory, more are held, idle and
// with as many deliveries a second as before, until they do.
func TestCostSheetHoldsMore(t *testing.T) {
	const base, each = 32 << 20, 20 << 10
	for _, c := range []struct {
		name  string
		polls float64 // CPU seconds a subscription and second
		limit int     // of subscriptions
		want  int     // the least number that is held, and at most eight times as many; 0 = no more than 100
	}{
		{"streams", 0, 1e9, 4 * base / each},
		{"streams of a target that takes few", 0, 900, 800},
		{"pollers", 1e-3, 1e9, 250},
		{"busy pollers", 1e-2, 1e9, 0},
	} {
		most := 0
		got, err := find(t, func(o run.Options) (*run.Outcome, error) {
			n := o.Profile.Lanes[0].Subscriptions
			if n > c.limit {
				return nil, run.AttachError{Err: fmt.Errorf("%w: no more", run.ErrTarget)}
			}
			out := meets(o, 0)
			if rateOf(o) > 100 {
				out = meets(o, 5)
			}
			p := out.Result.Target.Process
			p.Memory = base + int64(n)*each
			if n == 100 {
				p.Memory -= 13 << 20 // what an overload left is given back
			}
			if most = max(most, n); o.Idle {
				p.CPU = results.Nanos(c.polls * float64(n) * 4e9)
			}
			return out, nil
		}, "limits.subscriptions=100000", "lanes.push.http=h2c") // which needs few files
		if err != nil {
			t.Fatal(err)
		}
		if want := max(c.want, 100); most < want || most > 8*want {
			t.Errorf("%s: %d are held, want %d", c.name, most, want)
		}
		if m := got.Costs[0].Idle.Memory; c.limit > 900 && c.polls == 0 && (m == nil || math.Abs(*m/1000-each) > 0.01*each) {
			t.Errorf("%s: memory %v; %v", c.name, m, got.Costs[0].Missing)
		}
		last := got.Steps[len(got.Steps)-1]
		if c.limit > 900 && (last.Purpose != purposeCost || last.Usage.Subscriptions != most || last.Offered > 6000) {
			t.Errorf("%s: the last step: %+v", c.name, last)
		}
		for _, s := range got.Steps {
			if s.Lane != "" && s.Verdict != verdictAside {
				t.Errorf("%s: step %d is %s", c.name, s.Number, s.Verdict)
			}
		}
	}
}

// TestIdleBeforeLoads: a process does not give back what a load made it take, which is no cost of idle subscriptions.
func TestIdleBeforeLoads(t *testing.T) {
	const base, each = 32 << 20, 20 << 10
	for axis, held := range map[string]float64{"rate": 300, "subscriptions": 10} {
		kept := int64(0)
		got, err := find(t, func(o run.Options) (*run.Outcome, error) {
			out, n := meets(o, 0), int64(o.Profile.Lanes[0].Subscriptions)
			load := rateOf(o) * float64(n)
			if load > 20000 {
				out = meets(o, 5)
			}
			now := base + n*each
			if !o.Idle {
				now += int64(load * 4096)
			}
			kept = max(kept, now)
			out.Result.Target.Process.Memory = kept
			return out, nil
		}, "lanes.push.http=h2c", "lanes.push.subscriptions=300", "capacity={axis: "+axis+", from: 10, to: 1000, slo: {p99: 250ms}, idle: 3s}")
		if err != nil {
			t.Fatal(err)
		}
		cost := got.Costs[0]
		if m, b := cost.Idle.Memory, cost.Base; m == nil || math.Abs(*m/1000-each) > 0.01*each || b == nil || *b.Memory != base+each {
			t.Errorf("%s: memory %v of %+v; %v", axis, m, b, cost.Missing)
		}
		if u := got.Steps[1].Usage; float64(u.Subscriptions) != held || cost.Delivered.CPU == nil || math.Abs(*cost.Delivered.CPU-50) > 3 {
			t.Errorf("%s: %+v, CPU of deliveries %v", axis, u, cost.Delivered.CPU)
		}
	}
}

// TestCostOfOne: where one subscription has as many deliveries per event as all have,
// the cost of an event is not told from that of a delivery, and the sheet says so.
func TestCostOfOne(t *testing.T) {
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		if rateOf(o) > 100 {
			return meets(o, 5), nil
		}
		return meets(o, 0), nil
	}, "lanes.push.subscriptions=1")
	if err != nil {
		t.Fatal(err)
	}
	// 50 µs and 200 µs, for one delivery of each event.
	cost := c.Costs[0]
	if cost.Event != nil || cost.Delivered.CPU == nil || math.Abs(*cost.Delivered.CPU-250) > 3 ||
		!slices.ContainsFunc(cost.Missing, func(m string) bool {
			return strings.HasPrefix(m, "CPU of events: 1 deliveries per event with all subscriptions, 1 with one")
		}) {
		t.Errorf("%+v, %v", cost.Event, cost.Missing)
	}
	if u := c.Steps[len(c.Steps)-1].Usage; u == nil || u.Subscriptions != 1 || u.Seconds != 4 || u.Deliveries != u.Events {
		t.Errorf("usage %+v", u)
	}
}

// TestCapacityOfAnIdleListener: where the process at the target's port was seen to leave the
// work to others, no step and no cost sheet has its figures.
func TestCapacityOfAnIdleListener(t *testing.T) {
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		lost := int64(0)
		if rateOf(o) > 100 {
			lost = 5
		}
		out := meets(o, lost)
		if r := out.Result; rateOf(o) > 20 && !o.Idle { // with more than a few deliveries
			r.Target.Process, r.Warnings = nil, []results.Warning{{Code: results.TargetIdle}}
		}
		return out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Steps {
		if s.Target != nil {
			t.Errorf("step %d: %+v", s.Number, s.Target)
		}
	}
	cost := c.Costs[0]
	if cost.Base != nil || cost.Event != nil || cost.Idle.CPU != nil || cost.Idle.Memory != nil || cost.Delivered.CPU != nil {
		t.Errorf("%+v", cost)
	}
	if cost.Delivered.Requests == nil || len(cost.Missing) != 1 || !strings.Contains(cost.Missing[0], "--target-metrics") {
		t.Errorf("%+v", cost)
	}
	if !results.Warned(c.Warnings, results.TargetIdle) {
		t.Errorf("%+v", c.Warnings)
	}
}

func TestCapacityOfAnImpairedGenerator(t *testing.T) {
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		out := meets(o, 0)
		if rateOf(o) > 100 {
			out = meets(o, 5)
			out.Result.Generator = results.Generator{Bottleneck: true, Reasons: []string{"too busy"}}
		}
		return out, nil
	}, "capacity.idle=0")
	if err != nil || c.Outcome != "generator" || c.Maximum.Load > 100 || c.Maximum.Load < 95 || c.Maximum.To != 0 ||
		!strings.Contains(c.Stopped, "at least") ||
		!strings.Contains(c.Stopped, "too busy") {
		t.Errorf("%v, %s, %+v, %s", err, c.Outcome, c.Maximum, c.Stopped)
	}
	if len(c.Warnings) == 0 || c.Warnings[0].Code != "unclear-steps" || len(c.Costs) != 0 {
		t.Errorf("warnings %v, costs %v", c.Warnings, c.Costs)
	}
	if c.Law == nil || c.Law.High > 100 || len(c.Law.Doubts) == 0 {
		t.Errorf("the law must leave out what was unclear, and doubt its peak: %+v", c.Law)
	}
}

// TestCapacityLimits: a target that does not take more subscriptions, or stops
// taking events, is at its limit; one that is gone ends the search.
func TestCapacityLimits(t *testing.T) {
	subscriptions := []string{"capacity={axis: subscriptions, from: 10, to: 1000, idle: 0}"}
	c, err := find(t, func(o run.Options) (*run.Outcome, error) {
		if o.Profile.Lanes[0].Subscriptions > 64 {
			return nil, run.AttachError{Err: fmt.Errorf("%w: no more than 64", run.ErrTarget)}
		}
		return meets(o, 0), nil
	}, subscriptions...)
	if err != nil || c.Outcome != "found" || c.Maximum.Load != 64 || len(c.Maximum.Limits) != 1 ||
		!strings.Contains(c.Maximum.Limits[0], "no more than 64") {
		t.Errorf("%v, %s, %+v", err, c.Outcome, c.Maximum)
	}
	c, err = find(t, func(o run.Options) (*run.Outcome, error) {
		if rateOf(o) > 100 {
			return meets(o, 0), fmt.Errorf("%w: every event failed", run.ErrTarget)
		}
		return meets(o, 0), nil
	}, "capacity.idle=0")
	if err != nil || c.Outcome != "found" || !strings.Contains(c.Stopped, "every event failed") {
		t.Errorf("%v, %s, %s", err, c.Outcome, c.Stopped)
	}
	c, err = find(t, func(o run.Options) (*run.Outcome, error) {
		if rateOf(o) > 100 {
			return nil, fmt.Errorf("%w: connection refused", run.ErrTarget)
		}
		return meets(o, 0), nil
	})
	if !errors.Is(err, run.ErrTarget) || !c.Partial || c.Outcome != "searching" || c.Maximum.Load != 80 || len(c.Costs) != 0 {
		t.Errorf("%v, partial %v, %s, %+v", err, c.Partial, c.Outcome, c.Maximum)
	}
}

// TestCapacityRecovers: a foreign target that did not drain gets the lowest
// load until it meets the SLO again, or the search ends.
func TestCapacityRecovers(t *testing.T) {
	hosts := []string{"capacity.idle=0", "target={url: 'http://127.0.0.1:1/mcp'}", "upstream.admin=http://127.0.0.1:2"}
	for _, after := range []int{2, maxRecover + 1} {
		sick := 0
		c, err := find(t, func(o run.Options) (*run.Outcome, error) {
			out := meets(o, 0)
			switch {
			case rateOf(o) > 100:
				out = meets(o, 5)
				out.Backlog.Undrained, sick = 5, after
			case sick > 1:
				sick--
				out = meets(o, 1)
			}
			return out, nil
		}, hosts...)
		if after > maxRecover {
			if !errors.Is(err, run.ErrTarget) || !strings.Contains(err.Error(), "it no longer met the SLO at the lowest load") {
				t.Errorf("never: %v", err)
			}
			continue
		}
		if err != nil || c.Outcome != "found" || c.Maximum.Load < 95 || c.Maximum.Load > 100 {
			t.Errorf("%v, %+v", err, c.Maximum)
		}
		n := 0
		for _, s := range c.Steps {
			if s.Purpose == purposeRecover {
				n++
				if s.Verdict != verdictAside || s.Load != 10 {
					t.Errorf("%+v", s)
				}
			}
		}
		if n == 0 || n%after != 0 {
			t.Errorf("%d steps to recover", n)
		}
	}
}

func TestCapacityProfiles(t *testing.T) {
	for _, set := range []string{"capacity.axis=subscriptions", "target={url: 'http://192.0.2.1/mcp'}"} {
		overrides := []string{set}
		if strings.HasPrefix(set, "target") {
			overrides = append(overrides, "upstream.admin=http://127.0.0.1:2")
		} else {
			overrides = append(overrides, "capacity.to=150000") // more files than anybody has
		}
		p, err := profiles.Load("capacity", overrides, systems.Table)
		if err != nil {
			t.Fatal(err)
		}
		limit := health.FileLimit()
		if _, err := newFinder(
			t.Context(),
			Options{Options: run.Options{Profile: p}},
		); !errors.Is(err, run.ErrProfile) &&
			(limit > 0 && limit < 150000 || p.Target.URL != "") {
			t.Errorf("%s: %v", set, err)
		}
	}
	plain, err := profiles.Load("smoke", nil, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Find(t.Context(), Options{Options: run.Options{Profile: plain}}); c != nil || !errors.Is(err, run.ErrProfile) {
		t.Errorf("a profile without a search: %v", err)
	}
}

func TestFillBacklog(t *testing.T) {
	b := &run.Backlog{Achieved: 600, Undrained: 3, Most: 40}
	for i := range 40 {
		b.Readings = append(b.Readings, capacity.Reading{At: time.Duration(i) * 50 * time.Millisecond, Outstanding: float64(i)})
	}
	s := results.CapacityStep{Offered: 200}
	fillBacklog(&s, b, 0)
	if b := s.Backlog; math.Abs(b.Growth-20) > 1e-6 || math.Abs(b.Share-0.1) > 1e-6 || b.Most != 40 || s.Achieved != 600 ||
		s.Undrained != 3 {
		t.Errorf("%+v", s)
	}
}

// TestCapacityOfALaneWithoutFigures: a step in which nothing was owed to one of the
// lanes, or in which one received nothing, has not met the SLO.
func TestCapacityOfALaneWithoutFigures(t *testing.T) {
	for name, invalidate := range map[string]func(l *results.Lane){
		"nothing was owed to it": func(l *results.Lane) { *l = results.Lane{Name: l.Name, Mode: l.Mode, Subscriptions: l.Subscriptions} },
		"it received nothing at all,": func(l *results.Lane) {
			l.Delivered, l.LostSilent, l.Latency, l.Overhead = 0, l.Expected, results.Latency{}, results.Overhead{}
		},
	} {
		c, err := find(t, func(o run.Options) (*run.Outcome, error) {
			out := meets(o, 0)
			invalidate(&out.Result.Lanes[len(out.Result.Lanes)-1])
			return out, nil
		}, "capacity.slo.loss=0.99",
			"lanes=[{name: push, mode: push, subscriptions: 5, event: chat.message}, "+
				"{name: poll, mode: poll, subscriptions: 5, event: chat.message}]")
		if err != nil || c.Outcome == "found" || c.Maximum.Passed > 0 {
			t.Errorf("%s: %v, outcome %s, %+v", name, err, c.Outcome, c.Maximum)
		}
		for _, s := range c.Steps {
			if text := strings.Join(
				s.Reasons,
				"; ",
			); s.Verdict == verdictPassed ||
				s.Verdict != verdictAside && !strings.Contains(text, name) {
				t.Errorf("%s: step %d %s: %s", name, s.Number, s.Verdict, text)
			}
		}
	}
}

// TestCapacityOfNothing: a foreign target that is not there is the target's
// fault, before any step.
func TestCapacityOfNothing(t *testing.T) {
	p, err := profiles.Load(
		"capacity",
		[]string{"target={url: 'http://127.0.0.1:1/mcp'}", "upstream.admin=http://127.0.0.1:1"},
		systems.Table,
	)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Find(t.Context(), Options{Options: run.Options{Profile: p}}); c != nil || !errors.Is(err, run.ErrTarget) {
		t.Errorf("%v", err)
	}
}
