package metrics

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/prometheus/client_golang/prometheus"
)

// lookAt is a look with one lane that has delivered so much.
func lookAt(lane, system string, delivered int64) Look {
	return Look{Detail: ledger.Live{
		Measured: ledger.Scheduled{Fired: 7, Accepted: 5, Pending: 2},
		Lanes: []ledger.LiveLane{{
			Name: lane, System: system, Mode: eventmeter.Poll, Subscriptions: 3, Open: 3,
			LaneCounts: ledger.LaneCounts{SubCounts: ledger.SubCounts{Delivered: delivered, Expected: delivered + 1, Foreign: 4}},
		}},
	}}
}

func TestMetricsOfTurns(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Begin(Run{ID: "ab", Fleet: "ab", Profile: "bad\xff", Schedule: "burst", Upstream: "inject", Started: time.Unix(50, 0)})
	first := lookAt("a", "events", 10)
	first.Phases = []Phase{{Name: "measure", Lane: "a", Start: time.Unix(60, 0), End: time.Unix(70, 500e6)}}
	first.Bursts, first.Burst = 3, time.Unix(69, 0)
	first.Health = Health{Measured: true, Used: map[string]float64{Generator: 2, Target: 1}, Most: map[string]int64{Target: 100}}
	first.Detail.Measured.Dropped, first.Detail.Measured.Refused, first.Detail.WarmUp.Fired = 3, 6, 4
	f.Pass(nil).Settle(&first)
	second := lookAt("b", "sep-2549", 20)
	second.Detail.WarmUp.Fired = 1
	second.Phases = []Phase{{Name: "attach", Lane: "b", Start: time.Unix(71, 0)}}
	second.Bursts, second.Burst = 1, time.Unix(72, 0)
	second.Health = Health{
		Measured:   true,
		Goroutines: 9,
		Others:     0.25,
		Used:       map[string]float64{Generator: 1, Target: 0.5},
		Most:       map[string]int64{Target: 300},
	}
	second.Own = []Figures{{Values: map[string]float64{"usesServed": 4, "ttlMs": 1500, "clientHours": 0.5, "fetchesExpired": 2}}}
	second.Upstream = Figures{Values: map[string]float64{"retries": 6}}
	p := f.Pass(func() Look { return second })
	want := map[string]float64{
		`eventmeter_run_info{fleet="ab",name="",profile="bad ",run="ab",schedule="burst",shard="",upstream="inject",version=""}`: 1,
		`eventmeter_run_start_timestamp_seconds{run="ab"}`:                                                                       50,
		`eventmeter_phase{phase="attach",run="ab"}`:                                                                              1,
		`eventmeter_phase_start_timestamp_seconds{lane="a",phase="measure",run="ab"}`:                                            60,
		`eventmeter_phase_end_timestamp_seconds{lane="a",phase="measure",run="ab"}`:                                              70.5,
		`eventmeter_phase_start_timestamp_seconds{lane="b",phase="attach",run="ab"}`:                                             71,
		`eventmeter_bursts_total{run="ab"}`:                                                                                      4,
		`eventmeter_burst_start_timestamp_seconds{run="ab"}`:                                                                     72,
		`eventmeter_events_published_total{run="ab"}`:                                                                            14,
		// Of the pass that is over.
		`eventmeter_events_resolved_total{outcome="uncertain",run="ab"}`:                                  2,
		`eventmeter_events_resolved_total{outcome="accepted",run="ab"}`:                                   10,
		`eventmeter_events_resolved_total{outcome="refused",run="ab"}`:                                    6,
		`eventmeter_events_dropped_total{run="ab"}`:                                                       3,
		`eventmeter_events_warmup_published_total{run="ab"}`:                                              5,
		`eventmeter_measured_cpu_seconds_total{process="generator",run="ab"}`:                             3,
		`eventmeter_events_pending{run="ab"}`:                                                             2,
		`eventmeter_measured_cpu_seconds_total{process="target",run="ab"}`:                                1.5,
		`eventmeter_process_resident_memory_max_bytes{process="target",run="ab"}`:                         300,
		`eventmeter_turn_cpu_seconds_total{lane="a",mode="poll",run="ab",system="events"}`:                1,
		`eventmeter_turn_cpu_seconds_total{lane="b",mode="poll",run="ab",system="sep-2549"}`:              0.5,
		`eventmeter_generator_goroutines{run="ab"}`:                                                       9,
		`eventmeter_generator_others_cores{run="ab"}`:                                                     0.25,
		`eventmeter_upstream_figure{figure="retries",run="ab"}`:                                           6,
		`eventmeter_subscriptions_open{lane="a",mode="poll",run="ab",system="events"}`:                    0, // it is over
		`eventmeter_subscriptions_open{lane="b",mode="poll",run="ab",system="sep-2549"}`:                  3,
		`eventmeter_figure{figure="ttlMs",lane="b",mode="poll",run="ab",system="sep-2549"}`:               1500,
		`eventmeter_list_ttl_seconds{lane="b",mode="poll",run="ab",system="sep-2549"}`:                    1.5,
		`eventmeter_list_client_seconds_total{lane="b",mode="poll",run="ab",system="sep-2549"}`:           1800,
		`eventmeter_list_uses_total{lane="b",mode="poll",outcome="served",run="ab",system="sep-2549"}`:    4,
		`eventmeter_list_fetches_total{lane="b",mode="poll",reason="expired",run="ab",system="sep-2549"}`: 2,
		`eventmeter_deliveries_expected_total{lane="b",mode="poll",run="ab",system="sep-2549"}`:           21,
	}
	expect(t, r, want)
	absent(
		t,
		r,
		`eventmeter_phase_end_timestamp_seconds{lane="b"`,
		"eventmeter_run_partial",
		"eventmeter_threshold_passed",
		`eventmeter_list_uses_total{lane="a"`,
		`eventmeter_process_resident_memory_max_bytes{process="generator"`,
		"eventmeter_process_cpu_seconds_total",
		"eventmeter_shard",
	)

	// A counter does not fall, whatever is owed no more.
	second.Detail.Lanes[0].Expected = 19
	expect(t, r, map[string]float64{`eventmeter_deliveries_expected_total{lane="b",mode="poll",run="ab",system="sep-2549"}`: 21})

	p.Settle(nil)
	f.Finish(&results.Result{
		Finished:  time.Unix(80, 0),
		Partial:   true,
		Generator: results.Generator{Bottleneck: true, Others: 0.5},
		Warnings:  []results.Warning{{Code: "churn"}, {Code: "churn"}},
		Thresholds: []results.Verdict{
			{Threshold: "*.late == 0", Lane: "a", Passed: true},
			{Threshold: "*.late == 0", Lane: "b"},
			{Threshold: "*.late == 0", Lane: "b"},
			{Threshold: "*.late == 0", Lane: "c", NotEvaluated: "nothing was owed"},
		},
	}, Figures{Values: map[string]float64{"retries": 8}})
	expect(t, r, map[string]float64{
		`eventmeter_phase{phase="done",run="ab"}`:                                   1,
		`eventmeter_events_resolved_total{outcome="uncertain",run="ab"}`:            4,
		`eventmeter_events_pending{run="ab"}`:                                       0,
		`eventmeter_run_end_timestamp_seconds{run="ab"}`:                            80,
		`eventmeter_run_partial{run="ab"}`:                                          1,
		`eventmeter_run_bottleneck{run="ab"}`:                                       1,
		`eventmeter_run_warnings{code="churn",run="ab"}`:                            2,
		`eventmeter_threshold_passed{lane="a",run="ab",threshold="*.late == 0"}`:    1,
		`eventmeter_threshold_passed{lane="b",run="ab",threshold="*.late == 0"}`:    0,
		`eventmeter_threshold_passed{lane="c",run="ab",threshold="*.late == 0"}`:    0,
		`eventmeter_threshold_evaluated{lane="b",run="ab",threshold="*.late == 0"}`: 1,
		`eventmeter_threshold_evaluated{lane="c",run="ab",threshold="*.late == 0"}`: 0,
		`eventmeter_generator_others_cores{run="ab"}`:                               0.5,
		`eventmeter_upstream_figure{figure="retries",run="ab"}`:                     8,
	})
}

// absent looks for series that should not be there.
func absent(t *testing.T, r prometheus.Gatherer, beginnings ...string) {
	t.Helper()
	for series := range gathered(t, r) {
		for _, b := range beginnings {
			if strings.HasPrefix(series, b) {
				t.Errorf("there is %s", series)
			}
		}
	}
}

// TestMetricsOfConformance: the rows are those of all passes and shards so far, and at the
// end those of the result.
func TestMetricsOfConformance(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Begin(Run{ID: "ab"})
	absent(t, r, "eventmeter_conformance")
	first, shard, second := lookAt("a", "events", 10), lookAt("a", "events", 10), lookAt("b", "events", 20)
	first.Own = []Figures{
		{
			Conform: conform.Account{
				"occurrence-event-id":               {Seen: 10, Broken: 2},
				"occurrence-event-id-from-upstream": {Seen: 10},
				"delivery-410-non-retryable":        {Seen: 1},
			},
		},
	}
	shard.Own = []Figures{{Conform: conform.Account{"occurrence-event-id": {Seen: 10, Broken: 3}}}}
	first.Add(&shard, systems.FigureTables)
	f.Pass(nil).Settle(&first)
	second.Own = []Figures{
		{
			Conform: conform.Account{
				"occurrence-event-id":               {Seen: 20},
				"occurrence-event-id-from-upstream": {Seen: 10},
				"stream-heartbeat-required":         {Seen: 4, Broken: 4},
			},
		},
	}
	second.Detail.Lanes[0].Duplicates.SameEmission = 7
	p := f.Pass(func() Look { return second })
	for range 2 { // what is looked at twice counts once
		expect(t, r, map[string]float64{
			`eventmeter_conformance_broken_rows{level="must",run="ab"}`:                                            1,
			`eventmeter_conformance_broken_rows{level="should",run="ab"}`:                                          1,
			`eventmeter_conformance_broken_rows{level="shape",run="ab"}`:                                           1,
			`eventmeter_conformance_broken_total{level="shape",row="occurrence-event-id",run="ab"}`:                5,
			`eventmeter_conformance_broken_total{level="should",row="occurrence-event-id-from-upstream",run="ab"}`: 7,
			`eventmeter_conformance_broken_total{level="must",row="stream-heartbeat-required",run="ab"}`:           4,
			`eventmeter_conformance_broken_total{level="must",row="delivery-410-non-retryable",run="ab"}`:          0,
		})
		absent(t, r, `eventmeter_conformance_broken_total{level="shape",row="list-implemented"`)
	}
	p.Settle(nil)
	f.Finish(&results.Result{Conformance: results.NewConformance(conform.Account{"occurrence-event-id": {Seen: 50, Broken: 9}})}, Figures{})
	expect(t, r, map[string]float64{
		`eventmeter_conformance_broken_rows{level="must",run="ab"}`:                             0,
		`eventmeter_conformance_broken_total{level="shape",row="occurrence-event-id",run="ab"}`: 9,
	})
}

func TestMetricsOfShards(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(Run{ID: "forgotten"})
	f := c.Begin(Run{ID: "ab-1", Fleet: "ab", Shard: "1"})
	l := lookAt("a", "events", 10)
	f.Pass(func() Look { return l })
	want := map[string]float64{
		`eventmeter_shard_up{run="ab",shard="1"}`:                       1,
		`eventmeter_shard_subscriptions_open{run="ab",shard="1"}`:       3,
		`eventmeter_shard_deliveries_total{run="ab",shard="1"}`:         10,
		`eventmeter_shard_deliveries_foreign_total{run="ab",shard="1"}`: 4,
		`eventmeter_shard_events_published_total{run="ab",shard="1"}`:   7,
	}
	expect(t, r, want)
	absent(t, r, `eventmeter_run_info{fleet=""`)
	f.Shards(func() []Shard { return []Shard{{Index: "0"}, ShardOf("1", true, []Look{l, l})} })
	want[`eventmeter_shard_up{run="ab",shard="0"}`] = 0
	want[`eventmeter_shard_deliveries_total{run="ab",shard="1"}`] = 20
	want[`eventmeter_shard_deliveries_foreign_total{run="ab",shard="1"}`] = 8
	want[`eventmeter_shard_events_published_total{run="ab",shard="1"}`] = 14
	want[`eventmeter_shard_subscriptions_open{run="ab",shard="1"}`] = 6
	expect(t, r, want)
}

func TestMetricsOfASearch(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Search("now-find", "mine", "find", "rate")
	s.Step(results.CapacityStep{
		Number:   1,
		Purpose:  "bracket",
		Verdict:  "failed",
		Load:     40,
		Offered:  200,
		Achieved: 150,
		Expected: 100,
		Lost:     3,
		Backlog:  results.CapacityBacklog{Growth: 7},
		Lanes: []results.CapacityStepLane{
			{Name: "a", Mode: "push", FromIntended: results.Quantiles{Count: 97, P99: results.Nanos(250 * time.Millisecond)}},
			{Name: "idle", Mode: "push"},
		},
		Target: &results.Process{CPUShare: 0.75},
	})
	want := map[string]float64{
		`eventmeter_capacity_info{axis="rate",name="mine",profile="find",search="now-find"}`:                     1,
		`eventmeter_capacity_step_info{purpose="bracket",search="now-find",step="1",verdict="failed"}`:           1,
		`eventmeter_capacity_step_load{search="now-find",step="1"}`:                                              40,
		`eventmeter_capacity_step_offered_rate{search="now-find",step="1"}`:                                      200,
		`eventmeter_capacity_step_achieved_rate{search="now-find",step="1"}`:                                     150,
		`eventmeter_capacity_step_lost{search="now-find",step="1"}`:                                              3,
		`eventmeter_capacity_step_expected{search="now-find",step="1"}`:                                          100,
		`eventmeter_capacity_step_backlog_growth_rate{search="now-find",step="1"}`:                               7,
		`eventmeter_capacity_step_latency_seconds{figure="p99",lane="a",mode="push",search="now-find",step="1"}`: 0.25,
		`eventmeter_capacity_step_target_cpu_cores{search="now-find",step="1"}`:                                  0.75,
	}
	expect(t, r, want)
	absent(
		t,
		r,
		"eventmeter_capacity_maximum",
		"eventmeter_capacity_outcome",
		`eventmeter_capacity_step_latency_seconds{figure="p99",lane="idle"`,
	)
	s.Finish(&results.Capacity{Outcome: "found", Maximum: results.CapacityMaximum{Load: 20, Above: 40, From: 10, To: 50, Deliveries: 99}})
	expect(t, r, map[string]float64{
		`eventmeter_capacity_outcome{outcome="found",search="now-find"}`: 1,
		`eventmeter_capacity_maximum_load{search="now-find"}`:            20,
		`eventmeter_capacity_maximum_above_load{search="now-find"}`:      40,
		`eventmeter_capacity_maximum_from_load{search="now-find"}`:       10,
		`eventmeter_capacity_maximum_to_load{search="now-find"}`:         50,
		`eventmeter_capacity_maximum_deliveries_rate{search="now-find"}`: 99,
	})
}

// TestNobodyFollows runs through everything without a collector.
func TestNobodyFollows(*testing.T) {
	var c *Collector
	f := c.Begin(Run{})
	f.Shards(nil)
	f.Pass(nil).Settle(nil)
	f.Finish(nil, Figures{})
	s := c.Search("", "", "", "")
	s.Step(results.CapacityStep{})
	s.Finish(nil)
}

// TestLooks: they are at each pass of the newest run.
func TestLooks(t *testing.T) {
	var c Collector
	if got := c.Looks(); got != nil {
		t.Errorf("nothing runs, and it looks like %+v", got)
	}
	for runs := range 3 {
		f := c.Begin(Run{})
		for n := range runs {
			f.Pass(func() Look { return lookAt("a", "events", int64(10*runs+n)) })
		}
		looks := c.Looks()
		if len(looks) != runs {
			t.Fatalf("%d looks at %d passes", len(looks), runs)
		}
		for n, l := range looks {
			if got := l.Detail.Lanes[0].Delivered; got != int64(10*runs+n) {
				t.Errorf("run %d, pass %d: %d delivered", runs, n, got)
			}
		}
	}
}

func TestLooksAddUp(t *testing.T) {
	d := func(low, count int) ledger.Distribution {
		return ledger.Distribution{
			Buckets: []ledger.Bucket{{Low: time.Duration(low), High: time.Duration(low + 1), Count: int64(count)}},
			Count:   int64(count),
		}
	}
	a, b := lookAt("a", "events", 10), lookAt("a", "events", 5)
	a.Phases = []Phase{{Name: "attach"}, {Name: "measure"}}
	b.Phases = []Phase{{Name: "attach"}}
	b.Burst, b.Bursts = time.Unix(5, 0), 2
	a.Own = []Figures{{Values: map[string]float64{"uses": 2, "ttlMs": 5}, Timings: map[string]ledger.Distribution{"fetch": d(10, 1)}}}
	b.Own = []Figures{
		{Values: map[string]float64{"uses": 3, "ttlMs": 4, "fetches": 1}, Timings: map[string]ledger.Distribution{"fetch": d(20, 2)}},
	}
	a.Health = Health{
		Goroutines: 1,
		Used:       map[string]float64{Generator: 1, Target: 3},
		Most:       map[string]int64{Generator: 10, Target: 30},
		Others:     0.5,
		ReadDelay:  d(10, 1),
		TimerLag:   d(10, 2),
		GCPauses:   d(10, 3),
		Generator:  Usage{CPU: 1, Memory: 100, OK: true},
	}
	b.Health = Health{
		Goroutines: 2,
		Used:       map[string]float64{Generator: 2, Target: 2},
		Most:       map[string]int64{Generator: 20, Target: 40},
		Others:     0.25,
		ReadDelay:  d(10, 4),
		TimerLag:   d(10, 5),
		GCPauses:   d(10, 6),
		Generator:  Usage{CPU: 2, Memory: 200, OK: true},
		Target:     Usage{CPU: 9, OK: true},
		Measured:   true,
	}
	a.Upstream.Values, b.Upstream.Values = map[string]float64{"retries": 1}, map[string]float64{"retries": 2}
	before := mustJSON(t, a)
	sum := a.Clone()
	sum.Add(&b, systems.FigureTables)
	if after := mustJSON(t, a); after != before {
		t.Errorf("adding to a clone changed\n%s to\n%s", before, after)
	}
	if n := sum.Detail.Lanes[0].Delivered; n != 15 {
		t.Errorf("%d delivered", n)
	}
	if n := sum.Detail.Lanes[0].Expected; n != 17 {
		t.Errorf("%d expected", n)
	}
	if len(sum.Phases) != 1 || sum.Bursts != 2 || sum.Burst != b.Burst {
		t.Errorf("phases %v, %d bursts, the last at %v", sum.Phases, sum.Bursts, sum.Burst)
	}
	if want := map[string]float64{"uses": 5, "ttlMs": 5, "fetches": 1}; !reflect.DeepEqual(sum.Own[0].Values, want) {
		t.Errorf("figures are %v, want %v", sum.Own[0].Values, want)
	}
	if got := sum.Upstream.Values["retries"]; got != 3 {
		t.Errorf("the upstream retried %v times", got)
	}
	if got := sum.Own[0].Timings["fetch"]; got.Count != 3 || len(got.Buckets) != 2 {
		t.Errorf("fetches took %+v", got)
	}
	h := sum.Health
	if h.Goroutines != 3 || h.Used[Generator] != 3 || h.Used[Target] != 3 || h.Generator.CPU != 3 || h.Target.CPU != 9 || !h.Measured {
		t.Errorf("health is %+v", h)
	}
	if h.Most[Generator] != 30 || h.Most[Target] != 40 || h.Others != 0.5 || h.Generator.Memory != 300 || !h.Generator.OK ||
		h.TimerLag.Count != 7 || h.GCPauses.Count != 9 {
		t.Errorf("health is %+v", h)
	}
	if got := h.ReadDelay; got.Count != 5 || len(got.Buckets) != 1 || got.Buckets[0].Count != 5 {
		t.Errorf("read delays are %+v", got)
	}
	// Looks pass between processes.
	var back Look
	if err := json.Unmarshal([]byte(mustJSON(t, sum)), &back); err != nil {
		t.Fatal(err)
	}
	if mustJSON(t, back) != mustJSON(t, sum) || math.Abs(float64(back.Detail.Lanes[0].Delivered)-15) > 0 {
		t.Errorf("%s came back as %s", mustJSON(t, sum), mustJSON(t, back))
	}
}

func mustJSON(t *testing.T, l Look) string {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAFrozenPass is not looked at, and shows what was seen last until it is
// settled.
func TestAFrozenPass(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Begin(Run{ID: "ab"})
	l := lookAt("a", "events", 10)
	p := f.Pass(func() Look { return l })
	const series = `eventmeter_deliveries_total{lane="a",mode="poll",run="ab",system="events"}`
	expect(t, r, map[string]float64{series: 10})
	p.Freeze()
	l = lookAt("a", "events", 12)
	expect(t, r, map[string]float64{series: 10})
	last := lookAt("a", "events", 11)
	p.Settle(&last)
	expect(t, r, map[string]float64{series: 11})
}
