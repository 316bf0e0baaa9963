package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// strips show how the latencies of lanes are distributed, on one logarithmic axis.
type strips struct {
	Strips []strip
	Ticks  []tick
	// Limits names the resolution limits of the runs.
	Limits string
}

// strip is the distribution of one lane: bars from the middle, as high as their share of the
// deliveries.
type strip struct {
	Column   column
	Bars     []stripBar
	P50, P99 float64 // positions
	Limit    float64 // position of the resolution limit of its run, 0 = left of the axis
	Text     string
}

type stripBar struct{ X, W, Y, H float64 }

// A strip has stripBins bars on a height of stripHeight pixels.
const (
	stripBins   = 72
	stripHeight = 36
	stripTicks  = 7
)

// stripsOf returns the strips of the lanes that have a log. Its latencies are scheduled → received.
func stripsOf(columns []column, runs []Page) *strips {
	type known struct {
		column  column
		buckets []results.Bucket
	}
	var all []known
	low, high := math.Inf(1), 0.0
	for _, c := range columns {
		p := &runs[c.run]
		b := merge(p.Logs[p.Result.Lanes[c.place].Name], results.TagIntended, func(time.Duration) bool { return true })
		if len(b) == 0 {
			continue
		}
		all = append(all, known{c, b})
		low, high = min(low, float64(max(b[0].Value, 1))), max(high, float64(b[len(b)-1].Value))
	}
	if all == nil {
		return nil
	}
	axis := logScale(low, high)
	out := &strips{Ticks: axis.ticks(nanosText, stripTicks)}
	var limits []string
	for i := range runs {
		if limit := runs[i].Result.Generator.ReadDelay.P99; limit > 0 {
			limits = append(limits, results.FormatNanos(limit))
		}
	}
	out.Limits = strings.Join(limits, ", ")
	for _, k := range all {
		strip := newStrip(k.column, k.buckets, axis)
		if limit := runs[k.column.run].Result.Generator.ReadDelay.P99; limit > 0 {
			strip.Limit = axis.at(float64(limit))
		}
		out.Strips = append(out.Strips, strip)
	}
	return out
}

func newStrip(c column, buckets []results.Bucket, axis scale) strip {
	var bins [stripBins]int64
	for _, b := range buckets {
		n := int(axis.at(float64(b.Value)) / 100 * stripBins)
		bins[min(n, stripBins-1)] += b.Count
	}
	var most int64
	for _, n := range bins {
		most = max(most, n)
	}
	p50, p99, last := at(buckets, 50), at(buckets, 99), buckets[len(buckets)-1].Value
	s := strip{
		Column: c, P50: axis.at(float64(p50)), P99: axis.at(float64(p99)),
		Text: fmt.Sprintf("p50 %s, p99 %s, max %s", results.FormatNanos(p50), results.FormatNanos(p99), results.FormatNanos(last)),
	}
	const width = 100.0 / stripBins
	for i, n := range bins {
		if n == 0 {
			continue
		}
		// The square root lets single deliveries be seen beside thousands.
		h := round2(max(2, (stripHeight-4)*math.Sqrt(float64(n)/float64(most))))
		s.Bars = append(s.Bars, stripBar{X: round2(float64(i) * width), W: round2(width + 0.05), Y: round2((stripHeight - h) / 2), H: h})
	}
	return s
}

// nanosText names a round latency on an axis: 5ms, 0.2s.
func nanosText(v float64) string {
	text := results.FormatNanos(results.Nanos(math.Round(v)))
	unit := unitOf(text)
	if number := strings.TrimSuffix(text, unit); strings.Contains(number, ".") {
		return strings.TrimRight(strings.TrimRight(number, "0"), ".") + unit
	}
	return text
}
