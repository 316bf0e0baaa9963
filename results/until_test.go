package results

import (
	"errors"
	"strings"
	"testing"
)

func TestParseConditions(t *testing.T) {
	for _, tt := range []struct {
		text   string
		figure string
		within float64
	}{
		{"push.p99 ±5%", "fromIntended.p99", 0.05},
		{"push.p50±2.5%", "fromIntended.p50", 0.025},
		{" *.p90 +-10 % ", "fromIntended.p90", 0.1},
		{"a-b.p999 +/- 100%", "fromIntended.p999", 1},
		{"push.latency.fromSent.p99 ±5%", "fromSent.p99", 0.05},
		{"push.latency.fromIntended.p99 ±5%", "fromIntended.p99", 0.05},
	} {
		got, err := ParseConditions([]string{tt.text})
		if err != nil || len(got) != 1 || got[0].figure != tt.figure || got[0].within != tt.within {
			t.Errorf("%q: %+v, %v", tt.text, got, err)
		}
	}
	if got, err := ParseConditions(
		[]string{"push.p99 ±5%, poll.p50 ±1%", "*.p90 ±2%"},
	); err != nil || len(got) != 3 ||
		got[1].text != "poll.p50 ±1%" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBadConditions(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "want LANE.PERCENTILE ±SHARE%",
		"push.p99":                   "want LANE.PERCENTILE ±SHARE%",
		"p99 ±5%":                    "want LANE.PERCENTILE ±SHARE%",
		"push.p99 < 5%":              "want LANE.PERCENTILE ±SHARE%",
		"push.p99 -5%":               "want LANE.PERCENTILE ±SHARE%",
		"push.p99 ±-5%":              "want LANE.PERCENTILE ±SHARE%",
		"push.p99 ±5%,":              "want LANE.PERCENTILE ±SHARE%",
		"push.p99 ±5":                `"5" has no unit: write ±5%`,
		"push.p99 ±5ms":              "want LANE.PERCENTILE ±SHARE%",
		"push.p99 ±0%":               "write one above 0% and up to 100%",
		"push.p99 ±101%":             "write one above 0% and up to 100%",
		"push.p99 ±1.2.3%":           "write one above 0% and up to 100%",
		"push.p98 ±5%":               "there are ",
		"push.P99 ±5%":               "did you mean latency.fromIntended.p99?",
		"push.max ±5%":               "has no interval; name one of p50, p90, p95, p99, p999",
		"push.lostSilent ±5%":        "there is no figure",
		"push.latency.p99 ±5%":       "did you mean latency.fromIntended.p99?",
		"push.latency.p99.p99 ±5%":   "there is no figure",
		"push.overhead.opened ±5%":   "has no interval",
		"push.latency.intervals ±5%": "is not a number",
	} {
		got, err := ParseConditions([]string{text})
		if !errors.Is(err, ErrCondition) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") && text != "push.p99 ±5%," {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
	c, _ := ParseConditions([]string{"psh.p99 ±5%"})
	for _, tt := range []struct {
		lanes []string
		want  string
	}{{[]string{"push", "poll"}, "those are push, poll"}, {nil, "no lane receives events"}} {
		if err := c[0].CheckLanes(tt.lanes); !errors.Is(err, ErrCondition) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.lanes, err)
		}
	}
	if err := c[0].CheckLanes([]string{"psh"}); err != nil {
		t.Error(err)
	}
}

func TestConditionJudges(t *testing.T) {
	const value = 10e6
	for _, tt := range []struct {
		name    string
		in      Interval
		by      string
		reached bool
		text    string
	}{
		{"narrow", Interval{Low: 9.6e6, High: 10.5e6}, EndedByCondition, true, "measured 43.0s: push.p99 10.0ms ±4.5 %"},
		{"as narrow as asked", Interval{Low: 9.5e6, High: 10.5e6}, EndedByBound, true, "measured 43.0s: push.p99 10.0ms ±5 %"},
		{"wide", Interval{Low: 9e6, High: 12e6}, EndedByBound, false, "push.p99 10.0ms ±15 % after 43.0s, the bound: not ±5 %"},
		{"wider at the end", Interval{Low: 9e6, High: 10.2e6}, EndedByCondition, false,
			"push.p99 10.0ms ±6 % after 43.0s, although it was before the last deliveries arrived: not ±5 %"},
		{"stopped", Interval{Low: 9e6, High: 12e6}, EndedByStop, false, "push.p99 10.0ms ±15 % after 43.0s, when the run was stopped: not ±5 %"},
		{"open", Interval{Low: 9.9e6, Doubt: FewEvents}, EndedByBound, false,
			"push.p99 10.0ms, in doubt (few-events), after 43.0s, the bound: not ±5 %"},
		{"drift", Interval{Low: 9.9e6, High: 10.1e6, Doubt: Drift}, EndedByBound, false,
			"push.p99 10.0ms ±1 %, in doubt (drift), after 43.0s, the bound: not ±5 %"},
		{"late", Interval{Low: 9.9e6, High: 10.1e6, Doubt: OffSchedule}, EndedByBound, false,
			"push.p99 10.0ms ±1 %, in doubt (off-schedule), after 43.0s, the bound: not ±5 %"},
	} {
		c, err := ParseConditions([]string{"push.p99 ±5%"})
		if err != nil {
			t.Fatal(err)
		}
		l := &Lane{
			Name:    "push",
			Latency: Latency{FromIntended: Quantiles{Count: 9, P99: value}, Intervals: map[string]Interval{"fromIntended.p99": tt.in}},
		}
		got := c[0].Judge(l)
		got.Measured, got.EndedBy = 43e9, tt.by
		if got.Reached != tt.reached || got.String() != tt.text {
			t.Errorf("%s: %v %s; want %v %s", tt.name, got.Reached, got.String(), tt.reached, tt.text)
		}
	}
	c, _ := ParseConditions([]string{"*.latency.fromSent.p50 ±5%"})
	nothing := c[0].Judge(&Lane{Name: "poll"})
	nothing.Measured, nothing.EndedBy = 100e9, EndedByBound
	if want := "poll.latency.fromSent.p50 has no deliveries after 1m40s, the bound: not ±5 %"; nothing.Reached || nothing.String() != want {
		t.Errorf("%s", nothing.String())
	}
	if want := "poll.latency.fromSent.p50 ±? of ±5 %"; nothing.Brief() != want {
		t.Errorf("%s", nothing.Brief())
	}
}
