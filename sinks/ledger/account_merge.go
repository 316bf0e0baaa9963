package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// MergeOptions say how accounts of shards are laid over each other.
type MergeOptions struct {
	// Shift is, for each account, how many intervals later its series is put:
	// every shard counts its intervals on a clock of its own. nil: not at all.
	Shift []int64
	// Examples is how many findings of each kind a lane keeps; 0 is 20,
	// negative none.
	Examples int
}

// MergeAccounts adds up the accounts of shards of one run: counters are summed,
// histograms added bucket by bucket, series interval by interval, the longest
// gap is the longest of all. Nothing is estimated, so that accounts of shards
// that split the sources and subscriptions of a run between them give what one
// ledger would have. Run is that of the first account, At the latest.
//
// Examples must name subscriptions by their numbers in the whole run. Every
// account must have the same lanes, in the same order; the error says where
// they do not. The accounts are not changed.
func MergeAccounts(accounts []Account, o MergeOptions) (Account, error) {
	if len(accounts) == 0 {
		return Account{}, fmt.Errorf("merge accounts: there are none")
	}
	if o.Examples == 0 {
		o.Examples = defaultExamples
	}
	first := &accounts[0]
	out := Account{Run: first.Run, Interval: first.Interval, Lanes: make([]LaneAccount, len(first.Lanes))}
	series := make([]map[int64]LaneInterval, len(first.Lanes))
	for i := range series {
		series[i] = map[int64]LaneInterval{}
	}
	for i := range accounts {
		a := &accounts[i]
		var shift int64
		if o.Shift != nil {
			shift = o.Shift[i]
		}
		if a.Interval != out.Interval || len(a.Lanes) != len(out.Lanes) {
			return Account{}, fmt.Errorf(
				"merge accounts: account %d has %d lanes and intervals of %v, the first has %d and %v",
				i,
				len(a.Lanes),
				a.Interval,
				len(out.Lanes),
				out.Interval,
			)
		}
		figure.Add(&out, a)
		for j := range a.Lanes {
			n, b := &out.Lanes[j], &a.Lanes[j]
			if i == 0 {
				n.Name, n.System, n.Mode, n.Ordered = b.Name, b.System, b.Mode, b.Ordered
			} else if n.Name != b.Name || n.System != b.System || n.Mode != b.Mode {
				return Account{}, fmt.Errorf(
					"merge accounts: lane %d is %s (%s, %s) here and %s (%s, %s) there",
					j,
					n.Name,
					n.System,
					n.Mode,
					b.Name,
					b.System,
					b.Mode,
				)
			}
			figure.Add(n, b)
			n.Examples = append(n.Examples, b.Examples...)
			for _, v := range b.Series {
				v.Number += shift
				sum := series[j][v.Number]
				sum.plus(v)
				series[j][v.Number] = sum
			}
		}
	}
	for j := range out.Lanes {
		out.Lanes[j].finish(series[j], o.Examples)
	}
	return out, nil
}

// finishGaps fills in the rate of gaps and the hours that it is about.
func (n *LaneAccount) finishGaps() {
	n.Gaps = Gaps{Incidents: n.GapIncidents, Longest: n.LongestGap}
	if n.Expected > 0 {
		n.Gaps.PerMillion = float64(n.GapIncidents) / float64(n.Expected) * 1e6
	}
	n.SubscriptionHours = n.Active.Hours()
}

// finish fills in what follows from the sums.
func (n *LaneAccount) finish(series map[int64]LaneInterval, examples int) {
	n.finishGaps()
	n.Series = make([]LaneInterval, 0, len(series))
	for _, k := range slices.Sorted(maps.Keys(series)) {
		v := series[k]
		v.Number = k
		n.Series = append(n.Series, v)
	}
	found := exampleSet{limit: max(examples, 0), list: n.Examples}
	n.Examples = found.pick()
}

func (v *LaneInterval) plus(w LaneInterval) {
	figure.Add(v, &w)
	v.FromIntended = plusPacked(v.FromIntended, w.FromIntended)
	v.FromSent = plusPacked(v.FromSent, w.FromSent)
}

// plusPacked returns a new histogram of both, nil where there is none.
func plusPacked(a, b *hdrhistogram.PackedHistogram) *hdrhistogram.PackedHistogram {
	if a == nil && b == nil {
		return nil
	}
	sum := hdrhistogram.NewPacked(lowestNanos, highestNanos, histogramSigs)
	for _, h := range []*hdrhistogram.PackedHistogram{a, b} {
		if h != nil {
			h.ForEachBucket(func(v, n int64) bool {
				record(sum.RecordValues(v, n))
				return true
			})
		}
	}
	return sum
}

// Plus returns the distribution of both together. Both must have been made by
// this package, or have its range and precision.
func (t Timing) Plus(u Timing) Timing {
	out := Timing{Below: t.Below + u.Below, Above: t.Above + u.Above}
	if t.Histogram == nil && u.Histogram == nil {
		return out
	}
	out.Histogram = hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
	for _, h := range []*hdrhistogram.Histogram{t.Histogram, u.Histogram} {
		if h != nil {
			out.Above += out.Histogram.Merge(h) // 0, for equal ranges
		}
	}
	return out
}

// AddFrom implements [figure.Adder].
func (t *Timing) AddFrom(from any) { *t = t.Plus(*from.(*Timing)) }

// AddFrom implements [figure.Adder]: counts are added by text.
func (r *Reasons) AddFrom(from any) {
	counts := make(map[string]int64, len(*r))
	for _, x := range slices.Concat(*r, *from.(*Reasons)) {
		counts[x.Text] += x.Count
	}
	*r = reasonsOf(counts)
}

// reasonsOf sorts counts by text.
func reasonsOf(counts map[string]int64) Reasons {
	out := make(Reasons, 0, len(counts))
	for text, n := range counts {
		out = append(out, Reason{text, n})
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return out
}
