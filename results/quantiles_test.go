package results

import (
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The scan gives what the histogram's own minimum and maximum are.
func TestSummariseNanosMinMax(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
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
