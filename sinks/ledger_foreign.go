package sinks

import "github.com/eventmeter/eventmeter"

// foreign counts a copy of what a sibling fired; the caller holds the lock
// and knows whether it came in the measured window.
// Whether it was measured, and when it was fired, only the sibling's ledger
// knows, on a clock of its own.
func (h *shard) foreign(s *subState, d *eventmeter.Delivery, measured bool) Verdict {
	if int(d.Stamp.Source) >= len(h.ledger.sources) {
		return h.unexpected(s, d, VerdictNeverFired)
	}
	all := h.lane.spec.Broadcast
	if h.slot(s, d.Stamp.Source) == nil && (all == nil || !all(int(d.Sub.Index))) {
		return h.unexpected(s, d, VerdictNotSubscribed)
	}
	h.come(measured)
	h.counts.Foreign++
	h.rare(s).counts.Foreign++
	return Verdict{Kind: VerdictForeignShard}
}
