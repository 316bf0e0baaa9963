package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

// TestPublishedOfAllTurns: the published events are those of the run, not of the first lane.
func TestPublishedOfAllTurns(t *testing.T) {
	turns := map[string]results.Timeline{
		"push": {
			Interval: time.Second,
			Points: []results.Point{
				{At: time.Second, WarmUp: 2},
				{At: 2 * time.Second, Published: 5},
				{At: 3 * time.Second, Delivered: 9},
			},
		},
		"poll": {Interval: time.Second, Points: []results.Point{{At: 6 * time.Second, Published: 7, Dropped: 1}}},
	}
	if got, want := newPublished(
		turns,
		0,
	), (publishedData{Width: 1, Time: []float64{1, 2, 3, 4, 5, 6, 7}, Published: []float64{2, 5, 0, 0, 0, 7, 0}}); !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("in turns %+v, want %+v", got, want)
	}
	p := results.Timeline{Interval: time.Second, Points: []results.Point{{At: time.Second, Published: 5}}}
	if got := newPublished(map[string]results.Timeline{"a": p, "b": p}, 0); got.Published[0] != 5 {
		t.Errorf("lanes that run together receive the same events, not twice as many: %+v", got)
	}
	if got := newPublished(turns, 500*time.Millisecond); got.Time[0] != 0.5 {
		t.Errorf("of a clock that is shown from half a second on: %v", got.Time)
	}
	if got := newPublished(nil, 0); got.Time == nil || len(got.Time) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestThresholdRows(t *testing.T) {
	got := thresholdRows([]results.Verdict{
		{
			Threshold: "*.late == 0",
			Lane:      "a",
			Passed:    true,
			Text:      "0",
		},
		{Threshold: "*.late == 0", Lane: "b", Text: "3"},
		{Threshold: "*.late == 0", Lane: "c", Passed: true, Text: "0"},
		{
			Threshold:    "*.late == 0",
			Lane:         "d",
			NotEvaluated: "nothing",
			Text:         "nothing",
		},
		{Threshold: "*.late == 0", Lane: "e", NotEvaluated: "nothing", Text: "nothing"},
		{Threshold: "*.p99 < 1s", Lane: "a", Passed: true, Text: "1ms"},
		{Threshold: "*.p99 < 1s", Lane: "b", Passed: true, Text: "2ms"},
	})
	want := []thresholdRow{
		{"*.late == 0", "a, c", "0", wordHeld},
		{"*.late == 0", "b", "3", wordFailed},
		{"*.late == 0", "d, e", "nothing", wordNotEvaluated},
		{"*.p99 < 1s", "a, b", "1ms, 2ms", wordHeld},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFindings: an event that many subscriptions lost is one line, with its probe id where known.
func TestFindings(t *testing.T) {
	r := &results.Result{
		Run:    "fffffffe",
		Phases: []results.Phase{{Name: "attach", Lane: "a"}},
		Lanes:  []results.Lane{{Name: "a"}, {Name: "b"}},
	}
	for i := range 9 {
		r.Lanes[1].Examples = append(
			r.Lanes[1].Examples,
			results.Example{Kind: "lost: 2 lost", Subscription: 10 * i, Source: 3, FromSeq: 7, ToSeq: 8, At: results.Nanos(i+1) * 1e9},
		)
	}
	r.Lanes[1].Examples = append(
		r.Lanes[1].Examples,
		results.Example{Kind: "unexpected: foreign run", Source: 3, FromSeq: 7, ToSeq: 7, EventID: "ab", Bytes: 2048},
	)
	columns := []column{{Lane: "a"}, {Lane: "b", place: 1}}
	lanes := []laneOf{{&r.Upstream, &r.Lanes[0]}, {&r.Upstream, &r.Lanes[1]}}
	r.Lanes[1].LostSilent = 18
	got := anomaliesOf(columns, lanes, []Page{{Result: r}})
	if len(got) != 2 || len(got[0].Examples) != 1 || len(got[1].Examples) != 1 {
		t.Fatalf("%d anomalies: %+v", len(got), got)
	}
	if got[0].Kind != "lost" || got[0].Total != "18" || got[0].Column.Lane != "b" || got[1].Kind != "unexpected: foreign run" ||
		got[1].Total != "" {
		t.Errorf("%+v", got)
	}
	f := got[0].Examples[0]
	probe := eventmeter.Stamp{Run: 0xffffffff, Source: 3, Seq: 7}.String() // the second turn's
	if f.Subs != "0, 10, 20, 30, 40, 50 and 3 more" || f.Range != "7 to 8" || f.At != "1.00s" || f.Probe != probe || f.Bytes != "" {
		t.Errorf("%+v, want the probe id %s", f, probe)
	}
	if e := got[1].Examples[0]; e.Probe != "" || e.EventID != "ab" || e.Bytes != "2 KiB" {
		t.Errorf("an event of another run: %+v", e)
	}
	r.Shards = []results.Shard{{}}
	if got := anomaliesOf(columns, lanes, []Page{{Result: r}}); got[0].Examples[0].Probe != "" {
		t.Errorf("a shard's run number is not known: %+v", got[0])
	}
}

// TestThePageHasWhatTheTextHas: parts that only some runs have.
func TestThePageHasWhatTheTextHas(t *testing.T) {
	p := samplePage()
	r := p.Result
	r.Target = results.Target{Embedded: true, Stdio: &results.Stdio{}}
	r.Upstream.Kind, r.Upstream.Figures = "feed", map[string]float64{"feedEmpty": 2}
	r.Upstream.Timings = map[string]results.Quantiles{"feedLag": {Count: 3, P50: 1e6, P99: 2e6, Max: 3e6}}
	r.Generator.Arrivals = results.Arrivals{
		Counted: 2000,
		Kernel:  1990,
		Shared:  5,
		Error:   results.Quantiles{Count: 1, P99: 3e3},
		Waited:  results.Quantiles{Count: 1, P99: 5e6},
	}
	r.Shards = []results.Shard{
		{
			Index:         0,
			Count:         3,
			Machine:       "m1" + hostile,
			Subscriptions: 450,
			Delivered:     4500,
			Foreign:       7,
			Skew:          12e6,
			Generator:     results.Generator{ReadDelay: results.Quantiles{Count: 1, P99: 1e6}, Process: results.Process{CPUShare: 0.254}},
		},
		{Index: 1, Count: 3, Partial: true, Reason: "stopped"},
		{Index: 2, Count: 3, Missing: true},
	}
	r.Lanes[0].Latency.BelowResolution = []string{"fromSent.p50"}
	got := page1(t, p)
	for _, want := range []string{
		"the embedded target over stdio,", "</svg>push</th>",
		"upstream (feed)", `<dt>feedEmpty</dt><dd>2</dd>`, "p50 1.00ms, p99 2.00ms, max 3.00ms of 3",
		"1 990 of 2 000 by the kernel (5 shared a read); at p99, error of these times 3.00µs, excluded wait until read 5.00ms",
		`<td class="n">450</td><td class="n">4 500</td><td class="n">7</td><td class="n">&#43;12.0ms</td><td ` +
			`class="n">1.00ms</td><td class="n">0.25</td>`,
		"Partial: stopped", "Missing: its result was not there to merge.", "below this run&#39;s resolution limit",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got, "<x>") {
		t.Error("a machine's name is more than text")
	}
	r.Generator.Arrivals.Kernel = 0
	if got := page1(t, p); !strings.Contains(got, "by this program, after reading") {
		t.Error("the page does not say how deliveries were timed")
	}
}

// TestOverlayOfThree: each lane is shown side by side for all runs.
func TestOverlayOfThree(t *testing.T) {
	var runs []Page
	for _, name := range []string{"A", "B", "C"} {
		p := samplePage()
		p.Name = name
		p.Result.Phases = []results.Phase{{Name: "attach", End: 750e6}, {Name: "warm-up", Start: 750e6, End: 2e9}}
		p.Result.Lanes = append(p.Result.Lanes, results.Lane{Name: "poll", Mode: "poll"})
		runs = append(runs, p)
	}
	v := newView(runs)
	var got []string
	for _, c := range v.Columns {
		got = append(got, c.Label())
	}
	if want := "A · push, B · push, C · push, A · poll, B · poll, C · poll"; strings.Join(got, ", ") != want {
		t.Errorf("columns %s, want %s", strings.Join(got, ", "), want)
	}
	// The runs are aligned at the start of publishing.
	if d := v.Data.Runs[1]; d.Lanes[0].Time[0] != 0.25 || d.Published.Time[0] != 0.25 || d.Phases[1].Start != 0 ||
		v.Times[1].Rows[0][0] != "0.25s" {
		t.Errorf("times %v, %v, %v, %v", d.Lanes[0].Time, d.Published.Time, d.Phases, v.Times[1].Rows[0])
	}
	// Lanes without a log and a timeline have empty lists.
	if data, err := json.Marshal(v.Data); err != nil || strings.Contains(string(data), "\":null") {
		t.Errorf("%v: the script is given null: %s", err, data)
	}
	if v.Title != "eventmeter: A, B and C" {
		t.Errorf("title %q", v.Title)
	}
	if len(v.Runs) != 3 || len(v.Data.Runs) != 3 || v.Columns[2].Hue != 0 || v.Columns[5].Hue != 1 || len(v.Anomalies) != 3 {
		t.Errorf("%d runs, %d drawn, %d findings, %+v", len(v.Runs), len(v.Data.Runs), len(v.Anomalies), v.Columns)
	}
}
