package ledger

import (
	"slices"
	"sort"

	"github.com/eventmeter/eventmeter"
)

// An announcement says that the target skipped events at one place of its own
// order: between the last event that it had sent to the subscription and the
// next one that it sent. Its own order is the order of arrival. Where a lost
// emission lies in that order is known only from emissions that do not overlap
// with it: x is before y when x was acknowledged to the upstream before y was
// fired. So, for a lost emission x and an announcement a,
//
//   - a cannot cover x if x was fired after a was read, if something fired after
//     x was acknowledged was received before a, or if the first emission that
//     was received after a was acknowledged before x was fired;
//   - a covers x for sure if, besides, the last emission received before a is
//     before x, and x is before the first one received after a;
//   - otherwise nobody can tell.
//
// x is lost silently if no announcement can cover it, announced if one covers
// it for sure, and of unknown order else. An emission that is known to have
// arrived out of order says nothing about where an announcement lies, and is
// passed over here.
//
// Where the lane's mode promises no order, the place of arrival proves nothing: an
// announcement may cover any x that was fired before it was read, and covers none for
// sure.

// announcement is what a slot keeps of one announcement, or of several with
// nothing between them. Sequence numbers are 0 where there is no such emission.
type announcement struct {
	prev   uint32 // the last emission received before it
	newest uint32 // the highest one received before it
	next   uint32 // the first one received after it
	upto   uint32 // the last one fired before it
	// stale: what is missing up to here is before newest.
	stale    uint32
	from, to uint32 // its numbers in the subscription; 0 = it may be about what was before
	// ordered: it has a place. Otherwise prev, newest, next and stale are 0.
	ordered bool
}

// announce notes that the target announced a gap.
func (s *slot) announce(src *source, number uint32, at eventmeter.Instant, ordered bool) {
	x := s.more()
	a := announcement{upto: src.firstFrom(1, at+1) - 1, from: number, to: number, ordered: ordered}
	if ordered {
		x.advance(s, src)
		a.prev, a.newest, a.stale = s.last, s.highest(), x.stale
	}
	if n := len(x.announced); n > 0 {
		l := &x.announced[n-1]
		a.upto = max(a.upto, l.upto)
		switch {
		case l.next == 0 && l.prev == a.prev && l.newest == a.newest && l.upto == a.upto:
			l.to = max(l.to, number)
			return
		case (l.next != 0 || !ordered) && !s.missing(l.stale, l.upto):
			x.announced = x.announced[:n-1] // nothing can ever stand behind the former one
		}
	}
	x.announced = append(x.announced, a)
	if s.open == 0 && ordered {
		s.open = uint32(len(x.announced))
	}
}

// arrived notes the first copy of an emission that is not known to be out of
// order.
func (s *slot) arrived(seq uint32) {
	s.last = seq
	if s.open == 0 {
		return
	}
	list := s.extra.announced[s.open-1:]
	for i := range list {
		list[i].next = seq
	}
	s.open = 0
}

// highest is the highest sequence number that was seen, 0 if none was.
func (s *slot) highest() uint32 {
	if s.newest > s.base {
		return s.newest
	}
	if s.extra != nil && len(s.extra.early) > 0 {
		return s.extra.early[len(s.extra.early)-1].to
	}
	return 0
}

// missing reports whether anything from after low up to high has not come.
func (s *slot) missing(low, high uint32) bool {
	if high > s.newest {
		return true
	}
	i := s.extra.holeAfter(low)
	return i < len(s.extra.holes) && s.extra.holes[i].from <= high
}

// holeAfter returns the index of the first hole that reaches beyond seq.
func (x *slotExtra) holeAfter(seq uint32) int {
	return sort.Search(len(x.holes), func(i int) bool { return x.holes[i].to > seq })
}

// advance moves stale over all that is missing and known to be before the
// newest emission received: no later announcement can cover it.
func (x *slotExtra) advance(s *slot, src *source) {
	x.stale = max(x.stale, s.base)
	if s.newest == s.base {
		return
	}
	newest := src.firedAt(s.newest)
	for _, h := range x.holes[x.holeAfter(x.stale):] {
		for seq := max(h.from, x.stale+1); seq <= h.to; seq++ {
			if e := src.at(seq); e.result() != eventmeter.Refused && e.ended() >= newest {
				return
			}
			x.stale = seq
		}
	}
	x.stale = s.newest
}

// forever is later than anything.
const forever = eventmeter.Instant(1<<63 - 1)

// ended is when the firing of e was resolved.
func (e *emission) ended() eventmeter.Instant {
	if e.result() == eventmeter.Pending {
		return forever
	}
	return eventmeter.Instant(e.acked.Load())
}

// happened is when e had happened for sure: when it was acknowledged.
func (e *emission) happened() eventmeter.Instant {
	if e.result() != eventmeter.Accepted {
		return forever
	}
	return eventmeter.Instant(e.acked.Load())
}

// lossKind is what the announcements say about a lost emission. A silent loss may
// have another explanation: see evidence.
type lossKind uint8

const (
	lossSilent lossKind = iota
	lossAnnounced
	lossUnknown
)

// mayCover reports whether a can be about e, which is seq.
func (a *announcement) mayCover(src *source, seq uint32, e *emission) bool {
	return seq <= a.upto && (a.newest == 0 || src.firedAt(a.newest) <= e.ended()) &&
		(a.next == 0 || src.at(a.next).happened() >= e.fired)
}

// covers reports whether a, which can be about e, is for sure.
func (a *announcement) covers(src *source, e *emission) bool {
	if !a.ordered {
		return false
	}
	if a.prev != 0 {
		before := src.at(a.prev).happened()
		if before >= e.fired || src.firedAt(a.newest) > before {
			return false
		}
	}
	return a.next == 0 || src.firedAt(a.next) > e.ended()
}

// loss tells what kind of loss seq is.
func (s *slot) loss(src *source, seq uint32) lossKind {
	e := src.at(seq)
	list := s.extra.announced
	first := sort.Search(len(list), func(i int) bool { return list[i].upto >= seq })
	kind := lossSilent
	for i := first; i < len(list); i++ {
		a := &list[i]
		if a.newest != 0 && src.firedAt(a.newest) > e.ended() {
			break // and so is that of all that follow
		}
		if !a.mayCover(src, seq, e) {
			continue
		}
		if a.covers(src, e) {
			return lossAnnounced
		}
		kind = lossUnknown
	}
	return kind
}

// eachLoss splits the owed emissions in [from, to], all of which are lost, into
// runs of one kind, which follow each other.
func (s *slot) eachLoss(src *source, from, to uint32, each func(kind lossKind, r run, lost int64)) {
	if s.extra == nil || len(s.extra.announced) == 0 {
		if n := src.countOwed(from, to); n > 0 {
			each(lossSilent, run{from, to}, n)
		}
		return
	}
	var kind lossKind
	var r run
	var n int64
	for seq := from; seq <= to; seq++ {
		if !src.chunk(seq).owed.has(int((seq - 1) % chunkSize)) {
			continue
		}
		k := s.loss(src, seq)
		if n > 0 && k != kind {
			each(kind, r, n)
			n = 0
		}
		if n == 0 {
			kind, r.from = k, seq
		}
		r.to = seq
		n++
	}
	if n > 0 {
		each(kind, r, n)
	}
}

// backed adds the numbers of the announcements behind which something missing
// can stand: emissions of the window, which is [low, high].
func (s *slot) backed(src *source, low, high uint32, list []run) []run {
	if s.extra == nil {
		return list
	}
	for i := range s.extra.announced {
		a := &s.extra.announced[i]
		if s.stands(src, a, max(low, a.stale+1), min(high, a.upto)) {
			list = append(list, run{a.from, a.to})
		}
	}
	return list
}

// stands reports whether anything missing in [low, high] can stand behind a.
func (s *slot) stands(src *source, a *announcement, low, high uint32) bool {
	suspect := func(r run) bool {
		for seq := max(r.from, low); seq <= min(r.to, high); seq++ {
			if e := src.at(seq); e.result() != eventmeter.Refused && a.mayCover(src, seq, e) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(s.extra.holes[s.extra.holeAfter(low-1):], suspect) || suspect(run{s.newest + 1, high})
}

// claimed notes that a cursor claimed that all up to an emission was delivered;
// the caller holds the lock. A claim that reaches no further than one before
// says nothing new.
func (h *shard) claimed(s *subState, stamp eventmeter.Stamp) {
	if s.active == 0 || s.over || h.ledger.emissionAt(stamp) == nil {
		return
	}
	t := h.slot(s, stamp.Source)
	if t == nil {
		return
	}
	x := t.more()
	if n := len(x.claims); n == 0 || x.claims[n-1] < stamp.Seq {
		x.claims = append(x.claims, stamp.Seq)
	}
}

// firstClaim returns the index of the first claim of seq, which was lost: that
// of seq itself, or of an emission that is known to be later. It is len(claims)
// if there is none.
func (x *slotExtra) firstClaim(src *source, seq uint32) int {
	acked := src.at(seq).ended()
	later := sort.Search(len(x.claims), func(i int) bool { return src.firedAt(x.claims[i]) > acked })
	if own, found := slices.BinarySearch(x.claims, seq); found {
		return min(own, later)
	}
	return later
}

// overclaims counts the claims that were the first of something that was lost
// silently, in runs of sequence numbers.
func (s *slot) overclaims(src *source, lost []run) (n int64) {
	first := make([]bool, len(s.extra.claims))
	for _, r := range lost {
		for seq := r.from; seq <= r.to; seq++ {
			if !src.chunk(seq).owed.has(int((seq - 1) % chunkSize)) {
				continue
			}
			if i := s.extra.firstClaim(src, seq); i < len(first) && !first[i] {
				first[i] = true
				n++
			}
		}
	}
	return n
}

// inVain reports whether a window that resumed at a cursor received nothing of what was
// published while there was no subscription, although something was. What has not come
// need not be awaited if there was the grace for it, or if something later has come, in a
// mode that promises order.
func (l *Ledger) inVain(w *window, slots []slot, e *evidence) bool {
	missed, over := false, w.ending != 0 && w.seen >= w.active.Add(l.opt.DetachGrace)
	for i := range slots {
		t := &slots[i]
		src := &l.sources[t.source]
		over = over || e.ordered && t.newest > t.base
		for seq := src.firstFrom(1, e.left+1); seq <= t.base; seq++ {
			if src.at(seq).happened() > w.attaching {
				continue
			}
			if missed = true; t.extra != nil && slices.ContainsFunc(t.extra.early, func(r run) bool { return r.from <= seq && seq <= r.to }) {
				return false
			}
		}
	}
	return missed && over
}
