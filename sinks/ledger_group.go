package sinks

import "github.com/eventmeter/eventmeter"

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
