package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// laneAccount simulates a lane: events in 60 intervals, each delivered to fanOut subscribers at
// once, log-normal around 50 ms, times a factor for each interval.
func laneAccount(events, fanOut int, factor func(i int) float64) ledger.LaneAccount {
	rng := rand.New(rand.NewPCG(5, 6))
	n := int64(events * fanOut)
	a := ledger.LaneAccount{
		Name:       "push",
		System:     "events",
		Mode:       "push",
		LaneCounts: ledger.LaneCounts{SubCounts: ledger.SubCounts{Expected: n, Delivered: n}},
	}
	whole := hdrhistogram.New(lowestNanos, highestNanos, significantDigits)
	const intervals = 60
	for i := range intervals {
		h := hdrhistogram.NewPacked(lowestNanos, highestNanos, significantDigits)
		for range events*(i+1)/intervals - events*i/intervals {
			v := int64(50e6 * factor(i) * math.Exp(0.3*rng.NormFloat64()))
			_ = h.RecordValues(v, int64(fanOut))
			_ = whole.RecordValues(v, int64(fanOut))
		}
		in := ledger.LaneInterval{Number: int64(i), Delivered: h.TotalCount(), FromIntended: h, FromSent: h.Clone()}
		a.Series = append(a.Series, in)
	}
	a.Latency = ledger.Latency{FromIntended: ledger.Timing{Histogram: whole}, FromSent: ledger.Timing{Histogram: whole}}
	return a
}

func steady(int) float64 { return 1 }

// doubtful is the lane with its doubts.
func doubtful(a ledger.LaneAccount, lag Quantiles) *Lane {
	l := NewLane(&a)
	l.Ready.Active, l.Subscriptions = 1, 1
	l.Latency.MarkDoubts(1e6, &lag)
	return &l
}

func TestIntervals(t *testing.T) {
	// Around the median of 50 ms: 1.96 standard errors of 0.3*sqrt(pi/2/6000).
	l := doubtful(laneAccount(6000, 1, steady), Quantiles{})
	if in := l.Latency.Intervals["fromIntended.p50"]; in.Low < 48.5e6 || in.Low > 50e6 || in.High < 50e6 || in.High > 51.1e6 ||
		in.Draws < 2000 ||
		in.Doubt != "" {
		t.Errorf("p50 is %d: %+v", l.Latency.FromIntended.P50, in)
	}
	if len(l.Latency.Intervals) != 10 {
		t.Errorf("%d intervals", len(l.Latency.Intervals))
	}
	// The same events to 50 subscribers each say no more.
	one, many := l.Latency.Intervals, doubtful(laneAccount(6000, 50, steady), Quantiles{}).Latency.Intervals
	for name, a := range one {
		if b := many[name]; math.Abs(float64(a.Low-b.Low)) > 0.006*float64(a.Low) ||
			math.Abs(float64(a.High-b.High)) > 0.006*float64(a.High) ||
			a.Doubt != b.Doubt {
			t.Errorf("%s: %+v of single events, %+v of fan-outs", name, a, b)
		}
	}
	if l := doubtful(ledger.LaneAccount{Name: "idle"}, Quantiles{}); l.Latency.Intervals == nil || len(l.Latency.Intervals) != 0 {
		t.Errorf("a lane without deliveries: %v", l.Latency.Intervals)
	}
}

// TestBoundsOfAnInterval: between the bounds of the median lie 1.96 standard deviations of the binomial distribution on each side.
func TestBoundsOfAnInterval(t *testing.T) {
	a := laneAccount(6000, 1, steady)
	in := doubtful(a, Quantiles{}).Latency.Intervals["fromSent.p50"]
	half := 1.96 * 0.5 / math.Sqrt(float64(in.Draws))
	for bound, want := range map[Nanos]float64{in.Low: 0.5 - half, in.High: 0.5 + half} {
		below := 0.0
		for _, b := range a.Latency.FromSent.Histogram.Distribution() {
			if b.To <= int64(bound) {
				below += float64(b.Count) / 6000
			}
		}
		if math.Abs(below-want) > 0.0025 {
			t.Errorf("%v of the samples are up to %v, want %v", below, bound, want)
		}
	}
}

// TestWhy: a doubt is explained, with all numbers in their places.
func TestWhy(t *testing.T) {
	for _, c := range []struct {
		in   Interval
		want string
	}{
		{Interval{}, ""},
		{Interval{Doubt: FewEvents, Draws: 9999},
			"the sample cannot carry p99.9: its deliveries are worth 9999 independent ones of the 10000 needed"},
		{Interval{Doubt: FewEvents, Draws: 10000}, "deliveries came in too few intervals to say how exactly p99.9 is known"},
		{Interval{Doubt: Drift, First: 1e6, Last: 2e6}, "p99.9 drifted from 1.00ms in the first third of the run to 2.00ms in the last"},
	} {
		if got := c.in.Why("p999"); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestDoubts(t *testing.T) {
	rising := func(i int) float64 { return 1 + float64(i)/30 }
	for _, c := range []struct {
		name string
		lane *Lane
		want map[string]string // else none
	}{
		{"all is well", doubtful(laneAccount(30000, 1, steady), Quantiles{}), nil},
		{"600 events", doubtful(laneAccount(600, 1, steady), Quantiles{}),
			map[string]string{"fromIntended.p95": FewEvents, "fromSent.p95": FewEvents, "fromIntended.p99": FewEvents,
				"fromSent.p99": FewEvents, "fromIntended.p999": FewEvents, "fromSent.p999": FewEvents}},
		{"600 events to 50 subscribers", doubtful(laneAccount(600, 50, steady), Quantiles{}),
			map[string]string{"fromIntended.p95": FewEvents, "fromSent.p95": FewEvents, "fromIntended.p99": FewEvents,
				"fromSent.p99": FewEvents, "fromIntended.p999": FewEvents, "fromSent.p999": FewEvents}},
		{"rises to three times", doubtful(laneAccount(30000, 1, rising), Quantiles{}), map[string]string{
			"fromIntended.p50": Drift, "fromIntended.p90": Drift, "fromIntended.p95": Drift, "fromIntended.p99": Drift, "fromIntended.p999": Drift,
			"fromSent.p50": Drift, "fromSent.p90": Drift, "fromSent.p95": Drift, "fromSent.p99": Drift, "fromSent.p999": Drift}},
		{"published late", doubtful(laneAccount(30000, 1, steady),
			Quantiles{Count: 9, P50: 1e6, P90: 20e6, P99: 90e6, P999: 99e6}),
			map[string]string{"fromIntended.p99": OffSchedule, "fromIntended.p999": OffSchedule}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, in := range c.lane.Latency.Intervals {
				_, figure, _ := strings.Cut(name, ".")
				why := in.Why(figure)
				if in.Doubt != c.want[name] || (why == "") != (in.Doubt == "") {
					t.Errorf("%s: %q (%s) of %+v, want %q", name, in.Doubt, why, in, c.want[name])
				}
				th, err := ParseThreshold("push.latency." + name + " < 1h")
				if err != nil {
					t.Fatal(err)
				}
				r := &Result{Upstream: Upstream{Accepted: 9}, Lanes: []Lane{*c.lane}}
				if v := th.Check(r)[0]; v.NotEvaluated != why || v.Passed != (why == "") {
					t.Errorf("%s: %+v, want %q", name, v, why)
				}
				if th, err = ParseThreshold("push.latency.intervals." + name + ".high < 1h"); err != nil {
					t.Fatal(err)
				}
				if v := th.Check(r)[0]; v.NotEvaluated != why || v.Passed != (why == "") {
					t.Errorf("the upper end of %s: %+v, want %q", name, v, why)
				}
			}
		})
	}
}

// TestDriftByThirds: the ends of a drift are the quantiles of the first and of the last third.
func TestDriftByThirds(t *testing.T) {
	in := doubtful(laneAccount(30000, 1, func(i int) float64 { return 1 + float64(i)/30 }), Quantiles{}).Latency.Intervals["fromIntended.p50"]
	// The factors of the thirds are 1 to 1.63 and 2.33 to 2.97.
	if first, last := float64(in.First)/50e6, float64(in.Last)/50e6; math.Abs(first-1.31) > 0.03 || math.Abs(last-2.64) > 0.05 {
		t.Errorf("from %v to %v of the median, want 1.31 to 2.64", first, last)
	}
	falling := func(i int) float64 { return 1 + float64(59-i)/30 }
	in = doubtful(laneAccount(30000, 1, falling), Quantiles{}).Latency.Intervals["fromIntended.p50"]
	if first, last := float64(in.First)/50e6, float64(in.Last)/50e6; math.Abs(first-2.64) > 0.05 || math.Abs(last-1.31) > 0.03 {
		t.Errorf("from %v to %v of the median, want 2.64 to 1.31", first, last)
	}
}

// TestLeastDrift: ends that differ by a quarter are a drift, by less they are none.
func TestLeastDrift(t *testing.T) {
	for last, want := range map[int64][2]Nanos{250: {10000, 12500}, 249: {}} {
		var up, down [][]Bucket // in both, the middle of the thirds is the fifth block from the ends
		for i := range int64(30) {
			b := []Bucket{{Value: Nanos(10000 + (i-4)*last/2), Count: 1}}
			up, down = append(up, b), slices.Concat([][]Bucket{b}, down)
		}
		if first, end := drift(up, 0.5); [2]Nanos{first, end} != want {
			t.Errorf("from %d to %d, want %d", first, end, want)
		}
		if first, end := drift(down, 0.5); [2]Nanos{end, first} != want {
			t.Errorf("from %d to %d, want the reverse of %d", first, end, want)
		}
	}
}

func TestDoubtsAreWarnings(t *testing.T) {
	few := *doubtful(laneAccount(600, 1, steady), Quantiles{})
	drifting := *doubtful(laneAccount(30000, 1, func(i int) float64 { return 1 + float64(i)/30 }), Quantiles{})
	late := *doubtful(laneAccount(30000, 1, steady), Quantiles{Count: 9, P90: 20e6, P99: 90e6, P999: 99e6})
	few.Name, drifting.Name, late.Name = "few", "drifting", "late"
	got := Doubts([]Lane{few, drifting, late, few})
	for i, want := range []Warning{
		{Code: FewEvents, Text: "too few independent events for scheduled → received and published → received, " +
			"p99 of few, few (1000 needed): publish"},
		{Code: Drift, Lane: "drifting", Text: "p50 drifted from "},
		{Code: OffSchedule, Lane: "late", Text: "more than half of p99 went by before the events were published"},
	} {
		if len(got) != 3 || got[i].Code != want.Code || got[i].Lane != want.Lane || !strings.HasPrefix(got[i].Text, want.Text) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	}
	if !strings.HasSuffix(got[2].Text, "in doubt: scheduled → received, p99; scheduled → received, p99.9") {
		t.Errorf("%s", got[2].Text)
	}
	few.Latency.Intervals["fromSent.p50"] = Interval{Doubt: FewEvents}
	got = Doubts([]Lane{few})
	if !strings.Contains(got[0].Text, "p99 of few (1000 needed); published → received, p50 of few (20 needed); p99 of few") {
		t.Errorf("%s", got[0].Text)
	}
	if got := Doubts([]Lane{*doubtful(laneAccount(30000, 1, steady), Quantiles{})}); got != nil {
		t.Errorf("%+v", got)
	}
}

// A figure that has no interval is not taken for one of 0.
func TestThresholdOnAMissingInterval(t *testing.T) {
	l := doubtful(laneAccount(600, 1, steady), Quantiles{})
	th, err := ParseThreshold("push.latency.intervals.fromIntended.p94.high < 1h")
	if err != nil {
		t.Fatal(err)
	}
	if v := th.Check(&Result{Lanes: []Lane{*l}})[0]; v.NotEvaluated == "" {
		t.Errorf("%+v", v)
	}
}

// The archived histograms give the same intervals, and intervals that were changed are found.
func TestRebuildIntervals(t *testing.T) {
	a := laneAccount(6000, 3, func(i int) float64 { return 1 + float64(i)/30 })
	r := &Result{Schema: Schema, Run: "1", Started: time.Unix(1, 0), Lanes: []Lane{*doubtful(a, Quantiles{})}}
	r.Profile = json.RawMessage(`{}`)
	dir := t.TempDir()
	if err := Save(dir, r, []ledger.Account{{Interval: time.Second, Lanes: []ledger.LaneAccount{a}}}); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	rebuild := func(change func(l *Latency)) (*Result, error) {
		t.Helper()
		var changed Result
		if err := json.Unmarshal(saved, &changed); err != nil {
			t.Fatal(err)
		}
		change(&changed.Lanes[0].Latency)
		data, err := json.Marshal(&changed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, File), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return Rebuild(dir)
	}
	if _, err := Rebuild(dir); err != nil {
		t.Fatal(err)
	}
	log, err := LoadLog(dir, "push")
	if err != nil {
		t.Fatal(err)
	}
	if last := log.Intervals[len(log.Intervals)-1]; len(log.Intervals) != 120 || last.Start != 59*time.Second || last.Length != time.Second {
		t.Errorf("%d intervals, the last at %s for %s", len(log.Intervals), last.Start, last.Length)
	}
	name := filepath.Join(dir, "push.hlog")
	text, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(text), "#[eventmeter 1, lane push: latency in ns, ") ||
		!strings.Contains(string(text), "\n#[StartTime: 1 (seconds since epoch)") {
		t.Errorf("the log does not begin with what it is: %.80q, %v", text, err)
	}
	// An archive that was written before p95 existed gets it from its histograms.
	older, err := rebuild(func(l *Latency) {
		l.FromIntended.P95, l.FromSent.P95 = 0, 0
		delete(l.Intervals, "fromIntended.p95")
		delete(l.Intervals, "fromSent.p95")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := older.Lanes[0].Latency.FromIntended, r.Lanes[0].Latency.FromIntended; got != want || got.P95 <= got.P90 ||
		got.P95 >= got.P99 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if older, err = Load(dir); err != nil {
		t.Fatal(err)
	}
	if v, ok := older.Lanes[0].Figure("latency.fromIntended.p95"); ok {
		t.Errorf("p95 of a result without it is %v", v)
	}
	set := func(name string, change func(in *Interval)) func(*Latency) {
		return func(l *Latency) { in := l.Intervals[name]; change(&in); l.Intervals[name] = in }
	}
	p50 := r.Lanes[0].Latency.Intervals["fromIntended.p50"]
	for want, change := range map[string]func(*Latency){
		fmt.Sprintf("the interval of fromIntended.p50 is %d to %d ns from %d draws, and %s says %d to %d ns from %d",
			p50.Low, p50.High, p50.Draws, File, p50.Low/2, p50.High, p50.Draws): set("fromIntended.p50", func(in *Interval) { in.Low /= 2 }),
		"push.hlog: lane push: the interval of fromSent.p50 is": set("fromSent.p50", func(in *Interval) { in.Draws *= 2 }),
		"the interval of fromSent.p99 is":                       set("fromSent.p99", func(in *Interval) { in.Last += in.Last / 50 }),
		"the interval of fromIntended.p99 is":                   set("fromIntended.p99", func(in *Interval) { in.First -= in.First / 50 }),
		"the interval of fromIntended.p90 is":                   set("fromIntended.p90", func(in *Interval) { in.High += in.Low + 1e9 }),
		"the interval of fromSent.p90 is":                       func(l *Latency) { delete(l.Intervals, "fromSent.p90") },
		"which is not between":                                  set("fromIntended.p50", func(in *Interval) { in.Low *= 10 }),
		"is not between":                                        set("fromIntended.p50", func(in *Interval) { in.High = 1 }),
		"draws of 18000 deliveries":                             set("fromIntended.p50", func(in *Interval) { in.Draws = 1e6 }),
		"has the doubt":                                         set("fromIntended.p50", func(in *Interval) { in.Doubt = "mine" }),
		"names a figure that does not exist":                    set("fromIntended.p42", func(in *Interval) {}),
	} {
		if _, err := rebuild(change); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := rebuild(func(*Latency) {}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
		t.Errorf("without a log: %v", err)
	}
}
