package ledger

import "github.com/eventmeter/eventmeter"

// Emission returns what is known about one emission: its scheduled and its publishing
// time, whether it is measured, and its outcome so far. The number of the emission is
// not kept and is 0. It returns false for an emission that this run has not
// published.
//
// It takes no lock, so a system whose clients learn of several emissions at
// once may ask on the path of each.
func (l *Ledger) Emission(s eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool) {
	e := l.emissionAt(s)
	if e == nil {
		return eventmeter.Emission{}, eventmeter.Pending, false
	}
	return eventmeter.Emission{Stamp: s, Intended: e.intended, Fired: e.fired, Measured: e.measured}, e.result(), true
}

// emissionAt returns one emission of this run; nil = it was not fired.
func (l *Ledger) emissionAt(s eventmeter.Stamp) *emission {
	if s.Run != l.opt.Run || int(s.Source) >= len(l.sources) {
		return nil
	}
	return l.sources[s.Source].at(s.Seq)
}

// PublishedAt implements [eventmeter.Publisher].
func (l *Ledger) PublishedAt(s eventmeter.Stamp) (eventmeter.Instant, bool) {
	e := l.emissionAt(s)
	if e == nil {
		return 0, false
	}
	return e.fired, true
}

// Run returns the run number that every probe id of this run carries.
func (l *Ledger) Run() uint32 { return l.opt.Run }

// Sources returns the number of sources.
func (l *Ledger) Sources() int { return len(l.sources) }

// AckedAt returns when an accepted emission of this run was acknowledged to the
// upstream, and 0 for one that is not known, or not, or not yet. It takes no
// lock and does not allocate.
func (l *Ledger) AckedAt(s eventmeter.Stamp) eventmeter.Instant {
	e := l.emissionAt(s)
	if e == nil || e.result() != eventmeter.Accepted {
		return 0
	}
	return eventmeter.Instant(e.acked.Load())
}

// EachSub calls visit with the figures of some subscriptions of a lane: the
// position in indexes, and what [Ledger.SubAccount] gives. It is for many of
// them at a time; indexes that do not exist are left out, and the order is the
// ledger's. visit must not call the ledger.
func (l *Ledger) EachSub(lane uint16, indexes []uint32, visit func(i int, c *SubCounts)) {
	if int(lane) >= len(l.lanes) || len(indexes) == 0 {
		return
	}
	now := l.now()
	l.resolving.Lock()
	defer l.resolving.Unlock()
	// By shard, so that what is undecided is counted once for all of them.
	mine := make(map[*shard][]int)
	for i, index := range indexes {
		if h, _, ok := l.find(eventmeter.Sub{Lane: lane, Index: index}); ok {
			mine[h] = append(mine[h], i)
		}
	}
	for h, list := range mine {
		l.visit(h, lane, indexes, list, now, visit)
	}
}

// visit gives the figures of subscriptions of one shard.
func (l *Ledger) visit(h *shard, lane uint16, indexes []uint32, list []int, now eventmeter.Instant, visit func(int, *SubCounts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	undecided := h.undecided()
	for _, i := range list {
		_, pos, _ := l.find(eventmeter.Sub{Lane: lane, Index: indexes[i]})
		total, _ := h.subCounts(&h.subs[pos], now, nil)
		total.bound(h.lane.noticed[eventmeter.Undeliverable].Load())
		total.Undecided = undecided[pos]
		visit(i, &total)
	}
}

// Updates without a payload name a resource and no event. What such an update
// stands for cannot be told: servers may put several changes into one. So an
// owed emission that was fired before the newest update of its subscription
// came is neither delivered nor lost, but unidentified. One that no update came
// after is lost like any other.

// update notes an update without a payload; the caller holds the lock.
func (h *shard) update(s *subState, at eventmeter.Instant) {
	if s.number == 0 || s.over {
		return
	}
	s.updated = max(s.updated, at)
	h.rare(s).updates++
}

// Sole returns the emission that an update without a payload stands for, which
// came to a subscription at that instant and is not reported yet. It returns
// false where more than one would do: only if every emission before has had an
// update of its own, and nothing that the subscription is owed had been fired
// before it was active, is there a single one. An emission that had no update,
// because two became one or one was lost, therefore ends the certainty for the
// rest of the window. A run with siblings has no certainty at all, since their
// events change the same resources.
//
// It relies on the target to send no more than one update for a change.
func (l *Ledger) Sole(sub eventmeter.Sub, at eventmeter.Instant) (eventmeter.Emission, bool) {
	h, pos, ok := l.find(sub)
	if !ok || l.opt.Sibling != nil {
		return eventmeter.Emission{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.subs[pos]
	if s.active == 0 || s.over {
		return eventmeter.Emission{}, false
	}
	var open int64
	if s.rare != nil {
		open = -s.rare.updates
	}
	sole := eventmeter.Emission{Fired: -1}
	for i := range h.slotsOf(s) {
		t := &h.slotsOf(s)[i]
		src := &l.sources[t.source]
		n := src.n.Load()
		if n == 0 {
			continue
		}
		if t.newest > t.base || src.firedAt(1) <= s.active {
			return eventmeter.Emission{}, false
		}
		open += src.countSuspect(1, n)
		for seq := n; seq > 0; seq-- {
			e := src.at(seq)
			if e.result() == eventmeter.Refused {
				continue
			}
			if e.fired > sole.Fired {
				sole = eventmeter.Emission{
					Stamp: eventmeter.Stamp{
						Run:    l.opt.Run,
						Source: t.source,
						Seq:    seq,
					},
					Intended: e.intended,
					Fired:    e.fired,
					Measured: e.measured,
				}
			}
			break
		}
	}
	return sole, open == 1 && sole.Fired <= at
}
