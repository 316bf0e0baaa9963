package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stats/interval/truth"
	"github.com/eventmeter/eventmeter/results"
)

func TestSynthetic(t *testing.T) {
	var out, log bytes.Buffer
	// Two pairs say nothing about the goals.
	if err := run(t.Context(), []string{"-pairs", "2"}, &out, &log); err != nil && !errors.Is(err, errGoal) {
		t.Fatalf("%v\n%s%s", err, &out, &log)
	}
	for _, want := range []string{"equal runs called different", "+10 % found in latency.fromIntended.p99"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestHistories(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-mode", "history", "-pairs", "2"}, &out, &bytes.Buffer{}); err != nil && !errors.Is(err, errGoal) {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 1+len(historyRows) {
		t.Errorf("%d lines\n%s", got, &out)
	}
	if at := likeliest([]float64{0.1, -0.1, 0, 1, 0.9, 1.1}, 1); at != 3 {
		t.Errorf("the step is at %d", at)
	}
}

func TestIntervals(t *testing.T) {
	var out bytes.Buffer
	if err := run(
		t.Context(),
		[]string{"-mode", "intervals", "-pairs", "2"},
		&out,
		&bytes.Buffer{},
	); err != nil &&
		!errors.Is(err, errGoal) {
		t.Fatal(err)
	}
	if got, want := strings.Count(out.String(), "| p"), len(truth.Models)*(len(quantilesCovered)+len(asked))+2; got != want {
		t.Errorf("%d lines, want %d\n%s", got, want, &out)
	}
	for _, c := range []struct {
		covered int
		missed  bool
	}{{95, false}, {90, false}, {80, true}} {
		out.Reset()
		if missed := coverageRow(
			&out,
			"x",
			0.5,
			truth.Coverage{Runs: 100, Covered: c.covered},
		); missed != c.missed ||
			strings.Contains(out.String(), "MISSED") != missed {
			t.Errorf("%+v: %s", c, &out)
		}
	}
}

// Of a uniform delay from 100 to 1,100 ms, half are over 600 ms.
func TestCovers(t *testing.T) {
	counts := make([]truth.Coverage, len(quantilesCovered))
	covers(counts, &results.Latency{Intervals: map[string]results.Interval{
		"fromSent.p50": {
			Low:  590e6,
			High: 610e6,
		},
		"fromSent.p90":  {Low: 1001e6, High: 1010e6},
		"fromSent.p99":  {Low: 1085e6},
		"fromSent.p999": {Low: 1099.5e6, First: 1, Last: 2},
	}})
	for k, want := range []truth.Coverage{{Runs: 1, Covered: 1}, {Runs: 1}, {Runs: 1, Covered: 1, Open: 1}, {Runs: 1, Open: 1, Trends: 1}} {
		if counts[k] != want {
			t.Errorf("%v: %+v, want %+v", quantilesCovered[k], counts[k], want)
		}
	}
}

func TestEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	if err := run(ctx, nil, &out, &log); err != nil || out.Len() > 0 || !strings.Contains(log.String(), "after 0 of 100 pairs") {
		t.Errorf("%v, %q, %q", err, &out, &log)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-pairs", "0"}, {"-mode", "x"}, {"-runs", "51"}, {"x"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		different, found int
		missed           bool
	}{{5, 95, false}, {6, 95, true}, {5, 94, true}, {0, 100, false}} {
		x := &table{pairs: 100, different: tt.different, found: []int{100, tt.found, 100}, least: []float64{leastFound, leastFound, 0}}
		if x.missed() != tt.missed {
			t.Errorf("%+v: missed %v", tt, x.missed())
		}
		var out bytes.Buffer
		if x.print(&out); strings.Contains(out.String(), "MISSED") != tt.missed {
			t.Errorf("%+v:\n%s", tt, &out)
		}
	}
}

// Known values: 0 of 10 and 5 of 100.
func TestWilson(t *testing.T) {
	for _, tt := range []struct {
		k, n   int
		lo, hi float64
	}{{0, 10, 0, 0.2775}, {5, 100, 0.0215, 0.1118}, {10, 10, 0.7225, 1}} {
		lo, hi := wilson(tt.k, tt.n)
		if math.Abs(lo-tt.lo) > 1e-4 || math.Abs(hi-tt.hi) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f", tt.k, tt.n, lo, hi)
		}
	}
}
