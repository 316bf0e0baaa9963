package results

import (
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The scan gives what the histogram's own minimum and maximum are.
func TestSummariseNanosMinMax(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		h := hdrhistogram.New(1, 60_000_000_000, 3)
		for range 1 + n%7 {
			if err := h.RecordValue(random.Int64N(1 << random.IntN(35))); err != nil {
				t.Fatal(err)
			}
		}
		if q := SummariseNanos(h); q.Min != Nanos(h.Min()) || q.Max != Nanos(h.Max()) {
			t.Errorf("%d to %d, want %d to %d", q.Min, q.Max, h.Min(), h.Max())
		}
	}
}

func TestQuantilesText(t *testing.T) {
	q := Quantiles{Count: 1, Min: 2, P50: 3, P90: 4, P95: 5, P99: 6, P999: 7, Max: 8, Mean: 9}
	want := "1 samples from 2.00ns to 8.00ns with p50 3.00ns, p90 4.00ns, p95 5.00ns, p99 6.00ns, p999 7.00ns, mean 9.00ns"
	if got := q.text(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestQuantilesThatAreThere: nothing is measured without samples, and p95 was not always measured.
func TestQuantilesThatAreThere(t *testing.T) {
	for _, c := range []struct {
		q               Quantiles
		count, p50, p95 bool
	}{
		{Quantiles{}, true, false, false},
		{Quantiles{Count: 1}, true, true, true},
		{Quantiles{Count: 1, P90: 1}, true, true, false},
		{Quantiles{Count: 1, P90: 1, P95: 1}, true, true, true},
	} {
		if c.q.Has("count") != c.count || c.q.Has("p50") != c.p50 || c.q.Has("p95") != c.p95 {
			t.Errorf("%+v has a count: %v, p50: %v, p95: %v", c.q, c.q.Has("count"), c.q.Has("p50"), c.q.Has("p95"))
		}
	}
}
