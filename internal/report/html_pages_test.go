package report

import (
	"encoding/json"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

func TestScale(t *testing.T) {
	s := scale{1, 100}
	for v, want := range map[float64]float64{1: 0, 10: 50, 100: 100, 0: 0, 1000: 100} {
		if got := s.at(v); got != want {
			t.Errorf("at(%v) = %v, want %v", v, got, want)
		}
	}
	for _, tt := range []struct {
		s    scale
		most int
		want []float64
	}{
		{scale{1, 100}, 7, []float64{1, 2, 5, 10, 20, 50, 100}},
		{scale{1, 100}, 5, []float64{1, 3, 10, 30, 100}},
		{scale{1, 100}, 3, []float64{1, 10, 100}},
		{scale{1, 1e6}, 4, []float64{1, 100, 1e4, 1e6}},
	} {
		got := tt.s.rounds(tt.most)
		if len(got) != len(tt.want) {
			t.Errorf("%v: %v, want %v", tt.s, got, tt.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 1e-9*tt.want[i] {
				t.Errorf("%v: %v, want %v", tt.s, got, tt.want)
			}
		}
	}
	if one := logScale(5, 5); one.at(5) < 45 || one.at(5) > 55 {
		t.Errorf("a single value is at %v, want in the middle", one.at(5))
	}
	if spaced("5% and 1.5%, 95 %") != "5 % and 1.5 %, 95 %" {
		t.Errorf("got %q", spaced("5% and 1.5%, 95 %"))
	}
	if nanosText(5e6) != "5ms" || nanosText(2.5e9) != "2.5s" || nanosText(100e6) != "100ms" || nanosText(0) != "0" {
		t.Errorf("%s, %s, %s, %s", nanosText(5e6), nanosText(2.5e9), nanosText(100e6), nanosText(0))
	}
}

// TestTiles: a tile says what the table says, and names no winner where there is none.
func TestTiles(t *testing.T) {
	p := racePage(false, map[string][]time.Duration{"a": {10 * time.Millisecond}, "b": {11 * time.Millisecond}}, "a", "b")
	l := &p.Result.Lanes[0]
	l.Expected, l.Delivered, l.Duplicates.SameEvent = 200, 198, 3
	l.Latency.Intervals = map[string]results.Interval{"fromIntended.p99": {Low: 9e6, High: 12e6}}
	v := newView([]Page{p})
	got := v.Tiles[0]
	want := []tileRow{
		{"p50", l.Latency.FromIntended.P50.String(), ""},
		{"expected", "200", ""},
		{"delivered", "198", ""},
		{"lost", "2 (1 %)", "unclean"},
		{"duplicates", "3", "unclean"},
	}
	if !reflect.DeepEqual(got.Rows, want) || got.P99 != "10.0ms" || got.Interval != "95 % interval 9.00ms to 12.0ms" ||
		got.Standing != "not compared" ||
		v.Tiles[1].Standing != "not compared" {
		t.Errorf("%+v", v.Tiles)
	}
	l.Latency.Intervals["fromIntended.p99"] = results.Interval{Low: 9e6, Doubt: results.FewEvents}
	if got := newView([]Page{p}).Tiles[0].Interval; got != "at least 9.00ms; too few events for an upper bound" {
		t.Errorf("got %q", got)
	}
	alone := racePage(false, map[string][]time.Duration{"a": {10 * time.Millisecond}}, "a")
	if got := newView([]Page{alone}).Tiles; len(got) != 1 || got[0].Standing != "" {
		t.Errorf("a lane alone: %+v", got)
	}
}

// TestOverlapIsATie: intervals of the p99 that overlap name no winner, whatever the run's intervals say.
func TestOverlapIsATie(t *testing.T) {
	ten := func(v time.Duration) (out []time.Duration) {
		for range 10 {
			out = append(out, v)
		}
		return out
	}
	p := racePage(false, map[string][]time.Duration{"a": ten(10 * time.Millisecond), "b": ten(20 * time.Millisecond)}, "a", "b")
	set := func(high, low results.Nanos) {
		p.Result.Lanes[0].Latency.Intervals = map[string]results.Interval{"fromIntended.p99": {Low: 1e6, High: high}}
		p.Result.Lanes[1].Latency.Intervals = map[string]results.Interval{"fromIntended.p99": {Low: low, High: 40e6}}
	}
	set(14e6, 15e6)
	if got := lead(&p); !strings.HasPrefix(got, "a was fastest") {
		t.Errorf("apart: %q", got)
	}
	if tiles := newView([]Page{p}).Tiles; tiles[0].Standing != "fastest" || tiles[1].Standing != "2.0 times as long" {
		t.Errorf("%+v", tiles)
	}
	set(15e6, 15e6)
	if got := lead(&p); !strings.HasPrefix(got, "Tie: ") || strings.Contains(page1(t, p), "fastest</span>") {
		t.Errorf("touching: %q", got)
	}
}

func TestStrips(t *testing.T) {
	p := samplePage()
	s := stripsOf([]column{{Lane: "push"}}, []Page{p})
	if s == nil || len(s.Strips) != 1 || s.Limits != p.Result.Generator.ReadDelay.P99.String() && s.Limits != "" {
		t.Fatalf("%+v", s)
	}
	one := s.Strips[0]
	// 90 deliveries of 1 ms, 9 of 10 ms, 1 of 100 ms: three bars, the highest for 90.
	if len(one.Bars) != 3 || one.Text != "p50 1.00ms, p99 10.0ms, max 100ms" || one.Bars[0].H != stripHeight-4 ||
		one.Bars[1].H != round2((stripHeight-4)*math.Sqrt(0.1)) {
		t.Errorf("%+v", one)
	}
	if !(one.P50 < 5 && one.P99 > 45 && one.P99 < 55) {
		t.Errorf("p50 at %v, p99 at %v", one.P50, one.P99)
	}
	if stripsOf([]column{{Lane: "push"}}, []Page{{Result: p.Result}}) != nil {
		t.Error("strips of a lane without a log")
	}
}

func sampleCapacity() *results.Capacity {
	at := func(n int, load float64, verdict string, p99 results.Nanos) results.CapacityStep {
		return results.CapacityStep{
			Number:   n,
			Purpose:  "bisect",
			Load:     load,
			Offered:  10 * load,
			Achieved: 9 * load,
			Verdict:  verdict,
			Reasons:  []string{"because " + hostile},
			Lanes:    []results.CapacityStepLane{{Name: "push", FromIntended: results.Quantiles{Count: 9, P50: p99 / 2, P99: p99}}},
		}
	}
	return &results.Capacity{
		Name:    "nightly",
		Unit:    "events/s",
		Axis:    "rate",
		Outcome: "found",
		Stopped: "found it",
		SLO:     results.CapacitySLO{P99: 100e6},
		Target:  results.Target{URL: "http://x/" + hostile},
		Profile: json.RawMessage(`{"name": "p<b>"}`),
		Maximum: results.CapacityMaximum{Load: 100, Above: 200, From: 100, To: 200, Passed: 2, Events: 100, FanOut: 10, Deliveries: 1000},
		Steps: []results.CapacityStep{
			at(1, 100, "passed", 10e6),
			at(2, 200, "failed", 1000e6),
			at(3, 150, "unclear", 100e6),
			at(4, 50, "aside", 1e6),
			at(5, 400, "failed", 0),
		},
		Costs: []results.CapacityCost{
			{Lane: "push" + hostile, Mode: "push", Missing: []string{hostile}},
		},
		Warnings:   []results.Warning{{Text: hostile}},
		LawRefused: "too few " + hostile,
	}
}

func TestCapacityPage(t *testing.T) {
	c := sampleCapacity()
	v := newCapacityView(c)
	if v.Word != "found" || v.Class != "pass" || !strings.HasPrefix(v.Verdict, "Maximum load: 100 events/s, interval 100 to 200") ||
		!strings.HasPrefix(v.Title, "nightly · Capacity of ") {
		t.Errorf("%s %s %q %q", v.Word, v.Class, v.Verdict, v.Title)
	}
	if len(v.Plots) != 2 || len(v.Steps) != 5 {
		t.Fatalf("%d plots, %d steps", len(v.Plots), len(v.Steps))
	}
	l := v.Plots[0]
	x, y := logScale(100, 400), logScale(10e6, 1000e6)
	// The step that received nothing has no latency, and the one aside does not count.
	want := []plotPoint{
		{x.at(100), round2(100 - y.at(10e6)), "passed", 0, "step 1, load 100: p99 10.0ms, passed"},
		{x.at(200), round2(100 - y.at(1000e6)), "failed", 6, "step 2, load 200: p99 1.00s, failed"},
		{x.at(150), round2(100 - y.at(100e6)), "unclear", 3, "step 3, load 150: p99 100ms, unclear"},
	}
	if !reflect.DeepEqual(l.Points, want) {
		t.Errorf("got %+v\nwant %+v", l.Points, want)
	}
	if *l.Above != 50 || l.Bound != "100ms" || *l.Found != x.at(100) || *l.Band != (plotBand{x.at(100), round2(x.at(200) - x.at(100))}) ||
		!strings.Contains(l.Caption, "In 1 step nothing was received.") {
		t.Errorf("%+v", l)
	}
	c.Maximum.To = 0
	if b := newCapacityView(c).Plots[0].Band; b.X+b.W != 100 {
		t.Errorf("an open interval ends at %v", b.X+b.W)
	}
	for outcome, want := range map[string]string{"none": "no load met the SLO", "bound": "no limit found",
		"generator": "limited by the generator", "exhausted": "not decided"} {
		if c.Outcome = outcome; newCapacityView(c).Word != want || newCapacityView(c).Class == "pass" {
			t.Errorf("%s: %s", outcome, newCapacityView(c).Word)
		}
	}
	c.Steps = nil
	if newCapacityView(c).Plots != nil {
		t.Error("a plot of no steps")
	}
}

func TestComparePage(t *testing.T) {
	c := sampleComparison()
	v := newComparisonView(c)
	if v.Word != "mixed" ||
		v.Verdict != "Of 9 figures, 2 are worse in B and 1 better; 1 are the same, and of 5 there is not enough data." ||
		len(v.Changed) != 3 {
		t.Errorf("%s: %s %+v", v.Word, v.Verdict, v.Changed)
	}
	if got := v.Changed[0]; got.Text != "+40.0 %, from 50.0ms to 70.0ms (95 % interval +35.0 % to +45.0 %)" || !got.Worse {
		t.Errorf("%+v", got)
	}
	// The widest finite end is +243 %, and the axis ends at 210 %.
	row := v.Parts[0].Rows[1]
	if !row.Drawn || row.At != round2(50+50*0.4/2.1) || row.Low != round2(50+50*0.35/2.1) || row.Class != "unclean" {
		t.Errorf("%+v", row)
	}
	if v.Parts[0].Rows[2].Drawn || v.Parts[0].Rows[3].Drawn {
		t.Error("a change without an interval, or an absolute one, is drawn")
	}
	if v.Parts[0].Rows[1].Beyond != "" || newChangeRow(&stats.Change{Effect: ptr(3), Low: ptr(2), High: ptr(4)}, 2.1).Beyond != "right" {
		t.Error("changes beyond the axis are not marked")
	}
	if open := v.Parts[0].Rows[5]; open.Low+open.Wide != 100 {
		t.Errorf("an interval without an upper end: %+v", open)
	}
	for i := range c.Lanes[0].Figures {
		c.Lanes[0].Figures[i].Finding = stats.Same
	}
	if v := newComparisonView(c); v.Word != "tie" || v.Changed != nil {
		t.Errorf("nothing differs: %s %s", v.Word, v.Verdict)
	}
	for i := range c.Lanes[0].Figures {
		c.Lanes[0].Figures[i].Finding = stats.NotEnough
	}
	if v := newComparisonView(c); v.Word != "not enough data" {
		t.Errorf("nothing is known: %s", v.Word)
	}
	p := samplePage()
	p.Name = "A"
	both := write(t, func(w io.Writer) error { return CompareHTML(w, sampleComparison(), []Page{p, p}) })
	if !strings.Contains(both, `id="comparison"`) || !strings.Contains(both, `id="timeline"`) {
		t.Error("the page of two runs lacks the comparison or the runs")
	}
}

func sampleCalibration() *Calibration {
	return &Calibration{Profile: "calibrate" + hostile, Rows: []CalibrationRow{
		{
			Case:   "drop",
			Lane:   "push",
			Passed: true,
			Text:   "lost 3 = 3",
		},
		{Case: "drop", Lane: "poll", Text: "lost 3 ≠ 2"},
		{Case: hostile, Lane: hostile, Passed: true, Text: hostile},
	}}
}

func TestCalibrationPage(t *testing.T) {
	v := newCalibrationView(sampleCalibration())
	if v.Word != "fail" || v.Verdict != "2 of 3 rows: the measured figures are the planned ones." || len(v.Cases) != 2 ||
		!v.Cases[0].Failed ||
		v.Cases[1].Failed {
		t.Errorf("%+v", v)
	}
}

// TestPagesAreHarmless: no page has text of a target as anything but text, and none loads anything.
func TestPagesAreHarmless(t *testing.T) {
	compared := sampleComparison()
	compared.A.Runs[0].Path, compared.Lanes[0].Name, compared.Lanes[0].Figures[2].Reason = hostile, hostile, hostile
	compared.Warnings = append(compared.Warnings, results.Warning{Text: hostile})
	for name, page := range map[string]func(io.Writer) error{
		"capacity":    func(w io.Writer) error { return CapacityHTML(w, sampleCapacity()) },
		"comparison":  func(w io.Writer) error { return CompareHTML(w, compared, nil) },
		"calibration": func(w io.Writer) error { return CalibrationHTML(w, sampleCalibration()) },
	} {
		got := write(t, page)
		body := got[strings.Index(got, "<body>"):]
		for _, bad := range []string{"<x>", "<b>\"", "\x1b", "<script", "style=", `src="`, `href="http`, "url(", "@import"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
		policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(got)
		if policy == nil || !strings.HasPrefix(policy[1], "default-src &#39;none&#39;") || strings.Contains(policy[1], "script-src") {
			t.Errorf("%s: policy %v", name, policy)
		}
		if title := regexp.MustCompile(`<title>[^<]+</title>`).FindString(got); !strings.Contains(title, "eventmeter") {
			t.Errorf("%s: title %q", name, title)
		}
	}
}
