package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// compare returns the first difference between the ledger and the model.
func (m *model) compare(l *Ledger) error {
	a := l.Account()
	if err := a.Check(); err != nil {
		return err
	}
	for i, spec := range m.opt.Lanes {
		var sum SubCounts
		intended := hdrhistogram.New(1000, int64(10*time.Minute), 3)
		sent := hdrhistogram.New(1000, int64(10*time.Minute), 3)
		intervals := map[int64]*intervalCounts{}
		for index := range spec.Subscriptions {
			sub := eventmeter.Sub{Lane: uint16(i), Index: uint32(index)}
			want := m.figures(sub, a.At)
			if spec.Replay {
				// The lane asked for what is stale elsewhere.
				want.Replayed, want.Unexpected.Stale = want.Unexpected.Stale, 0
			}
			figure.AddCounts(&sum, &want.SubCounts)
			if got, want := l.SubAccount(sub), bounded(want.SubCounts, m.failures(sub.Lane)); got != want {
				return fmt.Errorf("%v:\n got %+v\nwant %+v", sub, got, want)
			}
			for _, c := range want.delivered {
				if err := intended.RecordValue(max(c.at.Sub(c.e.intended).Nanoseconds(), 1000)); err != nil {
					return err
				}
				if err := sent.RecordValue(max(c.at.Sub(c.e.fired).Nanoseconds(), 1000)); err != nil {
					return err
				}
			}
			for k, v := range want.intervals {
				if intervals[k] == nil {
					intervals[k] = &intervalCounts{}
				}
				figure.AddCounts(intervals[k], v)
			}
		}
		if got, want := a.Lanes[i].OrderConflicts, m.orderConflicts(uint16(i)); got != want {
			return fmt.Errorf("lane %d: %d order conflicts, want %d", i, got, want)
		}
		if n, by := m.oversized(uint16(i)); a.Lanes[i].Oversized != n || !slices.Equal(a.Lanes[i].OversizedBy, by) {
			return fmt.Errorf("lane %d: oversized %d by %v, want %d by %v", i, a.Lanes[i].Oversized, a.Lanes[i].OversizedBy, n, by)
		}
		if err := m.compareLane(&a.Lanes[i], bounded(sum, m.failures(uint16(i))), intervals, intended, sent); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
	}
	return nil
}

func (m *model) compareLane(
	got *LaneAccount,
	sum SubCounts,
	intervals map[int64]*intervalCounts,
	intended, sent *hdrhistogram.Histogram,
) error {
	if got.SubCounts != sum {
		return fmt.Errorf("\n got %+v\nwant %+v", got.SubCounts, sum)
	}
	if !got.Latency.FromIntended.Histogram.Equals(intended) || !got.Latency.FromSent.Histogram.Equals(sent) {
		return fmt.Errorf("latencies differ")
	}
	for _, v := range got.Series {
		want := intervalCounts{}
		if w := intervals[v.Number]; w != nil {
			want = *w
		}
		// The lane's replays are no longer unexpected.
		if m.opt.Lanes[0].Replay || m.opt.Lanes[len(m.opt.Lanes)-1].Replay {
			want.unexpected = v.Unexpected
		}
		have := intervalCounts{v.Delivered, v.Late, v.OutOfOrder, v.Duplicates, v.Unexpected, v.Skipped}
		if have != want {
			return fmt.Errorf("interval %d: got %+v, want %+v", v.Number, have, want)
		}
		delete(intervals, v.Number)
	}
	for k, v := range intervals {
		if *v != (intervalCounts{}) && !(v.unexpected > 0 && *v == intervalCounts{unexpected: v.unexpected}) {
			return fmt.Errorf("interval %d is missing: %+v", k, *v)
		}
	}
	return nil
}
