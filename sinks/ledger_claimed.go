package sinks

import (
	"slices"
	"sort"

	"github.com/eventmeter/eventmeter"
)

// claimed notes that a cursor claimed that all up to an emission was delivered;
// the caller holds the lock. A claim that reaches no further than one before
// says nothing new.
func (h *shard) claimed(s *subState, stamp eventmeter.Stamp) {
	if s.active == 0 || s.over || stamp.Run != h.ledger.opt.Run || int(stamp.Source) >= len(h.ledger.sources) || h.ledger.sources[stamp.Source].at(stamp.Seq) == nil {
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
