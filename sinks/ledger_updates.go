package sinks

import "github.com/eventmeter/eventmeter"

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
// update of its own, and nothing that the subscription hears had been fired
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
					Stamp: eventmeter.Stamp{Run: l.opt.Run, Source: t.source, Seq: seq}, Intended: e.intended, Fired: e.fired, Measured: e.measured,
				}
			}
			break
		}
	}
	return sole, open == 1 && sole.Fired <= at
}
