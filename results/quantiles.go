package results

import (
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Rank is the number of the sample, counted from 1 in order of size, at quantile p of n samples:
// p·n, rounded half up, and at least the first. It is the rank of HdrHistogram, and the same for
// every percentile that is computed or shown. p is 0 to 1.
func Rank(p float64, n int64) int64 { return min(max(int64(p*float64(n)+0.5), 1), n) }

// Summarise returns the quantiles of a timing of the ledger.
func Summarise(t ledger.Timing) Quantiles {
	q := SummariseNanos(t.Histogram)
	q.OutOfRange = t.Below + t.Above
	return q
}

// SummariseNanos returns the quantiles of h, whose values are nanoseconds. A nil or empty histogram
// gives the zero Quantiles.
//
// Quantiles and the maximum are the upper ends of their buckets and the minimum
// the lower end, as HDR readers give them.
func SummariseNanos(h *hdrhistogram.Histogram) Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return Quantiles{}
	}
	// One scan for all of them: Min and Max of the histogram look at every bucket,
	// ten times as slowly.
	at := h.ValueAtPercentilesSlice([]float64{0, 50, 90, 95, 99, 99.9, 100})
	return Quantiles{
		Count: h.TotalCount(),
		Min:   Nanos(at[0]),
		P50:   Nanos(at[1]),
		P90:   Nanos(at[2]),
		P95:   Nanos(at[3]),
		P99:   Nanos(at[4]),
		P999:  Nanos(at[5]),
		Max:   Nanos(at[6]),
		Mean:  Nanos(h.Mean()),
	}
}

// MarkResolution sets l.BelowResolution for a resolution limit.
func (l *Latency) MarkResolution(limit Nanos) {
	l.BelowResolution = []string{}
	for _, part := range l.parts() {
		if part.q.Count == 0 {
			continue
		}
		for _, f := range append(part.q.All(), Quantile{"max", 1, part.q.Max}) {
			if f.Value < limit {
				l.BelowResolution = append(l.BelowResolution, part.name+"."+f.Name)
			}
		}
	}
}

// Has reports whether the figure of that JSON name was measured. Results that were written before p95
// existed lack it.
func (q Quantiles) Has(name string) bool {
	switch name {
	case "count", "outOfRange":
		return true
	case "p95":
		return q.Count > 0 && (q.P95 > 0 || q.P90 == 0)
	}
	return q.Count > 0
}

// Quantile is one quantile of a summary.
type Quantile struct {
	Name  string  // in result.json
	P     float64 // 0 to 1
	Value Nanos
}

// Label is the name of the quantile as people write it.
func (q Quantile) Label() string { return percentile(q.Name) }

// All are the quantiles of a summary, without its minimum and maximum.
func (q Quantiles) All() []Quantile {
	return []Quantile{{"p50", 0.5, q.P50}, {"p90", 0.9, q.P90}, {"p95", 0.95, q.P95}, {"p99", 0.99, q.P99}, {"p999", 0.999, q.P999}}
}

// latencyPart is one of the two latencies.
type latencyPart struct {
	name, tag string
	label     string // for people
	q         *Quantiles
}

// FigureName returns the name of a latency for people, such as "scheduled → received, p99.9", and any other path
// of a figure as it is.
func FigureName(path string) string {
	for _, part := range new(Latency).parts() {
		if name, ok := strings.CutPrefix(path, "latency."+part.name+"."); ok {
			return part.label + ", " + percentile(name)
		}
	}
	return path
}

func (l *Latency) parts() []latencyPart {
	return []latencyPart{
		{"fromIntended", TagIntended, "scheduled → received", &l.FromIntended}, {"fromSent", TagSent, "published → received", &l.FromSent},
	}
}
