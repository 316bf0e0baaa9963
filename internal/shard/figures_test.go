package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

func TestMergeFigures(t *testing.T) {
	t.Parallel()
	a := map[string]float64{
		"cuts":               3,
		"avoidedShare":       0.5,
		"fetchesAvoided":     5,
		"pageReads":          10,
		"bytesPerClientHour": 100,
		"clientHours":        1,
		"ttlMs":              500,
		"observedLeast":      4,
		"observedMost":       9,
		"detachedMax":        7,
	}
	b := map[string]float64{
		"cuts":               4,
		"avoidedShare":       1,
		"fetchesAvoided":     30,
		"pageReads":          30,
		"bytesPerClientHour": 200,
		"clientHours":        3,
		"ttlMs":              500,
		"observedLeast":      5,
		"observedMost":       6,
		"detachedMax":        5,
	}
	got, most := mergeFigures([]results.PartFigures{{Values: a}, {Values: b}})
	want := map[string]float64{
		"cuts":               7,
		"avoidedShare":       0.875,
		"fetchesAvoided":     35,
		"pageReads":          40,
		"bytesPerClientHour": 175,
		"clientHours":        4,
		"ttlMs":              500,
		"observedLeast":      4,
		"observedMost":       9,
		"detachedMax":        7,
	}
	for name, v := range want {
		if got.Values[name] != v {
			t.Errorf("%s: %v, want %v", name, got.Values[name], v)
		}
	}
	if none, _ := mergeFigures(
		[]results.PartFigures{{}, {Values: a}},
	); none.Values["observedLeast"] != 4 ||
		none.Values["observedMost"] != 9 {
		t.Errorf("beside a shard that observed nothing: %v", none.Values)
	}
	if len(got.Values) != len(want) || !slices.Equal(most, []string{"detachedMax"}) {
		t.Errorf("%v, most %v", got.Values, most)
	}
}

// Over shards, counts of polls add up, and so do the samples of their intervals.
func TestMergePollFigures(t *testing.T) {
	part := func(server, floor float64, waits ...time.Duration) results.PartFigures {
		h := hdrhistogram.New(1000, int64(10*time.Minute), 3)
		for _, w := range waits {
			if err := h.RecordValue(int64(w)); err != nil {
				t.Fatal(err)
			}
		}
		return results.PartFigures{
			Values:  map[string]float64{"pollsPacedByServer": server, "pollsPacedByMinInterval": floor},
			Timings: map[string]ledger.Timing{"pollInterval": {Histogram: h}},
		}
	}
	got, most := mergeFigures(
		[]results.PartFigures{part(3, 0, time.Second, time.Second, time.Second), part(0, 2, 2*time.Second, 4*time.Second)},
	)
	h := got.Timings["pollInterval"].Histogram
	if got.Values["pollsPacedByServer"] != 3 || got.Values["pollsPacedByMinInterval"] != 2 || h.TotalCount() != 5 ||
		h.ValueAtQuantile(50)/1e6 != 1000 ||
		h.Max()/1e6 < 3990 ||
		len(most) != 0 {
		t.Errorf("%v, %d waits, p50 %d, max %d, at most %v", got.Values, h.TotalCount(), h.ValueAtQuantile(50), h.Max(), most)
	}
}

// The p95 of all shards is that of all samples: here of 19 fast requests in one shard
// and one slow request in the other, it is fast.
func TestMergePercentile(t *testing.T) {
	part := func(p95 float64, n int64, took time.Duration) results.PartFigures {
		h := hdrhistogram.New(1000, int64(10*time.Minute), 3)
		if err := h.RecordValues(int64(took), n); err != nil {
			t.Fatal(err)
		}
		return results.PartFigures{
			Values:  map[string]float64{"latencyP95Ms": p95},
			Timings: map[string]ledger.Timing{"latency": {Histogram: h}},
		}
	}
	got, _ := mergeFigures([]results.PartFigures{part(10, 19, 10*time.Millisecond), part(900, 1, 900*time.Millisecond)})
	if p95 := got.Values["latencyP95Ms"]; p95 < 9.9 || p95 > 10.1 {
		t.Errorf("p95 is %v ms, want 10", p95)
	}
}
