package stats

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// nights makes a run for each value of p99, with what edit changes in it.
func nights(p99 []float64, edit func(i int, r *results.Result)) *Side {
	s := &Side{}
	for i, v := range p99 {
		q := results.Quantiles{
			Count: 100_000,
			P50:   results.Nanos(v / 2),
			P90:   results.Nanos(v / 1.5),
			P99:   results.Nanos(v),
			P999:  results.Nanos(v * 2),
		}
		r := &results.Result{
			Schema: results.Schema, Version: "1.0.0", Run: fmt.Sprintf("%08x", i), Started: time.Unix(int64(i)*86400, 0).UTC(),
			Profile: json.RawMessage(fmt.Sprintf(`{"name":"night","target":{"commit":"c%d"}}`, i)),
			Target:  results.Target{Name: "shop", Version: "1.4"},
			Lanes: []results.Lane{{
				Name: "push", System: "events", Mode: "push", Expected: 100_000, Delivered: 100_000, Received: 100_000,
				Latency: results.Latency{FromIntended: q, FromSent: q},
			}},
		}
		if edit != nil {
			edit(i, r)
		}
		s.Runs = append(s.Runs, Run{Path: fmt.Sprintf("nightly/%02d", i), Result: r})
	}
	return s
}

func step(n, at int, level float64) []float64 {
	xs := noisy(rand.New(rand.NewPCG(3, 4)), n, 0, false, from(at, level))
	for i := range xs {
		xs[i] *= 1e5 // around 10 ms
	}
	return xs
}

func (h *History) of(t *testing.T, figure string) *FigureHistory {
	t.Helper()
	for i := range h.Lanes[0].Figures {
		if f := &h.Lanes[0].Figures[i]; f.Figure == figure {
			return f
		}
	}
	t.Fatalf("no figure %s", figure)
	return nil
}

func TestHistory(t *testing.T) {
	h, err := NewHistory(nights(step(30, 18, 1.2), func(i int, r *results.Result) {
		if i >= 18 {
			r.Target.Version = "1.5"
		}
		if i >= 24 {
			r.Lanes[0].LostSilent, r.Lanes[0].Delivered = 200, 99_800
		}
	}), HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := h.of(t, "latency.fromIntended.p99").Changes
	if len(c) != 1 || c[0].At != 18 || c[0].Finding != Worse || c[0].Effect < 0.17 || c[0].Effect > 0.23 || *c[0].Low > 0.2 ||
		*c[0].High < 0.2 {
		t.Errorf("p99: %+v", c)
	}
	lost := h.of(t, "lostSilent").Changes
	if len(lost) != 1 || lost[0].At != 24 || !lost[0].Absolute || lost[0].After != 0.002 || *lost[0].Low <= 0 {
		t.Errorf("silent loss: %+v", lost)
	}
	if f := h.of(t, "duplicates.rate"); len(f.Changes) > 0 {
		t.Errorf("duplicates: %+v", f.Changes)
	}
	if r := h.Runs[18]; r.Commit != "c18" || !slices.Equal(r.Differs, []string{"target shop 1.4 and shop 1.5"}) {
		t.Errorf("%+v", r)
	}
	if at := h.Changed(); !slices.Equal(at, []int{18, 24}) {
		t.Errorf("changed with %v", at)
	}
}

// A change that does not matter, too few samples, partial runs, and lanes and values
// that only some runs have.
func TestHistoryLeavesOut(t *testing.T) {
	small, err := NewHistory(nights(step(40, 20, 1.02), nil), HistoryOptions{MinEffect: 0.05})
	if err != nil || len(small.Changed()) > 0 {
		t.Errorf("%v, changed with %v", err, small.Changed())
	}
	thin, err := NewHistory(nights(step(30, 18, 1.2), func(i int, r *results.Result) {
		if i == 3 {
			r.Lanes[0].Latency.FromIntended.Count = 900
		}
	}), HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f := thin.of(
		t,
		"latency.fromIntended.p99",
	); f.Reason != "1 of 30 runs have fewer than 10 samples beyond this quantile" ||
		len(f.Changes) > 0 {
		t.Errorf("%+v", f)
	}
	if f := thin.of(t, "latency.fromIntended.p90"); f.Reason != "" || len(f.Changes) != 1 {
		t.Errorf("%+v", f)
	}
	some, err := NewHistory(nights(step(30, 18, 1.2), func(i int, r *results.Result) {
		r.Partial = i == 2
		if i == 5 {
			r.Lanes[0].Name = "other"
		}
	}), HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f := some.of(
		t,
		"latency.fromIntended.p99",
	); len(some.Runs) != 29 || f.Values[4] != nil || len(f.Changes) != 1 ||
		f.Changes[0].At != 17 {
		t.Errorf("%d runs, %+v", len(some.Runs), f)
	}
	if len(some.Lanes) != 1 || some.Warnings[0].Code != "partial" {
		t.Errorf("%+v, %+v", some.Lanes, some.Warnings)
	}
}

func TestHistoryErrors(t *testing.T) {
	_, err := NewHistory(nights(step(7, 3, 1), nil), HistoryOptions{})
	if !errors.Is(err, ErrCompare) || !strings.Contains(err.Error(), "needs 8 complete runs and has 7") {
		t.Error(err)
	}
	_, err = NewHistory(nights(step(10, 5, 1), func(i int, r *results.Result) { r.Lanes[0].Name = fmt.Sprint(i) }), HistoryOptions{})
	if !errors.Is(err, ErrCompare) || !strings.Contains(err.Error(), "no lane is in 8 of the runs") {
		t.Error(err)
	}
}

// TestOlderRunsHaveNoP95: a run that was measured before p95 existed has none, which is not
// one of 0.
func TestOlderRunsHaveNoP95(t *testing.T) {
	s := nights(step(10, 5, 1), nil)
	h, err := NewHistory(s, HistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f := h.of(t, "latency.fromIntended.p95"); f.Reason != "0 runs have it; 8 are needed" {
		t.Errorf("%+v", f)
	}
	older := defaultSim().side(1)
	older.Runs[0].lane("push").Latency.FromIntended.P95 = 0
	c := compare(t, older, defaultSim().side(2), CompareOptions{})
	if f := c.change("push", "latency.fromIntended.p95"); f.Reason != "a run was measured before this figure existed" || f.Changed() {
		t.Errorf("%+v", f)
	}
	if f := c.change("push", "latency.fromIntended.p99"); f.Reason == "a run was measured before this figure existed" {
		t.Errorf("%+v", f)
	}
}
