package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// Account draws up the figures. At the end of a run it is called once, after
// every emission is resolved and what is still to come has been waited for. It may
// be called earlier: the figures then balance as well, with everything that is
// still under way counted as lost; while it works, Resolved waits and
// deliveries to the lane that is being added up wait.
func (l *Ledger) Account() Account {
	l.resolving.Lock()
	defer l.resolving.Unlock()
	out := Account{Run: l.opt.Run, At: l.now(), Interval: l.opt.Recorded}
	out.Measured, out.WarmUp = l.emissions()
	var latency, lag timing
	l.publishing(&latency, &lag)
	out.FireLatency, out.FireLag = latency.export(), lag.export()
	out.Misuse = l.misused()
	for _, n := range l.lanes {
		out.Lanes = append(out.Lanes, l.accountLane(n, out.At))
	}
	return out
}

// publishing adds how long upstreams took to answer, and how late they were.
func (l *Ledger) publishing(latency, lag *timing) {
	for i := range l.sources {
		s := &l.sources[i]
		s.mu.Lock()
		latency.merge(&s.fireLatency)
		lag.merge(&s.fireLag)
		s.mu.Unlock()
	}
}

func (l *Ledger) misused() Misuse {
	return Misuse{
		Fired:        l.misuse.fired.Load(),
		Resolved:     l.misuse.resolved.Load(),
		Subscription: l.misuse.subscription.Load(),
		Transition:   l.misuse.transition.Load(),
	}
}

// account is what the lane itself has counted, beside its shards.
func (n *lane) account() LaneAccount {
	out := LaneAccount{
		Name: n.spec.Name, System: n.spec.System, Mode: n.spec.Mode, Ordered: n.spec.Ordered,
		Subscriptions: n.spec.Subscriptions,
		AnsweredBy:    n.answeredBy.export(),
		BrokenReasons: n.brokenReasons.export(),
		Failures:      n.failures.export(),
	}
	out.Notices = n.notices()
	for kind, of := range notices {
		if of.by != nil {
			*of.by(&out) = n.noticedBy[kind].export()
		}
	}
	for i := range n.traffic {
		out.Traffic[i], out.Measured.Traffic[i] = n.traffic[i].export()
	}
	return out
}

func (l *Ledger) accountLane(n *lane, now eventmeter.Instant) LaneAccount {
	out := n.account()
	// All shards at once, or one could hand an interval to the series between
	// the reading of the two.
	for _, h := range n.shards {
		h.mu.Lock()
		defer h.mu.Unlock()
	}
	n.accountShards(&out, now)
	out.SubCounts.bound(out.Undeliverable)
	out.Sums.bound(out.Undeliverable)
	spans := n.accountSpans(&out)
	out.Ready.Reasons = n.readyReasons.export()
	out.finishGaps()
	out.Series = l.lineUp(spans)
	return out
}

// accountShards adds up the counters of the lane and of its subscriptions; the
// caller holds the locks.
func (n *lane) accountShards(out *LaneAccount, now eventmeter.Instant) {
	var ready timing
	var arrived arrivals
	found := exampleSet{}
	for _, h := range n.shards {
		found.limit = h.examples.limit
		h.addTo(out, &ready, &arrived)
		h.account(out, now, &found)
		found.list = append(found.list, h.examples.list...)
	}
	out.Ready.Time = ready.export()
	out.Arrivals = arrived.export()
	out.Examples = found.pick()
}

// addTo adds what the shard has counted itself; the caller holds the lock.
func (h *shard) addTo(out *LaneAccount, ready *timing, arrived *arrivals) {
	ready.merge(&h.ready)
	out.Ready.Attempts += h.attempts
	out.Ready.Failed += h.failed
	out.Ready.Cancelled += h.cancel
	out.Ready.Open += h.states[eventmeter.Attaching]
	out.Broken += h.broken
	out.OrderConflicts += h.orderConflicts
	out.EventMessages += h.messages
	out.EventBytes += h.bytes
	out.Received += h.received
	figure.AddCounts(&out.Measured.WindowCounts, &h.within)
	arrived.merge(&h.arrivals)
	figure.AddCounts(&out.SubCounts, &h.counts)
}

// accountSpans adds up the latencies and returns the intervals; the caller
// holds the locks.
func (n *lane) accountSpans(out *LaneAccount) map[int64]*packedSpan {
	var intended, sent timing
	spans := n.series.export(&intended, &sent)
	for _, h := range n.shards {
		for _, sp := range []*span{&h.intervals.cur, &h.intervals.old} {
			if !sp.used {
				continue
			}
			intended.merge(&sp.intended)
			sent.merge(&sp.sent)
			n.series.addTo(spans, sp)
		}
	}
	out.Latency = Latency{FromIntended: intended.export(), FromSent: sent.export()}
	return spans
}

// account adds up the shard's subscriptions; the caller holds the lock.
func (h *shard) account(out *LaneAccount, now eventmeter.Instant, found *exampleSet) {
	undecided := h.undecided()
	for i := range h.subs {
		s := &h.subs[i]
		total, open := h.subCounts(s, now, h.gapExample(uint32(i), found))
		if s.active != 0 && s.ending == 0 {
			out.Measured.Active += h.measured.overlap(s.active, now)
		}
		total.Undecided = undecided[uint32(i)]
		open.Undecided = total.Undecided
		figure.AddCounts(&out.Sums, &total)
		figure.AddCounts(&out.SubCounts, &open)
	}
}

// undecided counts the parked copies by position of the subscription.
func (h *shard) undecided() map[uint32]int64 {
	var out map[uint32]int64
	for _, p := range h.parked {
		for _, w := range p.entries {
			if out == nil {
				out = make(map[uint32]int64)
			}
			out[w.sub]++
		}
	}
	return out
}

// subCounts returns the figures of a subscription, and the part of them that
// the shard's own counters do not have yet: that of windows which are not
// closed.
func (h *shard) subCounts(s *subState, now eventmeter.Instant, found func(*slot, run, SubCounts)) (total, open SubCounts) {
	if s.rare != nil {
		total = s.rare.counts
		for i := range s.rare.former {
			f := &s.rare.former[i]
			part := h.ledger.sum(&f.window, f.slots, f.announced, f.evidence, found)
			figure.AddCounts(&open, &part)
		}
		open.InFlight += int64(len(s.rare.waiting))
	}
	if s.number > 0 {
		part := h.ledger.sum(&s.window, h.slotsOf(s), s.announced, h.evidence(s), found)
		figure.AddCounts(&open, &part)
	}
	if s.active != 0 && s.ending == 0 {
		open.Windows++
		open.Active += max(now.Sub(s.active), 0)
	}
	total.Delivered = int64(s.delivered)
	figure.AddCounts(&total, &open)
	return total, open
}

// SubAccount returns the figures of one subscription, and none for one that
// does not exist.
func (l *Ledger) SubAccount(sub eventmeter.Sub) SubCounts {
	h, pos, ok := l.find(sub)
	if !ok {
		return SubCounts{}
	}
	now := l.now()
	l.resolving.Lock()
	defer l.resolving.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	total, _ := h.subCounts(&h.subs[pos], now, nil)
	total.bound(h.lane.noticed[eventmeter.Undeliverable].Load())
	total.Undecided = h.undecided()[pos]
	return total
}

// lineUp joins what a lane received with what the run fired.
func (l *Ledger) lineUp(spans map[int64]*packedSpan) []LaneInterval {
	all := make(map[int64]LaneInterval, len(spans))
	for k, p := range spans {
		all[k] = LaneInterval{
			Delivered: p.counts.delivered, Late: p.counts.late, OutOfOrder: p.counts.outOfOrder,
			Duplicates: p.counts.duplicates, Unexpected: p.counts.unexpected, Skipped: p.counts.skipped,
			FromIntended: p.intended.histogram(), FromSent: p.sent.histogram(),
		}
	}
	for i := range l.sources {
		s := &l.sources[i]
		s.mu.Lock()
		for _, f := range s.series {
			v := all[f.number]
			v.Fired += f.fired
			v.FiredWarmUp += f.warmUp
			all[f.number] = v
		}
		s.mu.Unlock()
	}
	l.drops.Lock()
	for k, n := range l.drops.series {
		v := all[k]
		v.Dropped += n
		all[k] = v
	}
	l.drops.Unlock()
	out := make([]LaneInterval, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		v := all[k]
		v.Number = k
		out = append(out, v)
	}
	return out
}

// gapExample returns a function that keeps runs of lost emissions in x.
func (h *shard) gapExample(pos uint32, x *exampleSet) func(*slot, run, SubCounts) {
	if x.limit == 0 {
		return nil
	}
	return func(t *slot, r run, ways SubCounts) {
		for _, way := range []struct {
			kind ExampleKind
			lost int64
		}{
			{ExampleLostSilent, ways.LostSilent}, {ExampleLostAnnounced, ways.LostAnnounced},
			{ExampleLostOrderUnknown, ways.LostOrderUnknown}, {ExampleLostUndeliverable, ways.LostUndeliverable},
			{ExampleLostRefused, ways.LostRefused}, {ExampleLostSuspended, ways.LostSuspended},
		} {
			if way.lost == 0 {
				continue
			}
			x.add(Example{
				Kind: way.kind, Sub: h.name(pos), Source: t.source, From: r.from, To: r.to,
				At: h.ledger.sources[t.source].firedAt(r.from), Detail: fmt.Sprintf("%d lost", way.lost),
			})
		}
	}
}
