package ledger

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
)

// shard keeps some of a lane's subscriptions: those whose index is equal modulo
// the number of shards. Deliveries to different shards share no lock.
//
// # Deliveries that come before their firing is resolved
//
// A target may deliver an event before it has answered the upstream. Whether
// the copy was owed is then not known yet. That it is the first copy, and which
// seq was the newest before it, is known, and depends on nothing else; so the
// slot is brought up to date at once, and only the counting waits: the copy is
// parked in the shard under its emission. Resolved publishes the outcome and
// then has every shard count what is parked under that emission. A copy that
// finds the outcome pending raises parkedN before it looks a second time, and
// Resolved reads parkedN after it published, so one of the two sees the other
// and nothing stays behind. Parked copies cost 40 bytes until the firing is
// resolved, and the lists are used again.
type shard struct {
	mu     sync.Mutex
	ledger *Ledger
	lane   *lane
	index  uint32
	subs   []subState
	slots  []slot

	counts   SubCounts // of all its subscriptions, without those of windows
	messages int64
	bytes    int64
	received int64
	// within is the part of messages, bytes, received and the active time that
	// lies in the measured window.
	within   WindowCounts
	measured bounds
	arrivals arrivals
	ready    timing
	attempts int64
	failed   int64
	cancel   int64
	broken   int64
	// orderConflicts are first copies that contradict the order of others.
	orderConflicts int64
	states         [eventmeter.Failed + 1]int64
	holes          int64 // seqs in holes of current windows, owed or not
	waitingN       int64

	parkedN atomic.Int64
	parked  map[uint64]*parking
	last    *parking // most recent entry of parked
	free    []*parking

	intervals intervals
	examples  exampleSet
}

// parking is what is parked under one emission.
type parking struct {
	source  uint16
	seq     uint32
	entries []waiting
}

func parkingKey(source uint16, seq uint32) uint64 { return uint64(source)<<32 | uint64(seq) }

// slotsOf returns the slots of a subscription.
func (h *shard) slotsOf(s *subState) []slot { return h.slots[s.first : s.first+s.slots] }

// slot returns the slot of a source, nil if s is not owed it. Slots are
// sorted by source.
func (h *shard) slot(s *subState, source uint16) *slot {
	list := h.slotsOf(s)
	if h.lane.allSources {
		return &list[source]
	}
	if len(list) == 1 {
		if list[0].source == source {
			return &list[0]
		}
		return nil
	}
	i, ok := slices.BinarySearchFunc(list, source, func(t slot, source uint16) int { return int(t.source) - int(source) })
	if !ok {
		return nil
	}
	return &list[i]
}

func (h *shard) rare(s *subState) *subRare {
	if s.rare == nil {
		s.rare = &subRare{}
	}
	return s.rare
}

// deliver records one copy; the caller holds the lock.
func (h *shard) deliver(pos uint32, d *eventmeter.Delivery) Verdict {
	s := &h.subs[pos]
	if d.Stray {
		if e := h.ledger.emissionAt(d.Stamp); e == nil || !e.measured {
			return Verdict{Kind: VerdictWarmUp}
		}
		return h.unexpected(s, d, VerdictAfterEnd)
	}
	h.messages++
	h.bytes += int64(d.Bytes)
	measured := h.measured.has(d.At)
	if measured {
		h.within.EventMessages++
		h.within.EventBytes += int64(d.Bytes)
	}
	h.arrivals.add(d)
	if !d.Probed {
		return h.unprobed(s, d, measured)
	}
	if d.Stamp.Run != h.ledger.opt.Run {
		if sibling := h.ledger.opt.Sibling; sibling != nil && sibling(d.Stamp.Run) {
			return h.foreign(s, d, measured)
		}
		return h.unexpected(s, d, VerdictForeignRun)
	}
	e := h.ledger.emissionAt(d.Stamp)
	if e == nil {
		return h.unexpected(s, d, VerdictNeverFired)
	}
	v := Verdict{Measured: e.measured, FromIntended: d.At.Sub(e.intended), FromSent: d.At.Sub(e.fired)}
	t, src := h.slot(s, d.Stamp.Source), &h.ledger.sources[d.Stamp.Source]
	ended := t != nil && s.over && e.fired > s.window.over
	if t == nil || s.number == 0 || ended {
		v.Kind = VerdictWarmUp
		if ended && e.measured {
			v.Kind = h.unexpected(s, d, VerdictAfterEnd).Kind
		} else if e.measured {
			v.Kind = h.unexpected(s, d, VerdictNotSubscribed).Kind
		}
		return v
	}
	newest, highest := t.newest, t.newest
	if d.Stamp.Seq <= newest {
		highest = t.highest()
	}
	first, opened := t.see(d.Stamp.Seq)
	h.count(s, t, d, first, newest, opened)
	if first {
		h.come(measured)
		h.saw(s, d.Stamp.Source, d.Stamp.Seq, e.measured)
		if d.Stamp.Seq >= highest || e.happened() >= src.firedAt(highest) {
			t.arrived(d.Stamp.Seq)
		}
	}
	if !e.measured {
		v.Kind = VerdictWarmUp
		return v
	}
	lane := src.eventID(h.lane.index, d.Stamp.Seq)
	if first {
		t.firstID(d.Stamp.Seq, d.EventID, lane)
		h.first(s, pos, d, e, newest, &v)
	} else {
		h.duplicate(s, t, d, lane, &v)
	}
	if d.Refused {
		t.refuse(d.Stamp.Seq)
	}
	return v
}

// unprobed records a copy without a probe id.
func (h *shard) unprobed(s *subState, d *eventmeter.Delivery, measured bool) Verdict {
	h.come(measured)
	h.counts.Unprobed++
	h.rare(s).counts.Unprobed++
	if d.Update {
		h.update(s, d.At)
	}
	return Verdict{Kind: VerdictUnprobed}
}

// count keeps the number of holes and of what was passed over.
func (h *shard) count(s *subState, t *slot, d *eventmeter.Delivery, first bool, newest uint32, opened run) {
	if first && d.Stamp.Seq > t.base && d.Stamp.Seq < newest {
		h.holes--
	}
	if opened.from > opened.to {
		return
	}
	h.holes += int64(opened.to-opened.from) + 1
	if s.active == 0 {
		return
	}
	src := &h.ledger.sources[t.source]
	if n := src.countSkipped(src.firstFrom(opened.from, s.active+1), opened.to); n > 0 {
		h.span(d.At).counts.skipped += n
	}
}

// span returns the interval of an instant.
func (h *shard) span(at eventmeter.Instant) *span {
	return h.intervals.at(int64(at) / int64(h.ledger.opt.Interval))
}

// first records the first copy of a measured emission.
func (h *shard) first(s *subState, pos uint32, d *eventmeter.Delivery, e *emission, newest uint32, v *Verdict) {
	c := s.judge(e)
	if c == classOwed {
		// The quick path: everything is known and nothing need be kept.
		h.owed(s, pos, e, d.Stamp.Source, d.Stamp.Seq, newest, d.At, d.EventID, v)
		return
	}
	w := waiting{at: d.At, eventID: d.EventID, sub: pos, window: s.number, seq: d.Stamp.Seq, newest: newest, source: d.Stamp.Source}
	if c == classUndecided {
		h.parkedN.Add(1)
		if c = s.judge(e); c == classUndecided {
			h.park(w)
			v.Kind = VerdictUndecided
			v.Late = h.isLate(e, d.At)
			return
		}
		h.parkedN.Add(-1)
	}
	h.settle(s, &s.window, w, e, c, v)
}

// park keeps w until its emission is resolved. parkedN counts it already.
func (h *shard) park(w waiting) {
	p := h.last
	if p == nil || p.source != w.source || p.seq != w.seq {
		key := parkingKey(w.source, w.seq)
		if p = h.parked[key]; p == nil {
			if n := len(h.free); n > 0 {
				p, h.free = h.free[n-1], h.free[:n-1]
			} else {
				p = &parking{}
			}
			p.source, p.seq = w.source, w.seq
			if h.parked == nil {
				h.parked = make(map[uint64]*parking)
			}
			h.parked[key] = p
		}
		h.last = p
	}
	p.entries = append(p.entries, w)
}

// resolved counts what is parked under an emission; the caller holds no lock.
func (h *shard) resolved(source uint16, seq uint32, e *emission) {
	if h.parkedN.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := parkingKey(source, seq)
	p := h.parked[key]
	if p == nil {
		return
	}
	delete(h.parked, key)
	if h.last == p {
		h.last = nil
	}
	for _, w := range p.entries {
		s := &h.subs[w.sub]
		win := s.windowOf(w.window)
		var v Verdict
		h.settle(s, win, w, e, win.judge(e), &v)
	}
	h.parkedN.Add(-int64(len(p.entries)))
	p.entries = p.entries[:0]
	h.free = append(h.free, p)
}

// windowOf returns a window by its number. A window is kept as long as anything
// can be parked for it.
func (s *subState) windowOf(number uint32) *window {
	if number != s.number && s.rare != nil {
		for i := range s.rare.former {
			if f := &s.rare.former[i]; f.number == number {
				return &f.window
			}
		}
	}
	return &s.window
}

// settle counts a first copy of which everything is known.
func (h *shard) settle(s *subState, w *window, x waiting, e *emission, c class, v *Verdict) {
	switch c {
	case classOwed:
		h.owed(s, x.sub, e, x.source, x.seq, x.newest, x.at, x.eventID, v)
	case classWaits:
		r := h.rare(s)
		r.waiting = append(r.waiting, x)
		h.waitingN++
		v.Kind = VerdictUndecided
		v.Late = h.isLate(e, x.at)
	case classRecovered:
		h.counts.Recovered++
		h.rare(s).counts.Recovered++
		v.Kind = VerdictRecovered
	case classInFlight:
		h.counts.InFlight++
		h.rare(s).counts.InFlight++
		v.Kind = VerdictInFlight
	case classStale:
		if h.lane.spec.Replay {
			h.counts.Replayed++
			h.rare(s).counts.Replayed++
			v.Kind = VerdictReplayed
			return
		}
		d := eventmeter.Delivery{
			Sub:     h.name(x.sub),
			Stamp:   eventmeter.Stamp{Run: h.ledger.opt.Run, Source: x.source, Seq: x.seq},
			EventID: x.eventID,
			At:      x.at,
		}
		v.Kind = h.unexpected(s, &d, VerdictStale).Kind
	}
}

// name returns the name of the subscription at pos.
func (h *shard) name(pos uint32) eventmeter.Sub {
	return eventmeter.Sub{Lane: h.lane.index, Index: pos<<h.lane.shift | h.index}
}

func (h *shard) isLate(e *emission, at eventmeter.Instant) bool {
	return h.ledger.opt.LateAfter > 0 && at.Sub(e.intended) > h.ledger.opt.LateAfter
}

// owed counts the first copy of an owed emission.
func (h *shard) owed(
	s *subState,
	pos uint32,
	e *emission,
	source uint16,
	seq, newest uint32,
	at eventmeter.Instant,
	id uint64,
	v *Verdict,
) {
	v.Kind = VerdictDelivered
	s.delivered++
	h.counts.Delivered++
	sp := h.span(at)
	sp.counts.delivered++
	sp.intended.add(at.Sub(e.intended))
	sp.sent.add(at.Sub(e.fired))
	if h.isLate(e, at) {
		v.Late = true
		h.counts.Late++
		h.rare(s).counts.Late++
		sp.counts.late++
	}
	if newest > seq && h.ledger.sources[source].firedAt(newest) > eventmeter.Instant(e.acked.Load()) {
		v.OutOfOrder = true
		h.counts.OutOfOrder++
		h.rare(s).counts.OutOfOrder++
		sp.counts.outOfOrder++
		h.examples.add(Example{Kind: ExampleOutOfOrder, Sub: h.name(pos), Source: source, From: seq, To: seq, EventID: id, At: at})
	}
}

// duplicate counts a second or later copy of a measured emission.
func (h *shard) duplicate(s *subState, t *slot, d *eventmeter.Delivery, lane *atomic.Uint64, v *Verdict) {
	all, own := &h.counts.Duplicates, &h.rare(s).counts.Duplicates
	id := t.laterID(d.Stamp.Seq, d.EventID, lane)
	detail := ""
	switch {
	case t.asked(d.Stamp.Seq):
		all.Requested++
		own.Requested++
		v.Kind, detail = VerdictDuplicateRequested, "requested"
	case id == idSame:
		all.SameEvent++
		own.SameEvent++
		v.Kind, detail = VerdictDuplicateSameEvent, "same event"
	case id == idForgotten:
		all.Forgotten++
		own.Forgotten++
		v.Kind, detail = VerdictDuplicateForgotten, "forgotten"
	default:
		all.SameEmission++
		own.SameEmission++
		v.Kind, detail = VerdictDuplicateSameEmission, "same emission"
	}
	h.span(d.At).counts.duplicates++
	h.keepCopy(ExampleDuplicate, d, detail)
}

// keepCopy keeps a copy as an example.
func (h *shard) keepCopy(kind ExampleKind, d *eventmeter.Delivery, detail string) {
	h.examples.add(
		Example{
			Kind:    kind,
			Sub:     d.Sub,
			Source:  d.Stamp.Source,
			From:    d.Stamp.Seq,
			To:      d.Stamp.Seq,
			EventID: d.EventID,
			At:      d.At,
			Bytes:   d.Bytes,
			Detail:  detail,
		},
	)
}

// unexpected counts a copy that should not have come.
func (h *shard) unexpected(s *subState, d *eventmeter.Delivery, kind VerdictKind) Verdict {
	detail := ""
	for _, u := range [...]*Unexpected{&h.counts.Unexpected, &h.rare(s).counts.Unexpected} {
		switch kind {
		case VerdictForeignRun:
			u.ForeignRun++
			detail = "foreign run"
		case VerdictNeverFired:
			u.NeverFired++
			detail = "never fired"
		case VerdictNotSubscribed:
			u.NotSubscribed++
			detail = "not subscribed"
		case VerdictAfterEnd:
			u.AfterEnd++
			detail = "after its end"
		case VerdictStale:
			u.Stale++
			detail = "stale"
		}
	}
	h.span(d.At).counts.unexpected++
	h.keepCopy(ExampleUnexpected, d, detail)
	return Verdict{Kind: kind}
}

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

// come counts an event that a subscription received for the first time, or for
// all that can be known; the caller holds the lock.
func (h *shard) come(measured bool) {
	h.received++
	if measured {
		h.within.Received++
	}
}
