package health

import (
	"math"
	"runtime/metrics"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

func gcPauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64Histogram()
}

func goroutines() int64 {
	s := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// gained returns what a runtime histogram (in seconds) gained between two readings. A
// value counts as its bucket's upper bound, as in a result.
func gained(before, after *metrics.Float64Histogram) (out ledger.Distribution) {
	for i, n := range after.Counts {
		n -= before.Counts[i]
		if n == 0 {
			continue
		}
		v := after.Buckets[i+1]
		if math.IsInf(v, 1) {
			v = after.Buckets[i]
		}
		d := time.Duration(v * 1e9)
		out.Buckets = append(out.Buckets, ledger.Bucket{Low: d, High: d, Count: int64(n)})
		out.Count += int64(n)
	}
	return out
}

// summarise returns the quantiles of a distribution.
func summarise(d ledger.Distribution) results.Quantiles {
	h := hdrhistogram.New(1000, int64(10*time.Minute), 3)
	for _, b := range d.Buckets {
		_ = h.RecordValues(max(0, min(int64(b.High), h.HighestTrackableValue())), b.Count)
	}
	return results.SummariseNanos(h)
}
