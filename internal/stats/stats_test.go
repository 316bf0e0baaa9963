package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func compare(t *testing.T, a, b *Side, opts CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(a, b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompareFindsWhatChanged(t *testing.T) {
	s := defaultSim()
	bad := s
	bad.factor, bad.lost, bad.duplicates = 0.8, 60, 5
	s.duplicates = 90
	c := compare(t, s.side(1), bad.side(2), CompareOptions{})
	for figure, want := range map[string]Finding{
		"latency.fromIntended.p50":              Better,
		"latency.fromSent.p99":                  Better,
		"lostSilent":                            Worse,
		"lostAnnounced":                         Same,
		"duplicates.rate":                       Better,
		"overhead.perDelivered.bytes":           NotEnough,
		"overhead.perSubscriptionHour.bytes":    NotEnough,
		"overhead.perSubscriptionHour.requests": NotEnough,
	} {
		got := c.change("push", figure)
		if got == nil || got.Finding != want {
			t.Errorf("%s: %+v, want %s", figure, got, want)
		}
	}
	p50 := c.change("push", "latency.fromIntended.p50")
	if *p50.Effect > -0.15 || *p50.Low > *p50.Effect || *p50.High < *p50.Effect || *p50.High > 0 || *p50.Detectable <= 0.02 ||
		*p50.Detectable > 0.2 {
		t.Errorf("p50: effect %v, %v to %v, detectable %v", *p50.Effect, *p50.Low, *p50.High, *p50.Detectable)
	}
	if lost := c.change("push", "lostSilent"); !lost.Absolute || *lost.A != 0 || *lost.Effect != *lost.B {
		t.Errorf("lostSilent: %+v", lost)
	}
	if o := c.change(
		"push",
		"overhead.perDelivered.bytes",
	); o.Reason != "one run each: no noise estimate" || o.Effect == nil || o.P != nil ||
		o.Low != nil {
		t.Errorf("overhead: %+v", o)
	}
	if c.change("push", "process.cpu") != nil {
		t.Error("a process that was not watched was compared")
	}
	if !slices.ContainsFunc(c.Warnings, func(w results.Warning) bool { return w.Code == "one-run" }) {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestCompareSameRun(t *testing.T) {
	s := defaultSim()
	c := compare(t, s.side(1), s.side(1), CompareOptions{})
	if ch := c.changed(); ch != nil {
		t.Errorf("changed: %v", ch)
	}
	if p50 := c.change("push", "latency.fromIntended.p50"); p50.Finding != Same || *p50.Effect != 0 || *p50.P != 1 {
		t.Errorf("p50: %+v", p50)
	}
	if !slices.ContainsFunc(c.Warnings, func(w results.Warning) bool { return w.Code == "same-run" }) {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestCompareIsDeterministic(t *testing.T) {
	s := defaultSim()
	a, b := s.side(1, 2), s.side(3, 4)
	quick := CompareOptions{Resamples: 200}
	var first, second bytes.Buffer
	if err := errors.Join(compare(t, a, b, quick).Write(&first), compare(t, a, b, quick).Write(&second)); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("two comparisons of the same sides differ")
	}
	var c Comparison
	if err := json.Unmarshal(first.Bytes(), &c); err != nil || c.Schema != ComparisonSchema {
		t.Errorf("%v, schema %q", err, c.Schema)
	}
	if !reflect.DeepEqual(&c, compare(t, a, b, quick)) {
		t.Error("the JSON form is not the comparison")
	}
}

func TestCompareMethods(t *testing.T) {
	s := sim{intervals: 10, samples: 300, factor: 1, wobble: 0.01, between: 0.01}
	for _, tt := range []struct {
		runs   int
		method string
		cost   string
	}{
		{1, "permutation of intervals", ""},
		{2, "permutation of intervals and t test of runs", ""},
		{4, "Welch's t", "Welch's t"},
		{7, "Mann-Whitney U", "Mann-Whitney U"},
	} {
		c := compare(t, s.side(seeds(0, 0, tt.runs)...), s.side(seeds(0, 1, tt.runs)...), CompareOptions{})
		if m := c.change("push", "latency.fromIntended.p90").Method; m != tt.method {
			t.Errorf("%d runs: %s, want %s", tt.runs, m, tt.method)
		}
		if m := c.change("push", "overhead.perDelivered.bytes").Method; m != tt.cost {
			t.Errorf("%d runs: overhead by %q, want %q", tt.runs, m, tt.cost)
		}
	}
	few := sim{intervals: 3, samples: 300, factor: 1}
	if got := compare(
		t,
		few.side(1),
		few.side(2),
		CompareOptions{},
	).change("push", "latency.fromIntended.p50"); got.Finding != NotEnough ||
		got.Reason != "3 intervals; 5 are needed" {
		t.Errorf("3 intervals: %+v", got)
	}
	if got := compare(
		t,
		s.side(1),
		s.side(2),
		CompareOptions{},
	).change("push", "latency.fromIntended.p999"); got.Reason != "3 samples beyond this quantile; 10 are needed" ||
		got.A == nil {
		t.Errorf("p999 of 3000: %+v", got)
	}
}

// TestRunsOfASideDiffer: two runs that differ as much as these say next to nothing about a third.
func TestRunsOfASideDiffer(t *testing.T) {
	s := defaultSim()
	a, b := s.side(1), &Side{}
	for i, factor := range []float64{1.3, 1.5} {
		s.factor = factor
		b.Runs = append(b.Runs, s.run(uint64(2+i)))
	}
	got := compare(t, a, b, CompareOptions{}).change("push", "latency.fromIntended.p50")
	// The mean of the logarithms, ln 1.4, has the noise of two values, and Student's quantile with one degree of freedom is 12.7.
	if got.Finding == Worse || *got.Low > -0.5 || *got.High < 4 {
		t.Errorf("%s, from %v to %v", got.Finding, *got.Low, *got.High)
	}
	// The bounds are as far from the effect in logarithms, on both sides.
	near(t, "product of the bounds", (1+*got.Low)*(1+*got.High), (1+*got.Effect)*(1+*got.Effect), 1e-9)
}

func TestMinEffect(t *testing.T) {
	s := sim{intervals: 40, samples: 2000, factor: 1, wobble: 0.001}
	slow := s
	slow.factor = 1.02
	a, b := s.side(1), slow.side(2)
	if got := compare(
		t,
		a,
		b,
		CompareOptions{},
	).change("push", "latency.fromIntended.p50"); got.Finding != Same || *got.Adjusted > 0.05 ||
		!strings.Contains(got.Reason, "below 3 %") {
		t.Errorf("2 %%: %+v", got)
	}
	if got := compare(t, a, b, CompareOptions{MinEffect: -1}).change("push", "latency.fromIntended.p50"); got.Finding != Worse {
		t.Errorf("2 %% without a minInterval: %+v", got)
	}
}

func TestCompareErrors(t *testing.T) {
	s := defaultSim().side(1)
	other := defaultSim().side(2)
	other.Runs[0].Result.Lanes[0].Name = "poll"
	for name, tt := range map[string]struct {
		a, b *Side
		opts CompareOptions
		want string
	}{
		"no lane":   {s, other, CompareOptions{}, "one has push, the other poll"},
		"no runs":   {s, &Side{}, CompareOptions{}, "a side has no runs"},
		"alpha":     {s, s, CompareOptions{Alpha: 2}, "alpha 2"},
		"NaN":       {s, s, CompareOptions{Alpha: math.NaN()}, "alpha NaN"},
		"resamples": {s, s, CompareOptions{Resamples: 10}, "10 resamples"},
	} {
		if _, err := Compare(tt.a, tt.b, tt.opts); !errors.Is(err, ErrCompare) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestValidity(t *testing.T) {
	a, b := defaultSim().side(1), defaultSim().side(2)
	r := b.Runs[0].Result
	r.Profile = json.RawMessage(`{"name":"sim","lanes":[{"name":"push","subscriptions":5}],"rate":2}`)
	r.Host = results.Host{CPUs: 8, CPU: "other"}
	r.Version = "2.0.0"
	r.Partial, r.Reason = true, "interrupted"
	r.Generator = results.Generator{Bottleneck: true, Reasons: []string{"timers"}}
	a.Runs[0].Result.Target.Era, a.Runs[0].Result.Target.Protocol = "modern", "1"
	r.Target.Era, r.Target.Protocol = "legacy", "2"
	delete(b.Runs[0].Logs, "push")
	var got []string
	for _, w := range compare(t, a, b, CompareOptions{}).Warnings {
		got = append(got, w.Code+": "+w.Lane+w.Text)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"profiles-differ: the profiles of A and B differ in lanes.push.name, lanes.push.subscriptions, rate",
		"hosts-differ: the hosts of A and B differ: CPU  and other, CPUs 0 and 8",
		"versions-differ: A was run with eventmeter 1.0.0 and a run of B with 2.0.0",
		"partial: run 00000002 of B ended early: interrupted",
		"bottleneck: in run 00000002 of B the generator was the bottleneck: timers",
		"targets-differ: A negotiated modern 1 and a run of B negotiated legacy 2",
		"archive: pushrun 00000002 of B: there is no histogram log",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestGatesOfNothing: a figure of nothing is no pass, and neither is one of a lane that received
// nothing on either side.
func TestGatesOfNothing(t *testing.T) {
	empty := func(l *results.Lane) { *l = results.Lane{Name: l.Name, Overhead: l.Overhead} }
	deaf := func(l *results.Lane) {
		l.LostSilent, l.Delivered, l.Latency, l.Detail, l.Duplicates = l.Expected, 0, results.Latency{}, results.Detail{}, results.Duplicates{}
		l.Overhead.Causes = nil
	}
	for name, tt := range map[string]struct {
		invalidate func(*results.Lane)
		reason     string
		figures    []string
	}{
		"nothing was expected":      {empty, "nothing to count on a side", []string{"lostSilent", "lostAnnounced", "duplicates.rate"}},
		"the lane received nothing": {deaf, "the lane received nothing in a run", []string{"lostSilent", "lostAnnounced"}},
	} {
		a, b := defaultSim().side(1), defaultSim().side(2)
		for _, s := range []*Side{a, b} {
			tt.invalidate(s.Runs[0].lane("push"))
			s.Runs[0].Logs = nil
		}
		c := compare(t, a, b, CompareOptions{})
		for _, f := range tt.figures {
			g, err := ParseGate("push." + f + " <= +0")
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Judge([]Gate{g}); len(got) != 1 || !strings.Contains(got[0].NotEvaluated, tt.reason) {
				t.Errorf("%s, %s: %+v", name, f, got)
			}
		}
	}
}

// TestGatesOfZero: none on either side passes, whatever is known of it; one out of none does not.
func TestGatesOfZero(t *testing.T) {
	g, err := ParseGate("push.lostSilent <= +0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b   float64
		passes bool
	}{{0, 0, true}, {0, 1, false}, {1, 0, false}, {1, 1, false}} {
		of := Comparison{Lanes: []LaneChange{{Name: "push", Figures: []Change{{Figure: "lostSilent", A: &c.a, B: &c.b}}}}}
		if got := of.Judge([]Gate{g}); len(got) != 1 || got[0].Passed != c.passes {
			t.Errorf("%v and %v: %+v", c.a, c.b, got)
		}
	}
}

func TestGates(t *testing.T) {
	s := defaultSim()
	slow := s
	slow.factor, slow.lost = 1.2, 50
	c := compare(t, s.side(1), slow.side(2), CompareOptions{})
	for text, want := range map[string]string{
		"push.p50 <= +5%":                         "push: it got worse, from",
		"*.latency.fromIntended.p50<=+0.05":       "push: it got worse, from",
		"push.p50 <= +50%":                        "held push: it held, from ",
		"push.p95 <= +5%":                         "push: it got worse, from",
		"push.lostSilent <= +100%":                "push: it got worse, from 0 % to 0.415 %",
		"push.lostAnnounced <= +0":                "held push: it held, from 0 % to 0 %",
		"push.overhead.perDelivered.bytes <= +5%": "push unjudged: it cannot be judged: one run each",
		"poll.p50 <= +5%":                         "poll unjudged: the lane is not on both sides",
		"run.target.process.cpu <= +5%":           " unjudged: it was not measured on both sides",
	} {
		g, err := ParseGate(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		for _, v := range c.Judge([]Gate{g}) {
			got += v.Lane
			if v.NotEvaluated != "" {
				got += " unjudged"
			}
			if got += ": " + v.Text; v.Passed {
				got = "held " + got
			}
			if v.Threshold != g.String() {
				t.Errorf("%s: named %s", text, v.Threshold)
			}
		}
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"nonsense":                             "want LANE.FIGURE <= +SHARE",
		"push.p98 <= +5%":                      "there is no figure",
		"push.latency.fromintended.p99 <= +5%": "did you mean latency.fromIntended.p99?",
		"push.delivered <= +5%":                "is not compared",
		"push.latency.fromIntended <= +5%":     "is a group",
		"push.p99 <= +-5%":                     "is not a share",
		"push.p99 <= 5%":                       "want LANE.FIGURE <= +SHARE",
		"push.p99 < +5%":                       "want LANE.FIGURE <= +SHARE",
		"p99 <= +5%":                           "want LANE.FIGURE <= +SHARE",
		"push.p99 <= +e%":                      "is not a share",
	} {
		if _, err := ParseGate(text); !errors.Is(err, ErrGate) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if gates, err := ParseGates(
		[]string{"a", "push.lostSilent <= +0", "b"},
	); len(gates) != 1 || err == nil ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two bad ones: %v, %v", gates, err)
	}
}

func TestFormatFigure(t *testing.T) {
	for _, tt := range []struct {
		unit string
		v    float64
		want string
	}{
		{"ns", 1.25e9, "1.25s"},
		{"share", 0.00123, "0.123 %"},
		{"share", 0, "0 %"},
		{"bytes", 1023, "1023 B"},
		{"bytes", 1024, "1 KiB"},
		{"bytes", -1024, "-1 KiB"},
		{"bytes", 1536 << 40, "1536 TiB"},
		{"requests", 999, "999"},
		{"requests", 1000, "1000"},
		{"requests", 999_999_999, "999999999"},
		{"requests", 1e9, "1e+09"},
		{"ns", 1.6, "2.00ns"},
		{"requests", 12345.6, "12346"},
		{"requests", 0.5, "0.5"},
	} {
		if got := FormatFigure(tt.unit, tt.v); got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.unit, tt.v, got, tt.want)
		}
	}
}

// writeRun archives a simulated run with a small log and its latencies.
func writeRun(t *testing.T, dir string, r Run) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "push.hlog"), logText(t, 5), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := results.LoadLog(dir, "push")
	if err != nil {
		t.Fatal(err)
	}
	r.Result.Lane("push").Latency = results.Latency{
		FromIntended: results.SummariseNanos(log.Histogram(results.TagIntended)),
		FromSent:     results.SummariseNanos(log.Histogram(results.TagSent)),
	}
	var text bytes.Buffer
	if err := errors.Join(r.Result.Write(&text), os.WriteFile(filepath.Join(dir, results.File), text.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestLoadSide(t *testing.T) {
	dir := t.TempDir()
	s := defaultSim()
	writeRun(t, filepath.Join(dir, "trials", "b"), s.run(1))
	writeRun(t, filepath.Join(dir, "trials", "a"), s.run(2))
	writeRun(t, filepath.Join(dir, "one"), s.run(3))
	writeRun(t, filepath.Join(dir, "other"), s.run(4))
	if err := os.WriteFile(filepath.Join(dir, "other", "push.hlog"), logText(t, 5, 6), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "empty", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	side, err := LoadSide([]string{filepath.Join(dir, "one"), filepath.Join(dir, "trials")})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range side.Runs {
		ids = append(ids, r.Result.Run)
		if r.Logs["push"] == nil {
			t.Errorf("run %s has no log", r.Result.Run)
		}
	}
	if !slices.Equal(ids, []string{"00000001", "00000002", "00000003"}) {
		t.Errorf("runs %v, want them by their start", ids)
	}
	if err := os.WriteFile(filepath.Join(dir, "trials", "b", "push.hlog"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		paths []string
		want  string
	}{
		"none":    {nil, "no paths"},
		"missing": {[]string{filepath.Join(dir, "nowhere")}, "name the directory of a run"},
		"empty":   {[]string{filepath.Join(dir, "empty")}, "there is no result.json"},
		"twice":   {[]string{filepath.Join(dir, "one"), filepath.Join(dir, "one")}, "are the same run 00000003"},
		"broken":  {[]string{filepath.Join(dir, "trials")}, "push.hlog: bad histogram log: line 1"},
		"changed": {[]string{filepath.Join(dir, "other")}, "other/push.hlog: lane push: the histograms tagged intended give 2 samples"},
	} {
		if _, err := LoadSide(tt.paths); !errors.Is(err, ErrCompare) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestCompareEveryCount: each count that is compared has a line, and a sixth of the deliveries is
// found.
func TestCompareEveryCount(t *testing.T) {
	for _, n := range results.LaneCounts {
		if n.Per == "" || n.Loss {
			continue
		}
		s := sim{intervals: 5, samples: 100, factor: 1}
		a, b := s.side(1, 2), s.side(3, 4)
		for i := range b.Runs {
			l := &b.Runs[i].Result.Lanes[0]
			l.Ready.Active = 2
			many := l.Delivered / 6
			switch n.Name {
			case "outOfOrder":
				l.OutOfOrder = many
			case "orderConflicts":
				l.OrderConflicts = many
			case "late":
				l.Late = many
			case "unexpected":
				l.Unexpected = many
			case "recovered":
				l.Recovered = many
			case "gaps.incidents":
				l.Gaps.Incidents = many
			case "gaps.falseAlarms":
				l.Gaps.FalseAlarms = many
			default:
				t.Fatalf("%s has no case here", n.Name)
			}
			if n.Read(l) != many {
				t.Errorf("%s reads %d, want %d", n.Name, n.Read(l), many)
			}
		}
		c := compare(t, a, b, CompareOptions{Resamples: 200})
		if ch := c.change(b.Runs[0].Result.Lanes[0].Name, n.Name); ch == nil || ch.Finding != Worse {
			t.Errorf("%s: %+v", n.Name, ch)
		}
	}
}

// TestGatesOfDoubtfulArchives: a gate on a doubtful archive is not judged, in either direction.
func TestGatesOfDoubtfulArchives(t *testing.T) {
	gates, err := ParseGates([]string{"push.p50 <= +5%", "push.lostSilent <= +5%"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change   func(*results.Result)
		unjudged int
	}{
		{func(*results.Result) {}, 0},
		{func(r *results.Result) { r.Partial, r.Reason = true, "stopped" }, 2},
		{func(r *results.Result) {
			r.Generator = results.Generator{Bottleneck: true, Reasons: []string{"late timers"}}
		}, 2},
		{func(r *results.Result) {
			r.Warnings = append(r.Warnings, results.Warning{Code: results.MachineBusy, Text: "busy"})
		}, 1},
	} {
		s := defaultSim()
		a, b := s.side(1), s.side(1)
		c.change(b.Runs[0].Result)
		n := 0
		for _, f := range compare(t, a, b, CompareOptions{Resamples: 200}).Judge(gates) {
			if strings.Contains(f.NotEvaluated, "run ") {
				n++
			}
		}
		if n != c.unjudged {
			t.Errorf("%d of the gates were not judged, want %d", n, c.unjudged)
		}
	}
}
