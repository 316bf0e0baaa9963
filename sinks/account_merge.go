package sinks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
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
			return Account{}, fmt.Errorf("merge accounts: account %d has %d lanes and intervals of %v, the first has %d and %v", i, len(a.Lanes), a.Interval, len(out.Lanes), out.Interval)
		}
		out.At = max(out.At, a.At)
		out.Measured.plus(a.Measured)
		out.WarmUp.plus(a.WarmUp)
		out.FireLatency = out.FireLatency.Plus(a.FireLatency)
		out.FireLag = out.FireLag.Plus(a.FireLag)
		out.Misuse.Fired += a.Misuse.Fired
		out.Misuse.Resolved += a.Misuse.Resolved
		out.Misuse.Subscription += a.Misuse.Subscription
		out.Misuse.Transition += a.Misuse.Transition
		for j := range a.Lanes {
			n, b := &out.Lanes[j], &a.Lanes[j]
			if i == 0 {
				n.Name, n.System, n.Mode, n.Ordered = b.Name, b.System, b.Mode, b.Ordered
			} else if n.Name != b.Name || n.System != b.System || n.Mode != b.Mode {
				return Account{}, fmt.Errorf("merge accounts: lane %d is %s (%s, %s) here and %s (%s, %s) there", j, n.Name, n.System, n.Mode, b.Name, b.System, b.Mode)
			}
			n.plus(b)
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

// plus adds everything but the series, and what follows from sums.
func (n *LaneAccount) plus(b *LaneAccount) {
	n.Subscriptions += b.Subscriptions
	n.Ready.Time = n.Ready.Time.Plus(b.Ready.Time)
	n.Ready.Attempts += b.Ready.Attempts
	n.Ready.Failed += b.Ready.Failed
	n.Ready.Cancelled += b.Ready.Cancelled
	n.Ready.Open += b.Ready.Open
	n.Ready.Reasons = plusReasons(n.Ready.Reasons, b.Ready.Reasons)
	n.SubCounts.plus(&b.SubCounts)
	n.Sums.plus(&b.Sums)
	n.Latency.FromIntended = n.Latency.FromIntended.Plus(b.Latency.FromIntended)
	n.Latency.FromSent = n.Latency.FromSent.Plus(b.Latency.FromSent)
	n.EventMessages += b.EventMessages
	n.EventBytes += b.EventBytes
	n.Received += b.Received
	n.Measured.plus(&b.Measured)
	n.Arrivals.Kernel += b.Arrivals.Kernel
	n.Arrivals.Shared += b.Arrivals.Shared
	n.Arrivals.Waited = n.Arrivals.Waited.Plus(b.Arrivals.Waited)
	n.Rejected += b.Rejected
	n.RejectedBy = plusReasons(n.RejectedBy, b.RejectedBy)
	n.Undeliverable += b.Undeliverable
	n.UndeliverableBy = plusReasons(n.UndeliverableBy, b.UndeliverableBy)
	n.Suspended += b.Suspended
	n.SuspendedBy = plusReasons(n.SuspendedBy, b.SuspendedBy)
	n.AnsweredBy = plusReasons(n.AnsweredBy, b.AnsweredBy)
	n.Malformed += b.Malformed
	n.MalformedBy = plusReasons(n.MalformedBy, b.MalformedBy)
	n.Oversized += b.Oversized
	n.OversizedBy = plusReasons(n.OversizedBy, b.OversizedBy)
	n.Reconnects += b.Reconnects
	n.DeadStreams += b.DeadStreams
	n.Terminated += b.Terminated
	n.TransientErrors += b.TransientErrors
	n.Broken += b.Broken
	n.BrokenReasons = plusReasons(n.BrokenReasons, b.BrokenReasons)
	for c := range n.Traffic {
		n.Traffic[c].plus(&b.Traffic[c])
	}
	n.Failures = plusReasons(n.Failures, b.Failures)
	n.Examples = append(n.Examples, b.Examples...)
}

// finish fills in what follows from the sums.
func (n *LaneAccount) finish(series map[int64]LaneInterval, examples int) {
	n.Gaps = Gaps{Incidents: n.GapIncidents, Longest: n.LongestGap}
	if n.Expected > 0 {
		n.Gaps.PerMillion = float64(n.GapIncidents) / float64(n.Expected) * 1e6
	}
	n.SubscriptionHours = n.Active.Hours()
	n.Series = make([]LaneInterval, 0, len(series))
	for _, k := range slices.Sorted(maps.Keys(series)) {
		v := series[k]
		v.Number = k
		n.Series = append(n.Series, v)
	}
	found := exampleSet{limit: max(examples, 0), list: n.Examples}
	n.Examples = found.pick()
}

func (t *Traffic) plus(u *Traffic) {
	t.Calls += u.Calls
	t.Requests += u.Requests
	t.Up += u.Up
	t.Down += u.Down
	t.Connections += u.Connections
	t.Failures += u.Failures
	t.Took = t.Took.Plus(u.Took)
}

func (v *LaneInterval) plus(w LaneInterval) {
	v.Fired += w.Fired
	v.FiredWarmUp += w.FiredWarmUp
	v.Dropped += w.Dropped
	v.Delivered += w.Delivered
	v.Late += w.Late
	v.OutOfOrder += w.OutOfOrder
	v.Duplicates += w.Duplicates
	v.Unexpected += w.Unexpected
	v.Skipped += w.Skipped
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

// plusReasons adds counts by text, most frequent first, then by text.
func plusReasons(a, b []Reason) []Reason {
	counts := make(map[string]int64, len(a)+len(b))
	for _, r := range slices.Concat(a, b) {
		counts[r.Text] += r.Count
	}
	out := make([]Reason, 0, len(counts))
	for text, n := range counts {
		out = append(out, Reason{text, n})
	}
	slices.SortFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return out
}
