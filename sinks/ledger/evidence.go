package ledger

import (
	"slices"

	"github.com/eventmeter/eventmeter"
)

// An undelivered event may have another explanation than a silent loss by the target.
// evidence is what is known about a window besides the copies that came: it moves
// losses out of LostSilent into rows of their own, but never more than it can explain.
//
//   - LostRefused: a copy came, and the sink refused every copy that came. The
//     slots keep which.
//   - LostUndeliverable: see [SubCounts]. Connections that fail before a request,
//     and deliveries for which there was no room here, name no subscription, so the
//     lane's number of them is an upper bound for all its subscriptions together. A target that tries several times for one
//     event leaves that bound too high, never too low.
//   - LostSuspended: fired or under way in a stretch in which the target reported
//     that it delivered nothing.
//
// Each loss has one row, the first that fits of: refused, announced,
// order unknown, undeliverable, suspended, silent.
type evidence struct {
	suspended []stretch          // in order, and apart from each other
	failed    eventmeter.Instant // of the last connection that failed; 0 = none did
	left      eventmeter.Instant // since when what was published has to be replayed; 0 = nothing has
	ordered   bool               // the lane's mode promises order
	own       stretch            // in which this side had no room, and the grace before it; zero = there is none
}

// stretch is the time after from, up to and including to.
type stretch struct{ from, to eventmeter.Instant }

// Lost is the number of owed emissions that did not come, for whatever reason.
func (c *SubCounts) Lost() int64 {
	return c.LostSilent + c.LostAnnounced + c.LostOrderUnknown + c.LostUndeliverable + c.LostRefused + c.LostSuspended
}

// bound keeps LostUndeliverable from exceeding the number of connections that
// failed. What exceeds it was lost otherwise.
func (c *SubCounts) bound(failed int64) {
	if over := c.LostUndeliverable - failed; over > 0 {
		suspended := min(over, c.AlsoSuspended)
		c.LostUndeliverable -= over
		c.LostSuspended += suspended
		c.LostSilent += over - suspended
	}
	c.AlsoSuspended = 0
}

// evidence returns what is known about the current window of s; the caller
// holds the lock.
func (h *shard) evidence(s *subState) evidence {
	e := evidence{failed: eventmeter.Instant(h.lane.failedAt.Load()), ordered: h.lane.spec.Ordered}
	if from := eventmeter.Instant(h.lane.ownFrom.Load()); from != 0 {
		e.own = stretch{from.Add(-h.ledger.opt.DetachGrace), eventmeter.Instant(h.lane.ownTo.Load())}
	}
	if s.rare != nil {
		e.suspended = s.rare.suspended
		if s.rare.resumed {
			e.left = s.rare.left
		}
	}
	return e
}

// reject notes that the sink refused a copy that is no delivery; the caller
// holds the lock. Copies that nobody is owed leave no trace.
func (h *shard) reject(pos uint32, stamp eventmeter.Stamp) {
	s := &h.subs[pos]
	e := h.ledger.emissionAt(stamp)
	if e == nil || s.number == 0 {
		return
	}
	t := h.slot(s, stamp.Source)
	if t != nil && stamp.Seq <= t.base && s.rare != nil {
		s.rare.left = 0 // it was replayed
	}
	if t == nil || stamp.Seq <= t.base || s.over && e.fired > s.window.over {
		return
	}
	x := t.more()
	x.rejected, _ = addSeq(x.rejected, stamp.Seq)
}

// suspend notes that the target delivered nothing of what it took from n.Since, or later, until
// n.At; the caller holds the lock. What it took later may have come before n.
func (h *shard) suspend(pos uint32, n *eventmeter.Notice) {
	s := &h.subs[pos]
	if s.active == 0 || s.over {
		return
	}
	r := h.rare(s)
	from, at := n.Since, n.At
	if n.Later {
		from = max(from, h.ledger.newestCame(h.slotsOf(s), at+1))
	}
	if n := len(r.suspended); n > 0 {
		from = max(from, r.suspended[n-1].to)
	}
	if from < at {
		r.suspended = append(r.suspended, stretch{from, at})
	}
}

// newestCame returns when the newest emission was fired, of those fired before an instant, of which
// a copy came, accepted or not; 0 when none did.
func (l *Ledger) newestCame(slots []slot, before eventmeter.Instant) eventmeter.Instant {
	var at eventmeter.Instant
	for i := range slots {
		t := &slots[i]
		src := &l.sources[t.source]
		limit := src.firstFrom(t.base+1, before) - 1
		seq := min(t.newest, limit)
		if t.extra != nil {
			for _, hole := range slices.Backward(t.extra.holes) {
				if hole.from <= seq && seq <= hole.to {
					seq = hole.from - 1
				}
			}
			for _, r := range t.extra.rejected {
				if r.from <= limit {
					seq = max(seq, min(r.to, limit))
				}
			}
		}
		if seq > t.base {
			at = max(at, src.firedAt(seq))
		}
	}
	return at
}

// divide says what became of the owed emissions of r, all of one kind, of which
// there are lost. came is when the newest emission was fired that came to the subscription.
func (l *Ledger) divide(t *slot, r run, lost int64, kind lossKind, e *evidence, came eventmeter.Instant) SubCounts {
	var n SubCounts
	src := &l.sources[t.source]
	var rest []run
	if t.extra != nil {
		rest, n.LostRefused = without(src, r, t.extra.rejected)
	} else {
		rest = []run{r}
	}
	switch kind {
	case lossAnnounced:
		n.LostAnnounced = lost - n.LostRefused
		return n
	case lossUnknown:
		n.LostOrderUnknown = lost - n.LostRefused
		return n
	}
	// What was fired after the last that came, and before the last connection that failed:
	// a sender that does not trust the certificate cannot deliver later either.
	rest = n.undeliverable(src, rest, came+1, e.failed, e.suspended)
	// What was fired while this side had no room, whatever came later.
	rest = n.undeliverable(src, rest, e.own.from, e.own.to, e.suspended)
	for _, p := range rest {
		n.LostSuspended += src.countSuspended(p, e.suspended)
	}
	n.LostSilent = lost - n.LostRefused - n.LostUndeliverable - n.LostSuspended
	return n
}

// undeliverable counts the owed emissions of the runs that were fired from an instant until
// before another, and returns what is left of the runs.
func (c *SubCounts) undeliverable(src *source, runs []run, from, before eventmeter.Instant, suspended []stretch) []run {
	if from >= before {
		return runs
	}
	var rest []run
	for _, p := range runs {
		low, high := max(p.from, src.firstFrom(p.from, from)), min(p.to, src.firstFrom(p.from, before)-1)
		if low > high {
			rest = append(rest, p)
			continue
		}
		c.LostUndeliverable += src.countOwed(low, high)
		c.AlsoSuspended += src.countSuspended(run{low, high}, suspended)
		if p.from < low {
			rest = append(rest, run{p.from, low - 1})
		}
		if high < p.to {
			rest = append(rest, run{high + 1, p.to})
		}
	}
	return rest
}

// without returns what is left of r without the runs of taken, and how many
// owed emissions are in those.
func without(src *source, r run, taken []run) (rest []run, owed int64) {
	// The first run that ends at r.from or later.
	i, _ := slices.BinarySearchFunc(taken, r.from, func(x run, seq uint32) int {
		if x.to < seq {
			return -1
		}
		return 1
	})
	for ; i < len(taken) && taken[i].from <= r.to; i++ {
		x := run{max(taken[i].from, r.from), min(taken[i].to, r.to)}
		if r.from < x.from {
			rest = append(rest, run{r.from, x.from - 1})
		}
		owed += src.countOwed(x.from, x.to)
		r.from = x.to + 1
	}
	if r.from <= r.to {
		rest = append(rest, r)
	}
	return rest, owed
}

// countSuspended counts the expected emissions of r that the target may have taken in one of the
// stretches: those that were fired or under way in it.
func (s *source) countSuspended(r run, list []stretch) int64 {
	var n int64
	next := r.from // of those that no stretch before had
	for _, x := range list {
		low, high := s.firstFrom(next, x.from+1), min(r.to, s.firstFrom(next, x.to+1)-1)
		for seq := next; seq < low && seq <= r.to; seq++ {
			if s.at(seq).acked.Load() > int64(x.from) {
				n += s.countOwed(seq, seq)
			}
		}
		n += s.countOwed(low, high)
		next = max(next, high+1)
	}
	return n
}
