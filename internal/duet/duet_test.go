package duet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

const text = `name: duet
lanes:
  - {name: push, mode: push, subscriptions: 2, event: chat.message}
  - {name: poll, mode: poll, subscriptions: 1, event: chat.message, poll: {minInterval: 20ms}}
upstream: {sources: 3, payload: {channel: general, text: "{{.Probe}}"}}
schedule: {rate: 100/s}
phases: {ready: 10s, warmup: 100ms, measure: 1s, drain: 3s}
`

func profile(t *testing.T, set ...string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("duet", []byte(text), set, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// target starts a target in this process, and returns a profile for it.
func target(t *testing.T, fault string, set ...string) *profiles.Profile {
	t.Helper()
	spec, err := faults.Parse(fault)
	if err != nil {
		t.Fatal(err)
	}
	s := runtest.StartTarget(t, refserver.Options{Faults: spec, NextPoll: 20 * time.Millisecond})
	p := profile(t, append(set, "target.url="+s.URL(), "upstream.admin="+s.AdminURL())...)
	p.Target.Tokens = []string{"a-token-of-the-test"}
	return p
}

func options(base, against *profiles.Profile) Options {
	return Options{Runs: [2]run.Options{{Profile: base}, {Profile: against}}}
}

// TestRun: every event goes to both targets, and a delay that one of them adds to each
// delivery is in the pairs.
func TestRun(t *testing.T) {
	t.Parallel()
	const extra = 300 * time.Millisecond
	out, err := Run(t.Context(), options(target(t, ""), target(t, "delay(rate=1, fixed=300ms)")))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out.Runs {
		u := o.Result.Upstream
		if u.Published+u.Dropped != 100 || u.Dropped > 50 || o.Result.Lanes[0].Delivered != 2*u.Published {
			t.Errorf("%s: %d published, %d dropped, %d delivered", Sides[i], u.Published, u.Dropped, o.Result.Lanes[0].Delivered)
		}
		if len(o.Result.Warnings) == 0 || o.Result.Warnings[0].Code != "duet" {
			t.Errorf("%s: warnings %+v", Sides[i], o.Result.Warnings)
		}
	}
	d, all := out.Pairs, int64(out.Pairs.Events)
	if all < 50 || d.FirstA == 0 || d.FirstA == d.Events || d.Lanes["push"].Deliveries != 2*all || d.Lanes["poll"].Deliveries != all {
		t.Errorf("pairs %+v, push %+v, poll %+v", d, d.Lanes["push"].Paired, d.Lanes["poll"].Paired)
	}
	var sides [2]*stats.Side
	for i, o := range out.Runs {
		sides[i] = &stats.Side{Runs: []stats.Run{{Result: o.Result}}}
	}
	c, err := stats.CompareDuet(sides[0], sides[1], out.Pairs, stats.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	busy := out.Runs[0].Result.Generator.Bottleneck || out.Runs[1].Result.Generator.Bottleneck
	if p50 := c.Lanes[0].Figures[0]; p50.Method == "" || !busy && time.Duration(*p50.B-*p50.A) < extra/2 {
		t.Errorf("from %v to %v by %q", *p50.A, *p50.B, p50.Method)
	}
}

// TestRunEndsTogether: when one run cannot go on, the other ends too, and the error
// says which one it was.
func TestRunEndsTogether(t *testing.T) {
	t.Parallel()
	long := []string{"phases.measure=5m", "phases.warmup=4m"}
	out, err := Run(t.Context(), options(target(t, "", long...), target(t, "refuse(code=-32603, every=1)", long...)))
	if !errors.Is(err, run.ErrTarget) || !strings.HasPrefix(err.Error(), "against: ") || out.Pairs != nil {
		t.Errorf("%v, %+v", err, out)
	}
}

// TestRunStops: Stop ends both in order.
func TestRunStops(t *testing.T) {
	t.Parallel()
	long := []string{"phases.measure=5m", "phases.warmup=0s"}
	o := options(target(t, "", long...), target(t, "", long...))
	stop := make(chan struct{})
	o.Stop = stop
	o.Runs[1].Progress = func(p run.Progress) {
		if stop != nil && p.Phase == "measure" && p.Live.Measured.Accepted > 20 {
			close(stop)
			stop = nil
		}
	}
	out, err := Run(t.Context(), o)
	if !errors.Is(err, run.ErrStopped) || out.Pairs == nil || out.Pairs.Events < 20 {
		t.Errorf("%v, %+v", err, out.Pairs)
	}
	for i, r := range out.Runs {
		if !r.Result.Partial {
			t.Errorf("%s is whole", Sides[i])
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	url := func(n string, more ...string) *profiles.Profile {
		return profile(t, append(more, "target.url=http://127.0.0.1:1"+n+"/mcp", "upstream.admin=http://127.0.0.1:2"+n)...)
	}
	turns, feed, hook := url("1"), url("1"), url("1")
	turns.Phases.Order, feed.Upstream.Kind = "turns", "feed"
	hook.Lanes[0].Webhook.Listen = "127.0.0.1:7"
	for _, tt := range []struct {
		base, against *profiles.Profile
		want          string
	}{
		{url("1"), url("2"), ""},
		{profile(t), url("2"), "the first one is not given"},
		{url("1"), url("1"), "--against is the URL of the first target"},
		{url("1"), url("2", "name=x"), ""},
		{turns, url("2"), "phases.order: turns"},
		{url("1", "phases.until=push.p99 ±5%"), url("2"), "phases.until: a duet"},
		{feed, url("2"), "upstream.kind feed"},
		{hook, url("2"), "lanes.push.webhook"},
		{url("1"), profile(t, "target.url=http://127.0.0.1:13/mcp", "upstream.admin=http://127.0.0.1:21"), "--against-upstream-url"},
	} {
		err := Check(tt.base, tt.against)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, run.ErrProfile) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	// The second target is checked as the first is, before either is loaded.
	foreign := url("2")
	foreign.Target.URL = "http://192.0.2.1/mcp"
	if _, err := Run(
		t.Context(),
		options(url("1"), foreign),
	); !errors.Is(err, run.ErrProfile) || !strings.Contains(err.Error(), "against: ") ||
		!strings.Contains(err.Error(), "--allow-host 192.0.2.1") {
		t.Error(err)
	}
}

// TestCheckGates: a gate is refused before a run whose events cannot judge it, and the duration that is advised is enough.
func TestCheckGates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		gate string
		set  []string
		want string
	}{
		{"push.p50 <= +5%", nil, ""},
		{"*.p90 <= +5%", nil, ""},
		{"push.lostSilent <= +0", nil, ""},
		{"run.target.process.cpu <= +5%", nil, ""},
		{"push.p95 <= +5%", nil, "gate push.p95 <= +5%: lane push needs 200 independent events, and 100 are published in 1s: raise the rate, " +
			"or give --duration 3s"},
		{"push.p95 <= +5%", []string{"phases.measure=3s"}, ""},
		{"*.p99 <= +5%", []string{"schedule.rate=20/s"}, "lane push needs 1000 independent events, and 20 are published in 1s: raise the rate, " +
			"or give --duration 55s"},
		{"push.latency.fromSent.p999 <= +5%", []string{"phases.measure=10s"}, "needs 10000 independent events, and 1000 are"},
		{"push.p90 <= +5%", []string{"lanes.push.sources=0,2", "phases.measure=1500ms"}, ""},
		{"push.p90 <= +5%", []string{"lanes.push.sources={{.Index}}"}, "and 66 are published"},
		{"poll.p90 <= +5%", []string{"schedule={kind: ramp, rate: 10/s, to: 0, period: 2s}"}, "in 1s: raise the rate"},
		{"other.p50 <= +5%", nil, "gate other.p50 <= +5%: there is no lane other"},
	} {
		gates, err := stats.ParseGates([]string{tt.gate})
		if err != nil {
			t.Fatal(err)
		}
		err = CheckGates(profile(t, tt.set...), gates)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, run.ErrProfile) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.gate, err, tt.want)
		}
	}
}

// TestRecorder: the first copy of each measured delivery counts, and events pair by
// their place in the schedule, even if a side dropped one.
func TestRecorder(t *testing.T) {
	p := profile(t)
	var of [2]*recorder
	for side := range of {
		r := newRecorder(p)
		of[side] = r
		stamp := func(seq uint32) eventmeter.Stamp {
			return eventmeter.Stamp{Run: uint32(side), Source: 1, Seq: seq}
		}
		seq := uint32(0)
		for n := range uint64(4) {
			if n == 1 && side == 1 {
				continue // dropped
			}
			seq++
			at := eventmeter.Instant(1e9 * int64(n+1))
			// A is early with event 2 and late with the others.
			late := eventmeter.Instant(10 + 10*side)
			if n == 2 {
				late = eventmeter.Instant(30 - 20*side)
			}
			r.Fired(eventmeter.Emission{Stamp: stamp(seq), Number: n, Intended: at, Fired: at + late, Measured: n > 0})
			for i, took := range []time.Duration{time.Duration(1+side) * time.Millisecond, time.Second} {
				for _, lane := range []uint16{0, 1} {
					r.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Lane: lane}, Stamp: stamp(seq), Probed: true, At: at.Add(took)})
				}
				if i == 0 && side == 0 { // a subscription of which the other side receives nothing
					r.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: 1}, Stamp: stamp(seq), Probed: true, At: at.Add(took)})
				}
			}
		}
		for _, d := range []eventmeter.Delivery{
			{Stamp: stamp(99), Probed: true}, {Stamp: stamp(0), Probed: true}, {Stamp: stamp(1)},
			{Stamp: eventmeter.Stamp{Run: 77, Source: 1, Seq: 1}, Probed: true},
			{Stamp: eventmeter.Stamp{Run: uint32(side), Source: 900, Seq: 1}, Probed: true},
		} {
			r.Delivered(d) // of nothing that is known
		}
	}
	d := pairs(p, of)
	if d.Events != 2 || d.FirstA != 1 {
		t.Errorf("%+v", d)
	}
	for lane, want := range map[string]stats.Paired{"push": {Events: 2, Deliveries: 2}, "poll": {Events: 2, Deliveries: 2}} {
		if got := d.Lanes[lane].Paired; got != want {
			t.Errorf("%s: %+v, want %+v", lane, got, want)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() {
		of[0].Delivered(eventmeter.Delivery{Stamp: eventmeter.Stamp{Source: 1, Seq: 2}, Probed: true, At: 5e9})
	}); allocs > 0 {
		t.Errorf("%v allocations per delivery", allocs)
	}
}
