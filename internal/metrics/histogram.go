package metrics

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// histogramFamily is a histogram: how it is called, and how it is read. What is
// emitted at once is added up.
type histogramFamily[X any] struct {
	about
	of func(x *X, emit histogramEmitter)
}

// histogramEmitter takes a distribution in parts, and the values of the labels that only this
// histogram has.
type histogramEmitter func(from []ledger.Distribution, labels ...string)

// all emits distributions by the value of one label.
func (emit histogramEmitter) all(of map[string]ledger.Distribution) {
	for name, d := range of {
		emit([]ledger.Distribution{d}, name)
	}
}

func newHistogram[X any](base []string, name, help string, own []string, of func(x *X, emit histogramEmitter)) histogramFamily[X] {
	return histogramFamily[X]{about: aboutOf(base, "histogram", name, help, own), of: of}
}

const (
	// nativeSchema is the resolution of native histograms: sixteen buckets to
	// a power of two, each 4.4 % wide, so that a quantile is off by that at the
	// most.
	nativeSchema = 4
	perOctave    = 1 << nativeSchema
	// zeroWidth is the bound below which a value counts as zero; no measured time is that short.
	zeroWidth = 1e-12
)

// classicBounds are the upper bounds of the classic buckets, in seconds.
var classicBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// middle is the value that a bucket of the ledger counts as, in seconds. The
// bucket is a thousandth of it wide, or half a microsecond below a millisecond, so
// that neither the sum nor the bucket that it is moved to suffers.
func middle(b ledger.Bucket) float64 {
	return time.Duration((int64(b.Low)+int64(b.High))/2 + 1).Seconds()
}

// histogram makes one metric of the distributions: a native histogram, with
// classic buckets beside it.
func histogram(desc *prometheus.Desc, from []ledger.Distribution, labels ...string) prometheus.Metric {
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

// about describes one metric for the table in the docs.
type about struct {
	name, kindName, help string
	labels               []string // all
	desc                 *prometheus.Desc
}

func aboutOf(base []string, kindName, name, help string, own []string) about {
	labels := slices.Concat(base, own)
	return about{name: name, kindName: kindName, help: help, labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}
