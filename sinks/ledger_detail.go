package sinks

import (
	"cmp"
	"time"

	"github.com/eventmeter/eventmeter"
)

// Distribution is a histogram with its buckets in a row: those of an
// HdrHistogram of three significant digits which are not empty, in rising
// order.
type Distribution struct {
	Buckets []Bucket
	Count   int64
	// Below and Above are the counts of values out of range, which are in the
	// first and the last possible bucket.
	Below, Above int64
}

// Bucket counts values from Low to High, both included.
type Bucket struct {
	Low, High time.Duration
	Count     int64
}

// distribution returns t's buckets.
func (t *timing) distribution() Distribution {
	out := Distribution{Count: t.n, Below: t.below, Above: t.above}
	if t.n == 0 {
		return out
	}
	filled := 0
	t.each(func(_, _ int64) { filled++ })
	out.Buckets = make([]Bucket, 0, filled)
	t.each(func(low, count int64) {
		width := int64(1) << unitBits
		for v := low >> unitBits; v >= 2*pageBuckets; v >>= 1 {
			width <<= 1
		}
		out.Buckets = append(out.Buckets, Bucket{Low: time.Duration(low), High: time.Duration(low + width - 1), Count: count})
	})
	return out
}

// Distribution returns the buckets of a timing.
func (t Timing) Distribution() Distribution {
	out := Distribution{Below: t.Below, Above: t.Above}
	if t.Histogram == nil {
		return out
	}
	bars := t.Histogram.Distribution()
	for _, b := range bars {
		if b.Count == 0 {
			continue
		}
		out.Buckets = append(out.Buckets, Bucket{Low: time.Duration(b.From), High: time.Duration(b.To), Count: b.Count})
		out.Count += b.Count
	}
	return out
}

// Plus returns both distributions together. It shares no memory with either
// that is written to later.
func (d Distribution) Plus(e Distribution) Distribution {
	out := Distribution{Count: d.Count + e.Count, Below: d.Below + e.Below, Above: d.Above + e.Above}
	a, b := d.Buckets, e.Buckets
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0].Low, b[0].Low) {
		case -1:
			out.Buckets, a = append(out.Buckets, a[0]), a[1:]
		case 1:
			out.Buckets, b = append(out.Buckets, b[0]), b[1:]
		default:
			both := a[0]
			both.High, both.Count = max(both.High, b[0].High), both.Count+b[0].Count
			out.Buckets, a, b = append(out.Buckets, both), a[1:], b[1:]
		}
	}
	out.Buckets = append(append(out.Buckets, a...), b...)
	return out
}

// AddFrom implements [figure.Adder].
func (d *Distribution) AddFrom(from any) { *d = d.Plus(*from.(*Distribution)) }

// detailShard adds what only a look at every subscription tells.
func (l *Ledger) detailShard(h *shard, out *LiveLane, now eventmeter.Instant, measured bounds) {
	out.Outstanding += h.walk(func(s *subState) int64 {
		if s.active != 0 && s.ending == 0 {
			out.Active += max(now.Sub(s.active), 0)
			out.Measured.Active += measured.overlap(s.active, now)
		}
		if s.state != eventmeter.Active {
			return 0
		}
		return l.outstanding(&s.window, h.slotsOf(s))
	})
}

// detail adds what the shards do not have by themselves.
func (n *lane) detail(out *LiveLane) {
	intended, sent := borrowed(), borrowed()
	defer intended.giveBack()
	defer sent.giveBack()
	n.latencies(intended, sent)
	out.FromIntended, out.FromSent = intended.distribution(), sent.distribution()
	for i := range n.traffic {
		t := &n.traffic[i]
		t.mu.Lock()
		out.Traffic[i], out.Measured.Traffic[i] = t.sum, t.within
		t.mu.Unlock()
	}
}

// latencies adds up those of all deliveries so far. What a shard hands in while
// its neighbours are read would be found twice, or not at all: then they are all
// read again, which is rare.
func (n *lane) latencies(intended, sent *timing) {
	for {
		before := n.series.handedIn()
		for _, h := range n.shards {
			h.mu.Lock()
			for _, sp := range [...]*span{&h.intervals.cur, &h.intervals.old} {
				if sp.used {
					intended.merge(&sp.intended)
					sent.merge(&sp.sent)
				}
			}
			h.mu.Unlock()
		}
		n.series.mu.Lock()
		same := n.series.taken == before
		if same {
			intended.merge(&n.series.intended)
			sent.merge(&n.series.sent)
		}
		n.series.mu.Unlock()
		if same {
			return
		}
		intended.clear()
		sent.clear()
	}
}

// Live returns the account's figures in the form of a scrape: the last one of a
// run, which agrees with its result to the last event.
func (a *Account) Live() Live {
	out := Live{
		At: a.At, Measured: a.Measured, WarmUp: a.WarmUp,
		FireLag: a.FireLag.Distribution(), FireLatency: a.FireLatency.Distribution(),
	}
	for i := range a.Lanes {
		n := &a.Lanes[i]
		lane := LiveLane{
			Name: n.Name, System: n.System, Mode: n.Mode, Subscriptions: n.Subscriptions,
			Attaching: n.Ready.Open, Failed: n.Ready.Failed, LaneCounts: n.LaneCounts, Holes: n.Lost(), Kernel: n.Arrivals.Kernel,
			FromIntended: n.Latency.FromIntended.Distribution(), FromSent: n.Latency.FromSent.Distribution(), Ready: n.Ready.Time.Distribution(),
			Traffic: n.Traffic, Measured: n.Measured,
		}
		for c := range lane.Traffic {
			lane.Traffic[c].Took = Timing{}
			lane.CallFailures += lane.Traffic[c].Failures
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}
