package ledger

import (
	"slices"
	"sync/atomic"
)

// slot is what a subscription remembers of one source in the current window: 32
// bytes as long as everything arrives in order.
//
// What came is kept as its complement. Emissions are split at base, the last
// one that was fired before the subscription was asked for. Above it nearly
// everything is expected to come, so the slot keeps the newest seq and the
// holes below it; at or below base nearly nothing is, so there it keeps what
// did come. Both stay small whatever the length of the run.
type slot struct {
	extra *slotExtra
	base  uint32
	// newest is the highest seq seen, or base.
	newest uint32
	// last is the last emission whose first copy came, without those known to be
	// out of order; 0 if none did.
	last uint32
	// open is the place, from 1, of the first announcement that nothing has come
	// after; 0 when there is none.
	open   uint32
	source uint16
	// seal, when not 0, is the first seq that had not been fired when the next
	// window began: it and later ones are no longer this window's.
	seal uint32
}

// slotExtra is what only a slot with irregularities needs.
type slotExtra struct {
	holes   []run // ascending, above base, below newest
	early   []run // ascending, not adjacent, at or below base: seen
	odd     []oddID
	refused []uint32 // seqs whose newest copy the sink refused
	// announced are the announcements, in the order in which they came; stale
	// is as in announcement, of now.
	announced []announcement
	stale     uint32
	claims    []uint32 // emissions up to which all was claimed, ascending
	// rejected are the seqs above base of which the sink refused a copy that
	// is no delivery; ascending, not adjacent.
	rejected []run
	// forgotten is the highest seq whose odd ids were dropped.
	forgotten uint32
}

// run is the seqs from..to.
type run struct{ from, to uint32 }

// oddID is an event id under which seq was delivered. As long as there is none
// for a seq, it was delivered under the lane's first id for it and no other;
// otherwise the oddIDs of the seq are all its ids.
type oddID struct {
	seq uint32
	id  uint64
}

// keepOdd bounds the ids kept per slot, for targets that give every
// subscription ids of its own.
const keepOdd = 64

func (s *slot) more() *slotExtra {
	if s.extra == nil {
		s.extra = &slotExtra{}
	}
	return s.extra
}

// restart begins a new window after base. The memory of the former window is
// used again when keep is true.
func (s *slot) restart(base uint32, keep bool) {
	s.base, s.newest, s.last, s.open, s.seal = base, base, 0, 0, 0
	switch {
	case s.extra == nil:
	case keep:
		x := s.extra
		*x = slotExtra{
			holes: x.holes[:0], early: x.early[:0], odd: x.odd[:0], refused: x.refused[:0], rejected: x.rejected[:0],
			announced: x.announced[:0], claims: x.claims[:0],
		}
	default:
		s.extra = nil
	}
}

// see notes a copy of seq. first is false for a second or later copy; opened is
// the hole that the copy opened, empty (from > to) when it opened none.
func (s *slot) see(seq uint32) (first bool, opened run) {
	opened = run{1, 0}
	switch {
	case seq > s.newest:
		if seq > s.newest+1 {
			opened = run{s.newest + 1, seq - 1}
			x := s.more()
			x.holes = append(x.holes, opened)
		}
		s.newest = seq
		return true, opened
	case seq > s.base:
		return s.extra != nil && s.extra.fill(seq), opened
	default:
		x := s.more()
		x.early, first = addSeq(x.early, seq)
		return first, opened
	}
}

// fill takes seq out of its hole and reports whether it was in one.
func (x *slotExtra) fill(seq uint32) bool {
	i, ok := slices.BinarySearchFunc(x.holes, seq, func(h run, seq uint32) int {
		switch {
		case h.to < seq:
			return -1
		case h.from > seq:
			return 1
		}
		return 0
	})
	if !ok {
		return false
	}
	switch h := &x.holes[i]; {
	case h.from == h.to:
		x.holes = slices.Delete(x.holes, i, i+1)
	case seq == h.from:
		h.from++
	case seq == h.to:
		h.to--
	default:
		rest := *h
		rest.from = seq + 1
		h.to = seq - 1
		x.holes = slices.Insert(x.holes, i+1, rest)
	}
	return true
}

// addSeq adds seq to a list of runs, ascending and not adjacent, and reports
// whether it is new there.
func addSeq(list []run, seq uint32) ([]run, bool) {
	// i is the first run that ends at seq-1 or later.
	i, _ := slices.BinarySearchFunc(list, seq, func(r run, seq uint32) int {
		if r.to+1 < seq {
			return -1
		}
		return 1
	})
	if i == len(list) || list[i].from > seq+1 {
		return slices.Insert(list, i, run{seq, seq}), true
	}
	r := &list[i]
	switch {
	case r.from <= seq && seq <= r.to:
		return list, false
	case seq == r.from-1:
		r.from = seq
	default: // seq == r.to+1
		r.to = seq
		if i+1 < len(list) && list[i+1].from == seq+1 {
			r.to = list[i+1].to
			list = slices.Delete(list, i+1, i+2)
		}
	}
	return list, true
}

// firstID notes the event id of the first copy of seq; lane is the lane's first
// id for it.
func (s *slot) firstID(seq uint32, id uint64, lane *atomic.Uint64) {
	id = known(id)
	if lane.Load() == id || lane.CompareAndSwap(0, id) || lane.Load() == id {
		return
	}
	s.more().addOdd(seq, id)
}

// known maps a missing id to noEventID.
func known(id uint64) uint64 {
	if id == 0 {
		return noEventID
	}
	return id
}

// idVerdict says what a later copy of a seq is by its id.
type idVerdict uint8

const (
	idSame idVerdict = iota
	idOther
	idForgotten
)

// laterID compares the event id of a later copy of seq with those of the copies
// before, and notes it. A copy without an id is never the same event.
func (s *slot) laterID(seq uint32, id uint64, lane *atomic.Uint64) idVerdict {
	id = known(id)
	listed, match := false, false
	if s.extra != nil {
		for _, o := range s.extra.odd {
			if o.seq == seq {
				listed = true
				match = match || o.id == id
			}
		}
		if !listed && seq <= s.extra.forgotten {
			return idForgotten
		}
	}
	first := lane.Load()
	if !listed {
		match = id == first
	}
	if !match {
		if !listed {
			s.more().addOdd(seq, first)
		}
		s.more().addOdd(seq, id)
	}
	if match && id != noEventID {
		return idSame
	}
	return idOther
}

// addOdd keeps an id and drops the oldest half when there are too many.
func (x *slotExtra) addOdd(seq uint32, id uint64) {
	if len(x.odd) >= keepOdd {
		half := keepOdd / 2
		for _, o := range x.odd[:half] {
			x.forgotten = max(x.forgotten, o.seq)
		}
		x.odd = slices.Delete(x.odd, 0, half)
	}
	x.odd = append(x.odd, oddID{seq, id})
}

// refuse notes that the sink refused a copy of seq. It is called after asked for
// the same copy, so that a seq is never in the list twice.
func (s *slot) refuse(seq uint32) {
	x := s.more()
	x.refused = append(x.refused, seq)
}

// asked reports whether a copy of seq was asked for by a refusal, and uses that
// refusal up.
func (s *slot) asked(seq uint32) bool {
	if s.extra == nil {
		return false
	}
	i := slices.Index(s.extra.refused, seq)
	if i < 0 {
		return false
	}
	s.extra.refused = slices.Delete(s.extra.refused, i, i+1)
	return true
}
