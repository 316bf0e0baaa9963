package sinks

import "github.com/eventmeter/eventmeter"

// walkBatch is how many subscriptions are looked at while a shard's lock is
// held by something that is not in a hurry: a few microseconds, as long as some
// dozen deliveries take.
const walkBatch = 128

// Live returns the figures so far. It holds each shard's lock for some
// microseconds at a time, so that the parts of the answer are of slightly
// different moments.
func (l *Ledger) Live() Live {
	out := Live{At: l.now()}
	out.Measured, out.WarmUp = l.emissions()
	since := int64(out.At)/int64(l.opt.Interval) - int64(openFor(l.opt.Interval))
	for _, n := range l.lanes {
		out.Lanes = append(out.Lanes, l.liveLane(n, since))
	}
	return out
}

// liveLane takes intervals from since on for recent.
func (l *Ledger) liveLane(n *lane, since int64) LiveLane {
	out := LiveLane{
		Name:            n.spec.Name,
		Rejected:        n.rejected.Load(),
		Malformed:       n.malformed.Load(),
		Oversized:       n.oversized.Load(),
		Reconnects:      n.reconnects.Load(),
		DeadStreams:     n.deadStreams.Load(),
		Terminated:      n.terminated.Load(),
		TransientErrors: n.transient.Load(),
		CallFailures:    n.callFailures.Load(),
	}
	var c SubCounts
	recent, whole := borrowed(), borrowed()
	defer recent.giveBack()
	defer whole.giveBack()
	for _, h := range n.shards {
		h.mu.Lock()
		c.plus(&h.counts)
		out.Attaching += h.states[eventmeter.Attaching]
		out.Open += h.states[eventmeter.Active]
		out.Failed += h.failed
		out.Broken += h.broken
		out.Undecided += h.parkedN.Load() + h.waitingN
		out.EventMessages += h.messages
		out.EventBytes += h.bytes
		out.Received += h.received
		for _, sp := range []*span{&h.intervals.cur, &h.intervals.old} {
			if !sp.used {
				continue
			}
			whole.merge(&sp.intended)
			if sp.number >= since {
				recent.merge(&sp.intended)
			}
		}
		holes := h.holes
		h.mu.Unlock()
		if holes > 0 {
			out.Holes += h.walk(func(s *subState) int64 { return l.holesNow(&s.window, h.slotsOf(s)) })
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

	out.Delivered, out.Duplicates, out.Unexpected = c.Delivered, c.Duplicates, c.Unexpected
	out.Holes += c.Lost() // of windows that are closed
	out.OutOfOrder, out.Late, out.Recovered = c.OutOfOrder, c.Late, c.Recovered
	out.InFlight, out.Replayed, out.Unprobed = c.InFlight, c.Replayed, c.Unprobed
	out.Announcements, out.Overclaimed = c.Announcements, c.Overclaimed
	out.Recent, out.Whole = recent.quantiles(), whole.quantiles()
	return out
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
		measured.plus(s.measured)
		warmUp.plus(s.warmUp)
		s.mu.Unlock()
	}
	l.drops.Lock()
	defer l.drops.Unlock()
	measured.Dropped, warmUp.Dropped = l.drops.measured, l.drops.warmUp
	return measured, warmUp
}
