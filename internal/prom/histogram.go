package prom

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/mcpload/mcpload/sinks"
)

// histogramFamily is a histogram: how it is called, and how it is read.
type histogramFamily[X, D any] struct {
	name, help string
	of         func(x *X) D
	desc       *prometheus.Desc
}

func newHistogram[X, D any](base []string, name, help string, of func(x *X) D) histogramFamily[X, D] {
	return histogramFamily[X, D]{name: name, help: help, of: of, desc: prometheus.NewDesc(name, help, base, nil)}
}

var laneHistograms = []histogramFamily[oneLane, sinks.Distribution]{
	newHistogram(LaneLabels, "mcpload_latency_from_intended_seconds", "From the instant at which the schedule wanted the event until it was received, of first deliveries.",
		func(x *oneLane) sinks.Distribution { return x.FromIntended }),
	newHistogram(LaneLabels, "mcpload_latency_from_sent_seconds", "From sending the event until it was received, of first deliveries.",
		func(x *oneLane) sinks.Distribution { return x.FromSent }),
	newHistogram(LaneLabels, "mcpload_ready_seconds", "From asking for a subscription until it was confirmed active.",
		func(x *oneLane) sinks.Distribution { return x.Ready }),
}

var runHistograms = []histogramFamily[wholeRun, []sinks.Distribution]{
	newHistogram(RunLabels, "mcpload_upstream_lag_seconds", "From intended until the upstream began to send, of measured events.",
		func(x *wholeRun) []sinks.Distribution {
			return x.each(func(d *sinks.Detail) sinks.Distribution { return d.FireLag })
		}),
	newHistogram(RunLabels, "mcpload_upstream_answer_seconds", "From sending until the upstream had answered, of measured events that were accepted.",
		func(x *wholeRun) []sinks.Distribution {
			return x.each(func(d *sinks.Detail) sinks.Distribution { return d.FireLatency })
		}),
}

func (x *wholeRun) each(of func(*sinks.Detail) sinks.Distribution) []sinks.Distribution {
	out := make([]sinks.Distribution, len(x.passes))
	for i := range x.passes {
		out[i] = of(&x.passes[i].detail)
	}
	return out
}

const (
	// nativeSchema is the resolution of native histograms: sixteen buckets to
	// a power of two, each 4.4 % wide, so that a quantile is off by that at the
	// most.
	nativeSchema = 4
	perOctave    = 1 << nativeSchema
	// zeroWidth is what counts as zero; nothing that is measured is that short.
	zeroWidth = 1e-12
)

// classicBounds are the upper bounds of the classic buckets, in seconds.
var classicBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// middle is the value that a bucket of the ledger counts as, in seconds. The
// bucket is a thousandth of it wide, so that neither the sum nor the bucket
// that it is moved to suffers.
func middle(b sinks.Bucket) float64 {
	return time.Duration((int64(b.Low)+int64(b.High))/2 + 1).Seconds()
}

// histogram makes one metric of the distributions: a native histogram, with
// classic buckets beside it.
func histogram(desc *prometheus.Desc, from []sinks.Distribution, labels ...string) prometheus.Metric {
	native := map[int]int64{}
	classic := make([]uint64, len(classicBounds))
	var count uint64
	var sum float64
	for _, d := range from {
		for _, b := range d.Buckets {
			v := middle(b)
			native[int(math.Ceil(math.Log2(v)*perOctave))] += b.Count
			if i, _ := slices.BinarySearch(classicBounds, v); i < len(classic) {
				classic[i] += uint64(b.Count)
			}
			count += uint64(b.Count)
			sum += v * float64(b.Count)
		}
	}
	m, err := prometheus.NewConstNativeHistogram(desc, count, sum, native, nil, 0, nativeSchema, zeroWidth, time.Time{}, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return twofold{Metric: m, classic: classic}
}

// twofold is a native histogram with classic buckets.
type twofold struct {
	prometheus.Metric
	classic []uint64 // counts, not cumulative
}

// Write implements [prometheus.Metric].
func (m twofold) Write(to *dto.Metric) error {
	if err := m.Metric.Write(to); err != nil {
		return err
	}
	h := to.Histogram
	h.CreatedTimestamp = nil // it is not known when the first sample came
	var sum uint64
	for i, n := range m.classic {
		sum += n
		cumulative, bound := sum, classicBounds[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{CumulativeCount: &cumulative, UpperBound: &bound})
	}
	return nil
}
