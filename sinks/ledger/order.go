package ledger

import (
	"sync"
	"sync/atomic"
)

// order is the order in which the streams of a lane saw events, for sources that
// some of them get together. A stream whose newest event is the last of the
// order appends the next event that comes to it. So for each two neighbours in
// the order there is a stream that saw them in this order, and a stream that sees
// an earlier one after a later one contradicts what others saw: there is no one
// order with which all agree.
type order struct {
	mu sync.Mutex // held to append
	// last is the place of the last event, from 1. Places up to base are of an
	// order that ended: see restart.
	last, base atomic.Uint32
}

// streamOrder is what a subscription remembers of the order of its events.
type streamOrder struct {
	// seq of source is the first event that came before it had a place, 0 = none.
	// since is the place of a measured event that came after it, 0 = none.
	since  uint32
	source uint16
	waited uint8 // events without a place that came after it
	seq    uint32
	newest uint32 // the highest place of what came
}

// orderPatience is how many events without a place may come to a stream while
// nobody gives one to the first of them.
const orderPatience = 32

// append gives the next place to an event if the newest event of the stream is
// the last one. It returns the event's place, 0 if it has none.
func (o *order) append(place *atomic.Uint32, newest uint32) uint32 {
	if newest != o.last.Load() {
		return place.Load()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := place.Load(); p != 0 || newest != o.last.Load() {
		return p
	}
	return o.next(place)
}

func (o *order) next(place *atomic.Uint32) uint32 {
	p := o.last.Load() + 1
	place.Store(p) // first: who finds the new last must find its event's place
	o.last.Store(p)
	return p
}

// restart begins a new order with an event. It is for an order whose last event
// came to nobody who still receives.
func (o *order) restart(place *atomic.Uint32) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := place.Load(); p != 0 {
		return p
	}
	o.base.Store(o.last.Load())
	return o.next(place)
}

// saw notes the first copy of an event at a subscription, and counts it if it
// contradicts the order that others saw; the caller holds the lock.
func (h *shard) saw(s *subState, source uint16, seq uint32, measured bool) {
	place := h.ledger.sources[source].place(h.lane.index, seq)
	if p := place.Load(); p > s.order.newest && s.order.seq == 0 {
		s.order.newest = p
		return
	}
	h.compare(&s.order, place, source, seq, measured)
}

// compare is saw for all but the next event of the order.
func (h *shard) compare(o *streamOrder, place *atomic.Uint32, source uint16, seq uint32, measured bool) {
	all := h.lane.orders[h.lane.orderOf[source]]
	if o.seq != 0 {
		h.lookAgain(o, all)
	}
	p := place.Load()
	if p == 0 {
		p = all.append(place, o.newest)
	}
	switch {
	case p > o.newest:
		o.newest, o.waited = p, 0
		if o.seq != 0 && o.since == 0 && measured {
			o.since = p
		}
	case p != 0:
		if measured && p > all.base.Load() {
			h.orderConflicts++
		}
	case o.seq == 0:
		o.seq, o.source, o.since, o.waited = seq, source, 0, 0
	default:
		if o.waited++; o.waited == orderPatience {
			*o = streamOrder{newest: all.restart(place)}
		}
	}
}

// lookAgain looks whether the event that came without a place has one now.
func (h *shard) lookAgain(o *streamOrder, all *order) {
	p := h.ledger.sources[o.source].place(h.lane.index, o.seq).Load()
	if p == 0 {
		return
	}
	if o.since > all.base.Load() && o.since < p {
		h.orderConflicts++
	}
	o.newest, o.seq = max(o.newest, p), 0
}

// shareOrders gives sources that one subscription is owed together one order.
func (n *lane) shareOrders(sources int) {
	n.orderOf = make([]uint16, sources)
	for i := range n.orderOf {
		n.orderOf[i] = uint16(i)
	}
	first := func(s uint16) uint16 {
		for n.orderOf[s] != s {
			n.orderOf[s] = n.orderOf[n.orderOf[s]]
			s = n.orderOf[s]
		}
		return s
	}
	if n.allSources {
		clear(n.orderOf)
	} else {
		for _, h := range n.shards {
			for i := range h.subs {
				slots := h.slotsOf(&h.subs[i])
				for j := range slots {
					n.orderOf[first(slots[j].source)] = first(slots[0].source)
				}
			}
		}
	}
	n.orders = make([]*order, sources)
	for i := range n.orderOf {
		n.orderOf[i] = first(uint16(i))
		if k := n.orderOf[i]; n.orders[k] == nil {
			n.orders[k] = &order{}
		}
	}
}
