package metrics

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// history has one subscription that is owed three events: the first comes
// twice, 4 ms after it was intended, the second never, the third after 20 ms.
func history(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(
		ledger.Options{
			Run:     7,
			Sources: 1,
			Lanes:   []ledger.LaneSpec{{Name: "a", System: "events", Mode: eventmeter.Push, Subscriptions: 1}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	ms := func(n int) eventmeter.Instant { return eventmeter.Instant(n) * eventmeter.Instant(time.Millisecond) }
	l.Changed(eventmeter.Transition{To: eventmeter.Attaching, At: ms(1)})
	l.Changed(eventmeter.Transition{To: eventmeter.Active, At: ms(3)})
	for i, at := range []int{10, 20, 30} {
		s := eventmeter.Stamp{Run: 7, Seq: uint32(i + 1)}
		l.Fired(eventmeter.Emission{Stamp: s, Intended: ms(at), Fired: ms(at + 1), Measured: true})
		l.Resolved(s, eventmeter.Accepted, ms(at+2))
	}
	got := func(seq uint32, at int) {
		l.Delivered(
			eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: 7, Seq: seq}, Probed: true, EventID: uint64(seq), At: ms(at), Bytes: 100},
		)
	}
	got(1, 14)
	got(1, 15)
	got(3, 50)
	l.Called(eventmeter.Call{Cause: eventmeter.Refresh, Requests: 1, Up: 300, Down: 200, Connections: 1})
	return l
}

func follow(t *testing.T, l *ledger.Ledger) (*prometheus.Registry, *Following, *Pass) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	c, err := New(r, Options{Figures: systems.FigureTables})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Begin(Run{ID: "00000007", Profile: "test", Version: "v1", Upstream: "inject", Schedule: "constant", Fleet: "00000007"})
	return r, f, f.Pass(func() Look {
		return Look{
			Detail: l.Detail(),
			Phases: []Phase{{Name: "attach", Start: time.Unix(90, 0), End: time.Unix(100, 0)}, {Name: "measure", Start: time.Unix(100, 0)}},
			Health: Health{Target: Usage{CPU: 1.5, Memory: 4096, OK: true}, Measured: true, Used: map[string]float64{Target: 0.5}},
		}
	})
}

const ofLane = `{lane="a",mode="push",run="00000007",system="events"`

func TestMetricsOfAKnownHistory(t *testing.T) {
	l := history(t)
	r, f, p := follow(t, l)
	values := map[string]float64{
		"eventmeter_deliveries_expected_total" + ofLane + "}":                   3,
		"eventmeter_deliveries_total" + ofLane + "}":                            2,
		"eventmeter_deliveries_outstanding" + ofLane + "}":                      1,
		"eventmeter_deliveries_missing" + ofLane + "}":                          1,
		"eventmeter_deliveries_lost_total" + ofLane + `,kind="silent"}`:         0,
		"eventmeter_duplicates_total" + ofLane + `,kind="same_event"}`:          1,
		"eventmeter_event_message_bytes_total" + ofLane + "}":                   300,
		"eventmeter_requests_total" + ofLane + `,cause="refresh"}`:              1,
		"eventmeter_received_bytes_total" + ofLane + `,cause="events"}`:         300,
		"eventmeter_received_bytes_total" + ofLane + `,cause="refresh"}`:        200,
		"eventmeter_subscriptions_open" + ofLane + "}":                          1,
		`eventmeter_events_published_total{run="00000007"}`:                     3,
		`eventmeter_phase{phase="measure",run="00000007"}`:                      1,
		`eventmeter_process_cpu_seconds_total{process="target",run="00000007"}`: 1.5,
	}
	expect(t, r, values)
	expect(t, r, map[string]float64{
		`eventmeter_phase_start_timestamp_seconds{lane="",phase="attach",run="00000007"}`: 90,
		`eventmeter_phase_end_timestamp_seconds{lane="",phase="attach",run="00000007"}`:   100,
		`eventmeter_phase{phase="attach",run="00000007"}`:                                 0,
	})
	absent(t, r, "eventmeter_burst", "eventmeter_shard", "eventmeter_turn_cpu", `eventmeter_process_cpu_seconds_total{process="generator"`)

	l.Changed(eventmeter.Transition{To: eventmeter.Detaching, At: eventmeter.Instant(time.Second)})
	l.Changed(eventmeter.Transition{To: eventmeter.Detached, At: eventmeter.Instant(time.Second)})
	a := l.Account()
	p.Settle(&Look{Detail: a.Live(), Own: []Figures{{Values: map[string]float64{"uses": 12}}}})
	f.Finish(nil, Figures{})
	values["eventmeter_deliveries_outstanding"+ofLane+"}"] = 0
	values["eventmeter_deliveries_lost_total"+ofLane+`,kind="silent"}`] = 1
	values["eventmeter_gaps_total"+ofLane+"}"] = 1
	values["eventmeter_subscriptions_open"+ofLane+"}"] = 0
	values["eventmeter_figure"+ofLane+`,figure="uses"}`] = 12
	values[`eventmeter_phase{phase="measure",run="00000007"}`] = 0
	values[`eventmeter_phase{phase="done",run="00000007"}`] = 1
	expect(t, r, values)
}

func expect(t *testing.T, r prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	got := gathered(t, r)
	for series, v := range want {
		g, ok := got[sorted(series)]
		if !ok || math.Abs(g-v) > 1e-9 {
			t.Errorf("%s is %v (there: %v), want %v", series, g, ok, v)
		}
	}
}

// sorted puts the labels of a series in order.
func sorted(series string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	return name + "{" + join(strings.Split(labels, ",")) + "}"
}

func gathered(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if m.Histogram != nil {
				v = math.NaN()
			}
			out[f.GetName()+"{"+join(labels)+"}"] = v
		}
	}
	return out
}

// TestNamesFollowTheGuide lints all metrics there are, also those that only few
// runs have.
func TestNamesFollowTheGuide(t *testing.T) {
	seen := map[string]bool{}
	var families []*dto.MetricFamily
	for _, a := range all.described() {
		if seen[a.name] {
			t.Errorf("%s is there twice", a.name)
		}
		seen[a.name] = true
		m := &dto.Metric{}
		for _, l := range a.labels {
			m.Label = append(m.Label, &dto.LabelPair{Name: &l, Value: new(string)})
		}
		kind := map[string]dto.MetricType{
			"counter": dto.MetricType_COUNTER, "gauge": dto.MetricType_GAUGE,
			"histogram": dto.MetricType_HISTOGRAM,
		}[a.kindName]
		switch kind {
		case dto.MetricType_COUNTER:
			m.Counter = &dto.Counter{}
		case dto.MetricType_GAUGE:
			m.Gauge = &dto.Gauge{}
		default:
			m.Histogram = &dto.Histogram{}
		}
		families = append(families, &dto.MetricFamily{Name: &a.name, Help: &a.help, Type: &kind, Metric: []*dto.Metric{m}})
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestHistogramsAreTwofold(t *testing.T) {
	r, _, _ := follow(t, history(t))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var h *dto.Histogram
	for _, f := range families {
		if f.GetName() == "eventmeter_latency_from_intended_seconds" {
			h = f.GetMetric()[0].GetHistogram()
		}
	}
	if h.GetSampleCount() != 2 || math.Abs(h.GetSampleSum()-0.024) > 0.0001 {
		t.Errorf("count %d, sum %v; want 2 and 24 ms", h.GetSampleCount(), h.GetSampleSum())
	}
	for _, b := range h.GetBucket() {
		want := uint64(0)
		if b.GetUpperBound() >= 0.005 {
			want++
		}
		if b.GetUpperBound() >= 0.025 {
			want++
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d up to %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	// Index i holds what is in (2^((i-1)/16), 2^(i/16)].
	index, n, total := int32(0), 0, int64(0)
	for _, s := range h.GetPositiveSpan() {
		index += s.GetOffset()
		for range s.GetLength() {
			total += h.GetPositiveDelta()[n]
			n++
			low, high := math.Exp2(float64(index-1)/16), math.Exp2(float64(index)/16)
			holds := (low < 0.004 && 0.004 <= high) || (low < 0.02 && 0.02 <= high)
			if (total == 1) != holds {
				t.Errorf("bucket %d from %v to %v s holds %d", index, low, high, total)
			}
			index++
		}
	}
	if h.GetSchema() != nativeSchema || n < 2 {
		t.Errorf("schema %d, %d native buckets", h.GetSchema(), n)
	}
}

// TestHistogramsAddUp: each sample counts in its classic bucket, and in the sum and the count, also those in the last bucket
// and above all bounds.
func TestHistogramsAddUp(t *testing.T) {
	bucket := func(seconds, n int64) ledger.Bucket {
		at := time.Duration(seconds)*time.Second - 1 // the middle is the whole second
		return ledger.Bucket{Low: at, High: at, Count: n}
	}
	var m dto.Metric
	if err := histogram(prometheus.NewDesc("x", "", nil, nil), []ledger.Distribution{
		{Buckets: []ledger.Bucket{bucket(1, 3), bucket(100, 2)}}, {Buckets: []ledger.Bucket{bucket(300, 5), bucket(400, 7)}},
	}).Write(&m); err != nil {
		t.Fatal(err)
	}
	h := m.Histogram
	if want := 3. + 2*100 + 5*300 + 7*400; h.GetSampleCount() != 17 || h.GetSampleSum() != want {
		t.Errorf("count %d, sum %v; want 17 and %v", h.GetSampleCount(), h.GetSampleSum(), want)
	}
	var bounds []float64
	for _, b := range h.GetBucket() {
		bounds = append(bounds, b.GetUpperBound())
		want := uint64(0)
		switch bound := b.GetUpperBound(); {
		case bound >= 300:
			want = 10
		case bound >= 1:
			want = 3
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("%d up to %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
		}
	}
	if got := fmt.Sprint(bounds); got != "[0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 300]" {
		t.Errorf("buckets up to %s, which queries name", got)
	}
}

func join(labels []string) string {
	for i := range labels {
		for j := i; j > 0 && labels[j] < labels[j-1]; j-- {
			labels[j], labels[j-1] = labels[j-1], labels[j]
		}
	}
	return strings.Join(labels, ",")
}
