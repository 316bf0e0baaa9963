package ledger

import (
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// Snapshot draws up the account of a run that goes on, for a checkpoint. It
// differs from [Ledger.Account] in three ways.
//
//   - Deliveries go on meanwhile: each shard's lock is held for some
//     microseconds at a time, as by [Ledger.Live]. Counts and latencies of a
//     lane are of one moment for each shard; losses are looked up right after.
//   - A window that is still open is judged as if it ended now: what was fired
//     within DetachGrace and is missing is excused. A poller is owed nothing that
//     is newer than what its last polls brought.
//   - It has no examples of losses, and a series only where it is asked for.
//
// The account balances (see [Account.Check]) where it has a series.
func (l *Ledger) Snapshot(series bool) Account {
	out := Account{Run: l.opt.Run, At: l.now(), Interval: l.opt.Recorded}
	out.Measured, out.WarmUp = l.emissions()
	latency, lag := borrowed(), borrowed()
	l.publishing(latency, lag)
	out.FireLatency, out.FireLag = latency.export(), lag.export()
	latency.giveBack()
	lag.giveBack()
	out.Misuse = l.misused()
	for _, n := range l.lanes {
		out.Lanes = append(out.Lanes, l.snapshotLane(n, out.At, series))
	}
	return out
}

// spanPool holds intervals in the form that is quick to add to. They keep their
// memory, so that nothing is allocated while a lock is held.
var spanPool = sync.Pool{New: func() any { return &span{} }}

// openSpans are the intervals that a lane's shards still hold, by number.
type openSpans map[int64]*span

func (o openSpans) add(sp *span) {
	mine := o[sp.number]
	if mine == nil {
		mine = spanPool.Get().(*span)
		mine.reset(sp.number)
		o[sp.number] = mine
	}
	mine.merge(sp)
}

func (o openSpans) giveBack() {
	for _, sp := range o {
		spanPool.Put(sp)
	}
	clear(o)
}

func (l *Ledger) snapshotLane(n *lane, now eventmeter.Instant, series bool) LaneAccount {
	intended, sent, ready := borrowed(), borrowed(), borrowed()
	defer intended.giveBack()
	defer sent.giveBack()
	defer ready.giveBack()
	open := openSpans{}
	defer open.giveBack()
	var out LaneAccount
	var closed map[int64]*packedSpan
	// What a shard hands in while its neighbours are read would be found twice,
	// or not at all: then they are all read again, which is rare.
	for same := false; !same; {
		out = n.account()
		open.giveBack()
		ready.clear()
		var arrived arrivals
		before := n.series.handedIn()
		for _, h := range n.shards {
			h.mu.Lock()
			h.snapshot(&out, ready, &arrived, open)
			h.mu.Unlock()
		}
		out.Arrivals = arrived.export()
		closed, same = n.series.exportIf(before, intended, sent, series)
	}
	for _, sp := range open {
		intended.merge(&sp.intended)
		sent.merge(&sp.sent)
		if series {
			n.series.addTo(closed, sp)
		}
	}
	found := exampleSet{limit: l.opt.Examples, list: out.Examples}
	out.Examples = found.pick()
	out.Ready.Time, out.Ready.Reasons = ready.export(), n.readyReasons.export()
	out.Latency = Latency{FromIntended: intended.export(), FromSent: sent.export()}
	l.standing(n, &out, now)
	out.bound(out.Undeliverable)
	out.finishCounts()
	if series {
		out.Series = l.lineUp(closed)
	}
	return out
}

// exportIf adds the totals to intended and sent, unless something was handed in
// since before; then same is false. The intervals are copied where they are
// wanted.
func (r *series) exportIf(before int64, intended, sent *timing, wanted bool) (out map[int64]*packedSpan, same bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken != before {
		return nil, false
	}
	intended.merge(&r.intended)
	sent.merge(&r.sent)
	if !wanted {
		return nil, true
	}
	return r.copied(), true
}

// snapshot adds what the shard has counted itself; the caller holds the lock.
func (h *shard) snapshot(out *LaneAccount, ready *timing, arrived *arrivals, open openSpans) {
	h.addTo(out, ready, arrived)
	out.Examples = append(out.Examples, h.examples.list...)
	for _, sp := range [...]*span{&h.intervals.cur, &h.intervals.old} {
		if sp.used {
			open.add(sp)
		}
	}
}

// standing adds what is known of windows that the shards have not counted yet.
func (l *Ledger) standing(n *lane, out *LaneAccount, now eventmeter.Instant) {
	c := &out.SubCounts
	var scratch []slot
	for _, h := range n.shards {
		h.walk(func(s *subState) int64 {
			if s.rare != nil {
				for i := range s.rare.former {
					f := &s.rare.former[i]
					part := l.sum(&f.window, f.slots, f.announced, f.evidence, nil)
					figure.AddCounts(c, &part)
				}
			}
			if s.number == 0 {
				return 0
			}
			w, slots := s.window, h.slotsOf(s)
			if w.active == 0 || w.ending != 0 {
				part := l.sum(&w, slots, s.announced, h.evidence(s), nil)
				figure.AddCounts(c, &part)
				return 0
			}
			c.Windows++
			c.Active += max(now.Sub(w.active), 0)
			out.Measured.Active += h.measured.overlap(w.active, now)
			w.ending, w.until, w.seen = now, now, now
			if n.spec.Mode == eventmeter.Poll {
				// When it will ask next is not known here.
				scratch = append(scratch[:0], slots...)
				for i := range scratch {
					scratch[i].seal = scratch[i].newest + 1
				}
				slots = scratch
			}
			// Whether an announcement has something missing behind it is known at
			// the end, so none is called a false alarm.
			part := l.sum(&w, slots, 0, h.evidence(s), nil)
			figure.AddCounts(c, &part)
			return 0
		})
	}
}

// finishCounts fills in what follows from the counts. Expected is what came and
// what is lost, since the two were not counted in the same moment.
func (n *LaneAccount) finishCounts() {
	n.Expected = n.Delivered + n.Lost()
	n.finishGaps()
	n.Sums = n.SubCounts
}
