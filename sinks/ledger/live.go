package ledger

import (
	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// walkBatch is how many subscriptions are visited while a background task holds a
// shard's lock: a few microseconds, as long as some dozen deliveries take.
const walkBatch = 128

// Live is a snapshot of a run for a display or a scrape. It is a copy that
// belongs to the caller. [Ledger.Live] leaves out what only a scrape wants.
type Live struct {
	At eventmeter.Instant `merge:"-"`
	// Measured and WarmUp count the emissions so far.
	Measured, WarmUp Scheduled
	Lanes            []LiveLane `merge:"-"`
	// FireLag and FireLatency are as in [Account]. Only of [Ledger.Detail].
	FireLag, FireLatency Distribution
}

// LiveLane is the part of a Live for one lane. Its counts are those of the
// account so far: those of losses, gaps and the like are of windows that are
// closed, and what is missing in current ones is in Holes.
//
// Every count but Outstanding rises only, as long as no subscription is ended
// while something that it is owed is on its way. Expected is Delivered + Holes
// while the run is on its way: a pair counts as soon as it, or a newer one of
// the same source, has come. Of a finished account it is the owed pairs.
type LiveLane struct {
	Name          string          `merge:"-"`
	System        string          `merge:"-"`
	Mode          eventmeter.Mode `merge:"-"`
	Subscriptions int
	// Attaching and Open are the subscriptions in the states Attaching and
	// Active, Failed the attempts that failed.
	Attaching, Open, Failed int64
	LaneCounts
	// Holes is the number of losses known by now: owed emissions that are
	// missing although a newer one of the same source has come, which may come
	// yet, and all that was lost in windows that were followed by another.
	Holes int64
	// CallFailures is the number of calls that failed.
	CallFailures int64
	// Recent is At-Intended of what was delivered in the current interval and
	// those before, three of them or two seconds if that is more, Whole that of
	// the whole run. Only of a run that is on its way.
	Recent, Whole Quantiles

	// What follows is only of [Ledger.Detail] and of an account.

	// Outstanding counts what is owed and has not come; see
	// [Ledger.Outstanding]. It is 0 of a finished account.
	Outstanding int64
	// Kernel is how many copies have the kernel's receive time.
	Kernel int64
	// FromIntended and FromSent are the latencies of what was delivered, Ready
	// the time from asking for a subscription until it is active.
	FromIntended, FromSent, Ready Distribution
	// Traffic is the lane's calls by eventmeter.Cause, without Took.
	Traffic [eventmeter.Causes]Traffic
	// Measured is as in [LaneAccount].
	Measured Window
}

// Add adds the figures of another ledger with the same lanes, for a display of
// several processes.
func (l *Live) Add(m *Live) {
	figure.Add(l, m)
	for i := range min(len(l.Lanes), len(m.Lanes)) {
		figure.Add(&l.Lanes[i], &m.Lanes[i])
	}
}

// Live returns the figures so far. It holds each shard's lock for some
// microseconds at a time, so that the parts of the answer are of slightly
// different moments.
func (l *Ledger) Live() Live { return l.live(false) }

// Detail returns all figures so far. It costs more than [Ledger.Live], because
// it looks at every subscription: some milliseconds for ten thousand, while
// which deliveries go on.
func (l *Ledger) Detail() Live {
	out := l.live(true)
	lag, latency := borrowed(), borrowed()
	defer lag.giveBack()
	defer latency.giveBack()
	l.publishing(latency, lag)
	out.FireLag, out.FireLatency = lag.distribution(), latency.distribution()
	return out
}

func (l *Ledger) live(detail bool) Live {
	out := Live{At: l.now()}
	out.Measured, out.WarmUp = l.emissions()
	since := int64(out.At)/int64(l.opt.Interval) - int64(openFor(l.opt.Interval))
	for _, n := range l.lanes {
		lane := LiveLane{
			Name: n.spec.Name, System: n.spec.System, Mode: n.spec.Mode, Subscriptions: n.spec.Subscriptions,
			CallFailures: n.callFailures.Load(),
		}
		l.liveShards(n, &lane, out.At, since, detail)
		lane.Notices = n.notices()
		lane.Holes += lane.Lost() // of windows that are closed
		lane.bound(lane.Undeliverable)
		lane.Expected = lane.Delivered + lane.Holes
		if detail {
			n.detail(&lane)
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}

// liveShards adds up the lane's shards. It takes intervals from since on for
// recent.
func (l *Ledger) liveShards(n *lane, out *LiveLane, now eventmeter.Instant, since int64, detail bool) {
	recent, whole, ready := borrowed(), borrowed(), borrowed()
	defer recent.giveBack()
	defer whole.giveBack()
	defer ready.giveBack()
	for _, h := range n.shards {
		h.mu.Lock()
		figure.AddCounts(&out.SubCounts, &h.counts)
		out.Attaching += h.states[eventmeter.Attaching]
		out.Open += h.states[eventmeter.Active]
		out.Failed += h.failed
		out.Broken += h.broken
		out.OrderConflicts += h.orderConflicts
		out.Undecided += h.parkedN.Load() + h.waitingN
		out.EventMessages += h.messages
		out.EventBytes += h.bytes
		out.Received += h.received
		out.Kernel += h.arrivals.kernel
		figure.AddCounts(&out.Measured.WindowCounts, &h.within)
		if detail {
			ready.merge(&h.ready)
		}
		for _, sp := range []*span{&h.intervals.cur, &h.intervals.old} {
			if !sp.used {
				continue
			}
			whole.merge(&sp.intended)
			if sp.number >= since {
				recent.merge(&sp.intended)
			}
		}
		holes, measured := h.holes, h.measured
		h.mu.Unlock()
		if holes > 0 {
			out.Holes += h.walk(func(s *subState) int64 { return l.holesNow(&s.window, h.slotsOf(s)) })
		}
		if detail {
			l.detailShard(h, out, now, measured)
		}
	}
	n.series.mu.Lock()
	for _, sp := range n.series.open {
		if sp.number >= since {
			recent.merge(&sp.intended)
		}
	}
	whole.merge(&n.series.intended)
	n.series.mu.Unlock()
	out.Recent, out.Whole = recent.quantiles(), whole.quantiles()
	out.Ready = ready.distribution()
}

// walk adds up f over the shard's subscriptions, letting deliveries in between.
func (h *shard) walk(f func(*subState) int64) int64 {
	var n int64
	for from := 0; from < len(h.subs); from += walkBatch {
		h.mu.Lock()
		for i := from; i < min(from+walkBatch, len(h.subs)); i++ {
			n += f(&h.subs[i])
		}
		h.mu.Unlock()
	}
	return n
}

// Outstanding counts the pairs of emission and subscription that are owed and
// have not been delivered, over all subscriptions that are active now. An emission
// whose outcome is pending is owed to nobody yet; see Live.Measured.Pending.
func (l *Ledger) Outstanding() int64 {
	var sum int64
	for i := range l.lanes {
		sum += l.OutstandingOf(uint16(i))
	}
	return sum
}

// OutstandingOf is Outstanding of one lane, 0 for one that does not exist.
func (l *Ledger) OutstandingOf(lane uint16) int64 {
	if int(lane) >= len(l.lanes) {
		return 0
	}
	var sum int64
	for _, h := range l.lanes[lane].shards {
		sum += h.walk(func(s *subState) int64 {
			if s.state != eventmeter.Active {
				return 0
			}
			return l.outstanding(&s.window, h.slotsOf(s))
		})
	}
	return sum
}

// emissions returns the counts of emissions of all sources.
func (l *Ledger) emissions() (measured, warmUp Scheduled) {
	for i := range l.sources {
		s := &l.sources[i]
		s.mu.Lock()
		figure.AddCounts(&measured, &s.measured)
		figure.AddCounts(&warmUp, &s.warmUp)
		s.mu.Unlock()
	}
	l.drops.Lock()
	defer l.drops.Unlock()
	measured.Dropped, warmUp.Dropped = l.drops.measured, l.drops.warmUp
	return measured, warmUp
}

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
			Name:          n.Name,
			System:        n.System,
			Mode:          n.Mode,
			Subscriptions: n.Subscriptions,
			Attaching:     n.Ready.Open,
			Failed:        n.Ready.Failed,
			LaneCounts:    n.LaneCounts,
			Holes:         n.Lost(),
			Kernel:        n.Arrivals.Kernel,
			FromIntended:  n.Latency.FromIntended.Distribution(),
			FromSent:      n.Latency.FromSent.Distribution(),
			Ready:         n.Ready.Time.Distribution(),
			Traffic:       n.Traffic,
			Measured:      n.Measured,
		}
		for c := range lane.Traffic {
			lane.Traffic[c].Took = Timing{}
			lane.CallFailures += lane.Traffic[c].Failures
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}
