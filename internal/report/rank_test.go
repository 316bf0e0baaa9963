package report

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/results"
)

// TestOneRank: a percentile of the page is the sample that the result gives, however few there are.
func TestOneRank(t *testing.T) {
	h := hdrhistogram.New(1, int64(time.Second), 5)
	var buckets []results.Bucket
	for n := int64(1); n <= 200; n++ {
		must(t, h.RecordValue(n))
		buckets = append(buckets, results.Bucket{Value: results.Nanos(n), Count: 1})
		for _, p := range curveHead {
			if got, want := at(buckets, p), h.ValueAtPercentile(p); got != results.Nanos(want) {
				t.Fatalf("p%g of %d samples: %d on the page, %d in the result", p, n, got, want)
			}
		}
	}
}
