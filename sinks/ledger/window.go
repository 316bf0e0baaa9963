package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// window is the time for which a subscription is owed something, and its
// surroundings. Instants that did not come about are zero.
type window struct {
	attaching, active eventmeter.Instant
	// ending is when it ended: Detaching, or Detached or Failed without one.
	ending eventmeter.Instant
	// until is the first instant that is outside: ending, or just after the
	// newest emission that had been received when the end was reported. The
	// second matters when an emission is fired and delivered between the
	// reading of ending and the report: it was counted, so it was owed.
	until eventmeter.Instant
	// seen is until when what was fired could have been received: ending, or
	// before that where the subscription had to ask.
	seen eventmeter.Instant
	// over is when Detached or Failed were reported.
	over eventmeter.Instant
	// updated is when the newest update without a payload came.
	updated eventmeter.Instant
}

// excusedSince is the first instant whose emissions, if they are missing from a
// window that has ended, are not lost: there was no time to deliver them.
func (w *window) excusedSince(grace time.Duration) eventmeter.Instant {
	return w.seen.Add(-grace)
}

// subState is the state of one subscription; state none is 0.
//
// What each delivery needs lies side by side, from order.seq to window.ending: of
// thousands of subscriptions, none is in the cache when its next delivery comes,
// and each cache line is a miss.
type subState struct {
	announced uint32 // the announcements in the current window
	order     streamOrder
	// first and slots locate its slots in the shard.
	first, slots uint32
	number       uint32 // counts the windows, from 1
	delivered    uint32
	state        eventmeter.State
	over         bool // the window is over: Detached or Failed
	window
	rare *subRare
}

// subRare is what only a subscription with irregularities needs.
type subRare struct {
	counts SubCounts
	// waiting are first copies that came before the subscription was reported
	// active.
	waiting []waiting
	// former are windows that cannot be judged yet because a firing is
	// pending.
	former []formerWindow
	// updates is the number of updates without a payload in the current window.
	updates int64
	// suspended are the stretches of the current window in which the target
	// reported that it delivered nothing.
	suspended []stretch
	// left is when the window before was over; 0 = what was published since need not
	// come. resumed: the current window began at a cursor of that one.
	left    eventmeter.Instant
	resumed bool
}

// formerWindow is a window that another followed before it could be judged.
type formerWindow struct {
	window
	number, announced uint32
	slots             []slot // sealed
	evidence          evidence
}

// waiting is a first copy of which it is not known yet whether it was owed.
type waiting struct {
	at      eventmeter.Instant
	eventID uint64
	sub     uint32 // position in the shard
	window  uint32
	seq     uint32
	newest  uint32 // newest seq that the subscription had seen before
	source  uint16
}

// class is what a first copy is by the times of its emission and window.
type class uint8

const (
	classOwed class = iota
	classUndecided
	classWaits // for the subscription to become active
	classRecovered
	classStale
	classInFlight
)

// judge classifies a first copy of e.
func (w *window) judge(e *emission) class {
	switch e.result() {
	case eventmeter.Pending:
		return classUndecided
	case eventmeter.Uncertain, eventmeter.Refused:
		return classRecovered
	}
	switch {
	case eventmeter.Instant(e.acked.Load()) <= w.attaching:
		return classStale
	case w.active == 0 && w.ending == 0 && e.fired > w.attaching:
		return classWaits
	case w.active == 0 || e.fired <= w.active:
		return classInFlight
	case w.ending != 0 && e.fired >= w.until:
		return classInFlight
	}
	return classOwed
}

// gapRun follows runs of lost emissions of one slot.
type gapRun struct {
	end    uint32 // last seq of the run so far
	length int64
}

// sum judges the window over its slots. found, when not nil, is called with every
// run of seqs in which something was lost, once for each way of losing.
func (l *Ledger) sum(w *window, slots []slot, announced uint32, e evidence, found func(*slot, run, SubCounts)) SubCounts {
	var s SubCounts
	if w.active == 0 {
		return s
	}
	var backed []run // announcements that something missing stands behind
	came := l.newestCame(slots, math.MaxInt64)
	for i := range slots {
		backed = l.sumSlot(&s, w, &slots[i], backed, &e, came, found)
	}
	if announced > 0 {
		s.FalseAlarms = int64(announced) - covered(backed)
	}
	if e.left != 0 && l.inVain(w, slots, &e) {
		s.NotReplayed = 1
	}
	return s
}

func (l *Ledger) sumSlot(
	s *SubCounts,
	w *window,
	t *slot,
	backed []run,
	e *evidence,
	came eventmeter.Instant,
	found func(*slot, run, SubCounts),
) []run {
	src := &l.sources[t.source]
	// Emissions up to base were fired before Attaching, so before Active.
	low := src.firstFrom(t.base+1, w.active+1)
	high := src.n.Load()
	excusedFrom := high + 1
	if w.ending != 0 {
		high = src.firstFrom(t.base+1, w.until) - 1
		excusedFrom = src.firstFrom(low, w.excusedSince(l.opt.DetachGrace))
	}
	if t.seal != 0 {
		high = min(high, t.seal-1)
	}
	s.Expected += src.countOwed(low, high)
	var gap gapRun
	claimed := t.extra != nil && len(t.extra.claims) > 0
	var unsaid []run // what no announcement can be about; only where claimed
	piece := func(h run) {
		from, to := max(h.from, low), min(h.to, high)
		from = s.identified(src, w, from, to)
		excused := src.countOwed(max(from, excusedFrom), to)
		s.Excused += excused
		s.Expected -= excused
		to = min(to, excusedFrom-1)
		lost := src.countOwed(from, to)
		if lost == 0 {
			return
		}
		t.eachLoss(src, from, to, func(kind lossKind, r run, n int64) {
			if claimed && kind == lossSilent {
				unsaid = append(unsaid, r)
			}
			ways := l.divide(t, r, n, kind, e, came)
			figure.AddCounts(s, &ways)
			if found != nil {
				found(t, r, ways)
			}
		})
		if gap.length == 0 || src.countOwed(gap.end+1, from-1) > 0 {
			s.GapIncidents++
			gap.length = 0
		}
		gap.end = to
		gap.length += lost
		s.LongestGap = max(s.LongestGap, gap.length)
	}
	if t.extra != nil {
		for _, h := range t.extra.holes {
			piece(h)
		}
	}
	piece(run{t.newest + 1, high})
	if claimed {
		s.Overclaimed += t.overclaims(src, unsaid)
	}
	return t.backed(src, src.firstFrom(t.base+1, w.attaching+1), high, backed)
}

// identified takes out of account the emissions up to to that an update without a
// payload may have stood for, and returns the first one after them.
func (s *SubCounts) identified(src *source, w *window, from, to uint32) uint32 {
	if w.updated == 0 {
		return from
	}
	after := src.firstFrom(from, w.updated+1)
	unidentified := src.countOwed(from, min(to, after-1))
	s.Unidentified += unidentified
	s.Expected -= unidentified
	return max(from, after)
}

// covered returns how many numbers the runs contain together.
func covered(runs []run) int64 {
	slices.SortFunc(runs, func(a, b run) int { return int(int64(a.from) - int64(b.from)) })
	var n int64
	var last uint32
	for _, r := range runs {
		from := max(r.from, last+1)
		if from <= r.to {
			n += int64(r.to-from) + 1
			last = r.to
		}
	}
	return n
}

// holesNow counts the owed emissions missing from the slots although a newer
// one has come.
func (l *Ledger) holesNow(w *window, slots []slot) int64 {
	var n int64
	if w.active == 0 {
		return 0
	}
	for i := range slots {
		t := &slots[i]
		if t.extra == nil || len(t.extra.holes) == 0 {
			continue
		}
		src := &l.sources[t.source]
		low := src.firstFrom(t.base+1, w.active+1)
		high := t.newest
		if w.ending != 0 {
			high = min(high, src.firstFrom(low, w.excusedSince(l.opt.DetachGrace))-1)
		}
		for _, h := range t.extra.holes {
			n += src.countOwed(max(h.from, low), min(h.to, high))
		}
	}
	return n
}

// outstanding counts the owed emissions missing from the slots of an active
// window.
func (l *Ledger) outstanding(w *window, slots []slot) int64 {
	n := l.holesNow(w, slots)
	for i := range slots {
		t := &slots[i]
		src := &l.sources[t.source]
		if high := src.n.Load(); high > t.newest {
			n += src.countOwed(src.firstFrom(t.newest+1, w.active+1), high)
		}
	}
	return n
}
