package results

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/internal/stats/interval"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Reasons to doubt a latency figure; see [Interval].
const (
	FewEvents   = "few-events"
	OffSchedule = "off-schedule"
	Drift       = "drift"
)

const (
	// driftChance and leastDrift: a drift is a trend that chance alone gives once in 1,000 runs, and
	// that changed the figure by a quarter.
	driftChance = 0.001
	leastDrift  = 1.25
	// lateShare and leastLate: a figure describes the generator if this share of it, and at least
	// this long, went by before the events were published.
	lateShare = 0.5
	leastLate = Nanos(10e6)
)

// newLatency computes the latencies of a lane. An account without a series gives no intervals.
func newLatency(a *ledger.LaneAccount) Latency {
	l := Latency{
		FromIntended: Summarise(a.Latency.FromIntended), FromSent: Summarise(a.Latency.FromSent),
		Intervals: map[string]Interval{}, BelowResolution: []string{},
	}
	var intended, sent [][]Bucket
	for i := range a.Series {
		for _, part := range []struct {
			h    *hdrhistogram.PackedHistogram
			into *[][]Bucket
		}{{a.Series[i].FromIntended, &intended}, {a.Series[i].FromSent, &sent}} {
			if part.h == nil || part.h.TotalCount() == 0 {
				continue
			}
			b, err := buckets(part.h, 1)
			if err != nil {
				return l // from the part of a shard that was changed
			}
			*part.into = append(*part.into, b)
		}
	}
	l.setIntervals("fromIntended", &l.FromIntended, a.Latency.FromIntended.Histogram, intended)
	l.setIntervals("fromSent", &l.FromSent, a.Latency.FromSent.Histogram, sent)
	return l
}

// setIntervals computes the intervals of one latency from its histogram and from those of the
// intervals of time in which anything was received.
func (l *Latency) setIntervals(name string, q *Quantiles, whole *hdrhistogram.Histogram, spans [][]Bucket) {
	if len(spans) == 0 || q.Count == 0 {
		return
	}
	var blocks [][]Bucket
	for _, group := range interval.Group(spans) {
		blocks = append(blocks, inOrder(group))
	}
	for _, x := range q.All() {
		counts := make([]interval.Block, len(blocks))
		for i, b := range blocks {
			counts[i] = countsAround(b, x.Value)
		}
		e := interval.Of(x.P, counts)
		// The bounds are values of the histogram, as the figure itself.
		in := Interval{Low: min(Nanos(whole.ValueAtPercentile(100*e.Low)), x.Value), Draws: int64(math.Round(e.Draws))}
		if !e.Open {
			in.High = max(Nanos(whole.ValueAtPercentile(100*e.High)), x.Value)
		}
		in.First, in.Last = drift(blocks, x.P)
		l.Intervals[name+"."+x.Name] = in
	}
}

// inOrder joins the buckets of a group, ascending.
func inOrder(group [][]Bucket) []Bucket {
	all := slices.Concat(group...)
	slices.SortFunc(all, func(a, b Bucket) int { return cmp.Compare(a.Value, b.Value) })
	return all
}

func countsAround(buckets []Bucket, value Nanos) (out interval.Block) {
	for _, b := range buckets {
		out.All += b.Count
		if b.Value < value {
			out.Below += b.Count
		}
		if b.Value <= value {
			out.AtMost += b.Count
		}
	}
	return out
}

// drift returns quantile p of the first and of the last third of the blocks if it rose or fell
// throughout, else 0.
func drift(blocks [][]Bucket, p float64) (first, last Nanos) {
	values := make([]float64, len(blocks))
	for i, b := range blocks {
		values[i] = math.Log(float64(max(bucketAt(b, p), 1)))
	}
	if interval.Trend(values) > driftChance {
		return 0, 0
	}
	n := len(blocks)
	first, last = bucketAt(inOrder(blocks[:n/3]), p), bucketAt(inOrder(blocks[n-n/3:]), p)
	if float64(max(first, last)) < leastDrift*float64(min(first, last)) {
		return 0, 0
	}
	return first, last
}

// bucketAt is quantile p of ordered buckets that are not empty.
func bucketAt(buckets []Bucket, p float64) Nanos {
	var all int64
	for _, b := range buckets {
		all += b.Count
	}
	left := Rank(p, all)
	for _, b := range buckets {
		if left -= b.Count; left <= 0 {
			return b.Value
		}
	}
	return buckets[len(buckets)-1].Value
}

// MarkDoubts sets the doubts of the intervals. limit is the resolution limit, and lag the time from
// the scheduled instants to publishing.
func (l *Latency) MarkDoubts(limit Nanos, lag *Quantiles) {
	late := lag.All()
	for _, part := range l.parts() {
		for i, x := range part.q.All() {
			key := part.name + "." + x.Name
			in, there := l.Intervals[key]
			if !there {
				continue
			}
			in.Doubt = ""
			switch {
			case part.tag == TagIntended && late[i].Value >= leastLate && float64(late[i].Value) > lateShare*float64(x.Value):
				in.Doubt = OffSchedule
			case max(in.First-in.Last, in.Last-in.First) > limit:
				in.Doubt = Drift
			case in.High == 0:
				in.Doubt = FewEvents
			}
			l.Intervals[key] = in
		}
	}
}

// Why explains the doubt about the figure of a name such as p99. It is empty if there is none.
func (in *Interval) Why(name string) string {
	switch name = percentile(name); in.Doubt {
	case FewEvents:
		if need := needs(name); in.Draws < need {
			return fmt.Sprintf(
				"the sample cannot carry %s: its deliveries are worth %d independent ones of the %d needed, so publish more events",
				name,
				in.Draws,
				need,
			)
		}
		return fmt.Sprintf("deliveries came in too few intervals to say how exactly %s is known: publish for longer", name)
	case OffSchedule:
		return fmt.Sprintf(
			"more than half of %s went by before the events were published: lower the rate, use a less busy machine, or judge "+
				"published → received (fromSent)",
			name,
		)
	case Drift:
		return fmt.Sprintf(
			"%s drifted from %s in the first third of the run to %s in the last: lower the load, or warm up for longer",
			name,
			in.First,
			in.Last,
		)
	}
	return ""
}

// percentile is the name of a quantile as people write it.
func percentile(name string) string { return strings.Replace(name, "p999", "p99.9", 1) }

// needs is how many independent deliveries a percentile needs.
func needs(percentile string) int64 {
	p, _ := strconv.ParseFloat(strings.TrimPrefix(percentile, "p"), 64)
	return int64(math.Round(interval.LeastBeyond / (1 - p/100)))
}

// Doubts returns the warnings about latencies that do not stand for the target. Most lanes have too
// few events for the same figures, so that is one warning.
func Doubts(lanes []Lane) []Warning {
	var few []string
	var out []Warning
	parts := new(Latency).parts()
	intended, sent := tooFew(lanes, parts[0]), tooFew(lanes, parts[1])
	if intended == sent {
		parts[0].label, sent = parts[0].label+" and "+parts[1].label, ""
	}
	for i, text := range []string{intended, sent} {
		if text != "" {
			few = append(few, parts[i].label+", "+text)
		}
	}
	if few != nil {
		out = append(
			out,
			Warning{
				Code: FewEvents,
				Text: fmt.Sprintf(
					"too few independent events for %s: publish more, or for longer; the deliveries of one event count as about one",
					strings.Join(few, "; "),
				),
			},
		)
	}
	for i := range lanes {
		for _, doubt := range []string{OffSchedule, Drift} {
			if names, why := lanes[i].Latency.doubted(doubt); names != nil {
				out = append(
					out,
					Warning{Code: doubt, Lane: lanes[i].Name, Text: fmt.Sprintf("%s; in doubt: %s", why, strings.Join(names, "; "))},
				)
			}
		}
	}
	return out
}

// tooFew lists the percentiles of a latency for which lanes have too few events, of those that the summary shows. In
// the whole report the others have their mark.
func tooFew(lanes []Lane, part latencyPart) string {
	var all []string
	for _, x := range new(Quantiles).All() {
		if x.Name == "p999" || x.Name == "p95" || part.tag == TagSent && x.Name == "p90" {
			continue
		}
		var names []string
		for i := range lanes {
			if lanes[i].Latency.Intervals[part.name+"."+x.Name].Doubt == FewEvents {
				names = append(names, lanes[i].Name)
			}
		}
		if names != nil {
			all = append(all, fmt.Sprintf("%s of %s (%d needed)", x.Label(), strings.Join(names, ", "), needs(x.Label())))
		}
	}
	return strings.Join(all, "; ")
}

// doubted returns the figures with that doubt, and why the first has it.
func (l *Latency) doubted(doubt string) (names []string, why string) {
	for _, part := range l.parts() {
		for _, x := range part.q.All() {
			if in := l.Intervals[part.name+"."+x.Name]; in.Doubt == doubt {
				names, why = append(names, part.label+", "+x.Label()), cmp.Or(why, in.Why(x.Name))
			}
		}
	}
	return names, why
}

// checkIntervals returns an error if the intervals contradict the figures.
func (l *Latency) checkIntervals() error {
	known := 0
	for _, part := range l.parts() {
		for _, x := range part.q.All() {
			key := part.name + "." + x.Name
			in, there := l.Intervals[key]
			if !there {
				continue
			}
			known++
			switch {
			case in.Low > x.Value || in.High != 0 && in.High < x.Value:
				return fmt.Errorf("latency.intervals: %s is %d ns, which is not between %d and %d", key, x.Value, in.Low, in.High)
			case in.Draws > part.q.Count:
				return fmt.Errorf("latency.intervals: %s has %d draws of %d deliveries", key, in.Draws, part.q.Count)
			case !slices.Contains([]string{"", FewEvents, OffSchedule, Drift}, in.Doubt):
				return fmt.Errorf("latency.intervals: %s has the doubt %.40q, which does not exist", key, in.Doubt)
			}
		}
	}
	if known != len(l.Intervals) {
		return errors.New("latency.intervals: it names a figure that does not exist")
	}
	return nil
}

// sameIntervals returns an error if the intervals are not those of the histograms. Processors
// differ in the last digit of a calculation, so a bound may be another value of the histogram nearby.
func (l *Latency) sameIntervals(again map[string]Interval) error {
	const within = 0.01
	near := func(a, b int64) bool { return math.Abs(float64(a-b)) <= max(1, within*float64(max(a, b))) }
	for key, b := range again {
		a := l.Intervals[key]
		if !near(int64(a.Low), int64(b.Low)) || !near(int64(a.High), int64(b.High)) || !near(a.Draws, b.Draws) ||
			!near(int64(a.First), int64(b.First)) ||
			!near(int64(a.Last), int64(b.Last)) {
			return fmt.Errorf(
				"the interval of %s is %d to %d ns from %d draws, and %s says %d to %d ns from %d",
				key,
				b.Low,
				b.High,
				b.Draws,
				File,
				a.Low,
				a.High,
				a.Draws,
			)
		}
	}
	return nil
}
