package sinks

import (
	"time"

	"github.com/eventmeter/eventmeter"
)

// Detail is a [Live] with all that a display has no room for: what a scrape of
// metrics wants. It is a copy that belongs to the caller.
type Detail struct {
	Live
	// FireLag and FireLatency are as in [Account].
	FireLag, FireLatency Distribution
	// More has the rest of each lane, in the order of Live.Lanes.
	More []LaneDetail
}

// LaneDetail is what a [LiveLane] leaves out. Every count but Outstanding rises
// only, as long as no subscription is ended while something that it is owed is
// on its way.
type LaneDetail struct {
	System        string
	Mode          eventmeter.Mode
	Subscriptions int
	// Expected = Delivered + Holes while the run is on its way: a pair counts as
	// soon as it, or a newer one of the same source, has come. Those that are
	// under way are Outstanding. Of a finished account it is the owed pairs.
	Expected int64
	// Outstanding counts what is owed and has not come; see
	// [Ledger.Outstanding]. It is 0 of a finished account.
	Outstanding int64
	// LostSilent and LostAnnounced are known of windows that are closed: those
	// of the current ones are counted in Holes until the account is drawn up.
	// So are the others.
	LostSilent, LostAnnounced, LostOrderUnknown   int64
	LostUndeliverable, LostRefused, LostSuspended int64
	// Undeliverable and Suspended are as in [LaneAccount].
	Undeliverable, Suspended   int64
	Gaps, FalseAlarms, Excused int64
	// Unidentified is known of windows that are closed, until the account is
	// drawn up.
	Unidentified int64
	// Longest is the length of the longest gap, in emissions.
	Longest int64
	Foreign int64
	// Kernel is how many copies have the kernel's receive time.
	Kernel int64
	// Active is the time that subscriptions were active, added up.
	Active time.Duration
	// FromIntended and FromSent are the latencies of what was delivered, Ready
	// the time from asking for a subscription until it is active.
	FromIntended, FromSent, Ready Distribution
	// Traffic is the lane's calls by eventmeter.Cause, without Took.
	Traffic [eventmeter.Causes]Traffic
	// Measured is as in [LaneAccount].
	Measured Window
}

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

// Detail returns all figures so far. It costs more than [Ledger.Live], because
// it looks at every subscription: some milliseconds for ten thousand, while
// which deliveries go on.
func (l *Ledger) Detail() Detail {
	out := Detail{Live: l.Live()}
	lag, latency := borrowed(), borrowed()
	for i := range l.sources {
		s := &l.sources[i]
		s.mu.Lock()
		latency.merge(&s.fireLatency)
		lag.merge(&s.fireLag)
		s.mu.Unlock()
	}
	out.FireLag, out.FireLatency = lag.distribution(), latency.distribution()
	lag.giveBack()
	latency.giveBack()
	for i, n := range l.lanes {
		d := l.detailLane(n, out.At)
		d.Expected = out.Lanes[i].Delivered + out.Lanes[i].Holes
		out.More = append(out.More, d)
	}
	return out
}

func (l *Ledger) detailLane(n *lane, now eventmeter.Instant) LaneDetail {
	out := LaneDetail{System: n.spec.System, Mode: n.spec.Mode, Subscriptions: n.spec.Subscriptions}
	var c SubCounts
	ready := borrowed()
	defer ready.giveBack()
	for _, h := range n.shards {
		h.mu.Lock()
		c.plus(&h.counts)
		ready.merge(&h.ready)
		out.Kernel += h.arrivals.kernel
		out.Measured.add(&h.within)
		measured := h.measured
		h.mu.Unlock()
		out.Outstanding += h.walk(func(s *subState) int64 {
			if s.active != 0 && s.ending == 0 {
				c.Active += max(now.Sub(s.active), 0)
				out.Measured.Active += measured.overlap(s.active, now)
			}
			if s.state != eventmeter.Active {
				return 0
			}
			return l.outstanding(&s.window, h.slotsOf(s))
		})
	}
	intended, sent := borrowed(), borrowed()
	defer intended.giveBack()
	defer sent.giveBack()
	n.latencies(intended, sent)
	out.FromIntended, out.FromSent, out.Ready = intended.distribution(), sent.distribution(), ready.distribution()
	out.Undeliverable, out.Suspended = n.undeliverable.Load(), n.suspensions.Load()
	c.bound(out.Undeliverable)
	out.count(&c)
	for i := range n.traffic {
		t := &n.traffic[i]
		t.mu.Lock()
		out.Traffic[i], out.Measured.Traffic[i] = t.sum, t.within
		t.mu.Unlock()
	}
	return out
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

// count takes over what is counted for subscriptions, too.
func (d *LaneDetail) count(c *SubCounts) {
	d.LostSilent, d.LostAnnounced, d.LostOrderUnknown = c.LostSilent, c.LostAnnounced, c.LostOrderUnknown
	d.LostUndeliverable, d.LostRefused, d.LostSuspended = c.LostUndeliverable, c.LostRefused, c.LostSuspended
	d.Gaps, d.FalseAlarms, d.Excused = c.GapIncidents, c.FalseAlarms, c.Excused
	d.Unidentified = c.Unidentified
	d.Longest, d.Foreign, d.Active = c.LongestGap, c.Foreign, c.Active
}

// Detail returns the account's figures in the form of a scrape: the last one
// of a run, which agrees with its result to the last event.
func (a *Account) Detail() Detail {
	out := Detail{
		Live:    Live{At: a.At, Measured: a.Measured, WarmUp: a.WarmUp},
		FireLag: a.FireLag.Distribution(), FireLatency: a.FireLatency.Distribution(),
	}
	for i := range a.Lanes {
		n := &a.Lanes[i]
		live := LiveLane{
			Name: n.Name, Failed: n.Ready.Failed, Broken: n.Broken, Attaching: n.Ready.Open,
			Delivered: n.Delivered, Undecided: n.Undecided, Duplicates: n.Duplicates, Unexpected: n.Unexpected,
			OutOfOrder: n.OutOfOrder, Late: n.Late, Recovered: n.Recovered, InFlight: n.InFlight, Replayed: n.Replayed,
			Unprobed: n.Unprobed, Announcements: n.Announcements, Overclaimed: n.Overclaimed,
			Rejected: n.Rejected, Malformed: n.Malformed, Oversized: n.Oversized, Reconnects: n.Reconnects, DeadStreams: n.DeadStreams,
			Terminated: n.Terminated, TransientErrors: n.TransientErrors, Holes: n.Lost(),
			EventMessages: n.EventMessages, EventBytes: n.EventBytes, Received: n.Received,
		}
		d := LaneDetail{
			System: n.System, Mode: n.Mode, Subscriptions: n.Subscriptions, Expected: n.Expected,
			FromIntended: n.Latency.FromIntended.Distribution(), FromSent: n.Latency.FromSent.Distribution(), Ready: n.Ready.Time.Distribution(),
			Traffic: n.Traffic, Measured: n.Measured, Kernel: n.Arrivals.Kernel, Undeliverable: n.Undeliverable, Suspended: n.Suspended,
		}
		for c := range d.Traffic {
			d.Traffic[c].Took = Timing{}
			live.CallFailures += d.Traffic[c].Failures
		}
		d.count(&n.SubCounts)
		out.Lanes = append(out.Lanes, live)
		out.More = append(out.More, d)
	}
	return out
}
