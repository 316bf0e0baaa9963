package ledger

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A percentile of the buckets is that of the histogram.
func TestPercentile(t *testing.T) {
	if p := (Distribution{}).Percentile(95); p != 0 {
		t.Errorf("of nothing: %v", p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1000; n *= 3 {
		var v Values
		for range n {
			v.Add(time.Duration(rng.Int64N(int64(time.Minute))))
		}
		timing := v.Timing()
		for _, percent := range []float64{50, 95, 99.9, 100} {
			want := float64(timing.Histogram.ValueAtQuantile(percent)) / 1e6
			if got := timing.Distribution().Percentile(percent); got != want {
				t.Errorf("p%v of %d values is %v ms, the histogram says %v", percent, n, got, want)
			}
			if got := v.Distribution().Percentile(percent); got != want {
				t.Errorf("p%v of %d live values is %v ms, the histogram says %v", percent, n, got, want)
			}
		}
	}
}
