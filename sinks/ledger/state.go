package ledger

import (
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// change records a subscription's new state; the caller holds the lock. It
// returns false for a state that cannot follow; what can be made of it is.
func (h *shard) change(pos uint32, t *eventmeter.Transition) bool {
	s := &h.subs[pos]
	at := max(t.At, 1)
	seen := at
	if t.Seen != 0 {
		seen = min(t.Seen, at)
	}
	switch t.To {
	case eventmeter.Attaching:
		sound := s.number == 0 || s.over
		if !sound {
			h.finish(s, at, at)
		}
		h.begin(pos, at)
		return sound
	case eventmeter.Active:
		return h.activate(pos, at)
	case eventmeter.Detaching:
		if s.number == 0 || s.over || s.state == eventmeter.Detaching {
			return false
		}
		h.end(s, at, seen)
		h.enter(s, eventmeter.Detaching)
		return true
	case eventmeter.Detached:
		if s.number == 0 || s.over {
			return false
		}
		h.finish(s, at, seen)
		h.enter(s, eventmeter.Detached)
		return true
	case eventmeter.Failed:
		return h.fail(pos, at, seen, t.Reason)
	}
	return false
}

// enter moves the subscription to a state.
func (h *shard) enter(s *subState, to eventmeter.State) {
	h.states[s.state]--
	s.state = to
	h.states[to]++
}

// activate makes the current window one in which something is owed.
func (h *shard) activate(pos uint32, at eventmeter.Instant) bool {
	s := &h.subs[pos]
	sound := true
	switch {
	case s.number == 0 || s.over:
		sound = false
		h.begin(pos, at)
	case s.state != eventmeter.Attaching:
		return false
	}
	s.active = max(at, s.attaching)
	h.ready.add(s.active.Sub(s.attaching))
	h.enter(s, eventmeter.Active)
	h.wake(s)
	return sound
}

// fail ends a subscription that could not be opened or broke.
func (h *shard) fail(pos uint32, at, seen eventmeter.Instant, reason string) bool {
	s := &h.subs[pos]
	sound := true
	if s.number == 0 || s.over {
		if s.over {
			return false
		}
		sound = false
		h.begin(pos, at)
	}
	switch s.state {
	case eventmeter.Attaching:
		h.failed++
		h.lane.readyReasons.add(reason)
		s.ending, s.until, s.seen = at, at, at
	case eventmeter.Active:
		h.broken++
		h.lane.brokenReasons.add(reason)
	}
	h.finish(s, at, seen)
	h.enter(s, eventmeter.Failed)
	return sound
}

// end closes the current window for new emissions.
func (h *shard) end(s *subState, at, seen eventmeter.Instant) {
	if s.ending != 0 {
		return
	}
	s.ending, s.until, s.seen = at, at, seen
	if s.active == 0 {
		h.cancel++
		h.wake(s)
		return
	}
	s.ending = max(at, s.active)
	s.until = s.ending
	for i := range h.slotsOf(s) {
		if t := &h.slotsOf(s)[i]; t.newest > t.base {
			s.until = max(s.until, h.ledger.sources[t.source].firedAt(t.newest)+1)
		}
	}
	h.within.Active += h.measured.overlap(s.active, s.ending)
	h.counts.Active += s.ending.Sub(s.active)
	h.counts.Windows++
	c := &h.rare(s).counts
	c.Active += s.ending.Sub(s.active)
	c.Windows++
}

// finish marks the current window as over.
func (h *shard) finish(s *subState, at, seen eventmeter.Instant) {
	h.end(s, at, seen)
	s.window.over = max(at, s.ending)
	s.over = true
	h.wake(s)
}

// wake counts the copies that waited to see whether the subscription becomes
// active.
func (h *shard) wake(s *subState) {
	if s.rare == nil || len(s.rare.waiting) == 0 {
		return
	}
	list := s.rare.waiting
	s.rare.waiting = nil
	h.waitingN -= int64(len(list))
	for _, x := range list {
		e := h.ledger.sources[x.source].at(x.seq)
		var v Verdict
		h.settle(s, &s.window, x, e, s.judge(e), &v)
	}
}

// begin opens a new window and puts the one before, if any, away.
func (h *shard) begin(pos uint32, at eventmeter.Instant) {
	s := &h.subs[pos]
	slots := h.slotsOf(s)
	if s.number > 0 {
		h.putAway(pos, slots)
	}
	keep := s.rare == nil || len(s.rare.former) == 0 || s.rare.former[len(s.rare.former)-1].number != s.number
	if s.rare != nil {
		s.rare.left, s.rare.resumed = s.window.over, false
		s.rare.updates = 0
		s.rare.suspended = nil
	}
	s.window = window{attaching: at}
	s.number++
	s.announced = 0
	s.over = false
	s.order = streamOrder{}
	for i := range slots {
		src := &h.ledger.sources[slots[i].source]
		slots[i].restart(src.firstFrom(1, at+1)-1, keep)
	}
	h.attempts++
	h.enter(s, eventmeter.Attaching)
}

// putAway judges the current window if every firing is settled; else it keeps
// it among the former ones until that is so.
func (h *shard) putAway(pos uint32, slots []slot) {
	s := &h.subs[pos]
	for i := range slots {
		t := &slots[i]
		t.seal = h.ledger.sources[t.source].n.Load() + 1
		if t.extra != nil {
			for _, o := range t.extra.holes {
				h.holes -= int64(o.to-o.from) + 1
			}
		}
	}
	h.judgeFormer(pos)
	if h.settled(slots) {
		h.closeWindow(pos, &s.window, slots, s.announced, h.evidence(s))
		return
	}
	r := h.rare(s)
	r.former = append(
		r.former,
		formerWindow{
			window:    s.window,
			number:    s.number,
			announced: s.announced,
			slots:     append([]slot(nil), slots...),
			evidence:  h.evidence(s),
		},
	)
}

// settled reports whether nothing in the sealed slots can change any more.
func (h *shard) settled(slots []slot) bool {
	for i := range slots {
		if h.ledger.sources[slots[i].source].watermark.Load() < slots[i].seal-1 {
			return false
		}
	}
	return true
}

// judgeFormer closes the former windows that can be. They are in order, and one
// cannot be settled before those before it.
func (h *shard) judgeFormer(pos uint32) {
	s := &h.subs[pos]
	if s.rare == nil {
		return
	}
	done := 0
	for i := range s.rare.former {
		f := &s.rare.former[i]
		if !h.settled(f.slots) {
			break
		}
		h.closeWindow(pos, &f.window, f.slots, f.announced, f.evidence)
		done++
	}
	s.rare.former = slices.Delete(s.rare.former, 0, done)
}

// closeWindow adds the figures of a window that cannot change any more.
func (h *shard) closeWindow(pos uint32, w *window, slots []slot, announced uint32, e evidence) {
	sum := h.ledger.sum(w, slots, announced, e, h.gapExample(pos, &h.examples))
	if sum != (SubCounts{}) {
		figure.AddCounts(&h.rare(&h.subs[pos]).counts, &sum)
		figure.AddCounts(&h.counts, &sum)
	}
}
