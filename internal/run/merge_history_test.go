package run

import (
	"math/rand/v2"
	"time"

	"github.com/eventmeter/eventmeter"
)

// play makes a history up: emissions that are taken, refused and doubted,
// copies that come, come twice, late, early, not at all or to the wrong one,
// announcements, subscriptions that fail, end and begin again.
func play(s *ledgers, r *rand.Rand) {
	h := &made{ledgers: s, rand: r, now: 1000, seqs: map[uint16]uint32{}, active: map[eventmeter.Sub]bool{}}
	for lane, l := range s.whole.lanes {
		for i := range l.Subscriptions {
			h.subs = append(h.subs, eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)})
		}
	}
	for _, sub := range h.subs {
		h.attach(sub)
	}
	for n := range 250 {
		h.warm = n < 40
		h.emission()
		switch r.IntN(12) {
		case 0:
			h.churn()
		case 1:
			h.noise()
		case 2:
			h.call()
		}
	}
	h.now += eventmeter.Instant(time.Second)
	for _, sub := range h.subs {
		if h.active[sub] {
			h.end(sub)
		}
	}
}

type made struct {
	*ledgers
	rand   *rand.Rand
	now    eventmeter.Instant
	subs   []eventmeter.Sub
	seqs   map[uint16]uint32
	active map[eventmeter.Sub]bool
	warm   bool
	kept   []eventmeter.Delivery // to come later
}

func (h *made) pass(most time.Duration) { h.now += eventmeter.Instant(1 + h.rand.Int64N(int64(most))) }

func (h *made) any() eventmeter.Sub { return h.subs[h.rand.IntN(len(h.subs))] }

func (h *made) attach(sub eventmeter.Sub) {
	h.pass(time.Millisecond)
	h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: h.now})
	h.pass(time.Millisecond)
	if h.rand.IntN(20) == 0 {
		h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Failed, At: h.now, Reason: "made up"})
		h.pass(time.Millisecond)
		h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: h.now})
	}
	h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: h.now})
	h.active[sub] = true
}

func (h *made) end(sub eventmeter.Sub) {
	h.pass(time.Millisecond)
	h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Detaching, At: h.now})
	h.pass(time.Millisecond)
	h.changed(eventmeter.Transition{Sub: sub, To: eventmeter.Detached, At: h.now})
	h.active[sub] = false
}

// churn ends a subscription and may open it again.
func (h *made) churn() {
	sub := h.any()
	if h.active[sub] {
		h.end(sub)
	}
	if h.rand.IntN(3) > 0 {
		h.attach(sub)
	}
}

// emission fires one emission, or drops it, and delivers it to those who hear it.
func (h *made) emission() {
	h.pass(20 * time.Millisecond)
	source := uint16(h.rand.IntN(8))
	if h.rand.IntN(25) == 0 {
		d := eventmeter.Drop{Source: source, Intended: h.now, Measured: !h.warm}
		h.whole.ledger.Dropped(d)
		h.shards[h.owner(source)].ledger.Dropped(d)
		return
	}
	h.seqs[source]++
	seq := h.seqs[source]
	e := eventmeter.Emission{Stamp: eventmeter.Stamp{Source: source, Seq: seq}, Intended: h.now, Measured: !h.warm}
	h.pass(2 * time.Millisecond)
	e.Fired = h.now
	h.fired(e)
	early := h.rand.IntN(3) == 0 // before the upstream's answer
	if early {
		h.spread(e)
	}
	h.pass(5 * time.Millisecond)
	outcome := eventmeter.Accepted
	if n := h.rand.IntN(15); n < 2 {
		outcome = []eventmeter.Outcome{eventmeter.Uncertain, eventmeter.Refused}[n]
	}
	h.resolved(source, seq, outcome, h.now)
	if !early {
		h.spread(e)
	}
	for _, d := range h.kept {
		h.pass(time.Millisecond)
		d.At = h.now
		h.delivered(d, true)
	}
	h.kept = nil
}

// spread delivers an emission to everybody who hears its source.
func (h *made) spread(e eventmeter.Emission) {
	for _, sub := range h.subs {
		owed := h.whole.lanes[sub.Lane].owed(int(sub.Index))
		hears := false
		for _, s := range owed {
			hears = hears || s == e.Source
		}
		d := eventmeter.Delivery{Sub: sub, Stamp: e.Stamp, Probed: true, EventID: uint64(e.Source)<<32 | uint64(e.Seq), Bytes: 100}
		n := h.rand.IntN(100)
		if !hears && (n > 0 || !e.Measured) || !h.active[sub] && n > 5 {
			continue // n is 0 when it leaks
		}
		switch {
		case n == 10:
			continue // lost
		case n == 11:
			h.noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Truncated, At: h.now})
			continue
		case n == 12 || n == 13:
			h.kept = append(h.kept, d)
			continue
		case n == 14:
			h.kept = append(h.kept, d) // a second copy
		case n == 15:
			d.EventID++
			h.kept = append(h.kept, d)
			d.EventID--
		case n == 16:
			d.Refused = true
			h.kept = append(h.kept, d)
		}
		h.pass(200 * time.Microsecond)
		d.At = h.now
		h.delivered(d, true)
	}
}

// noise is what a run meets beside its own events.
func (h *made) noise() {
	sub := h.any()
	h.delivered(eventmeter.Delivery{Sub: sub, At: h.now, Bytes: 7}, false)
	h.delivered(eventmeter.Delivery{Sub: sub, At: h.now, Bytes: 9, Probed: true, Stamp: eventmeter.Stamp{Run: 12345, Seq: 1}}, false)
	owed := h.whole.lanes[sub.Lane].owed(int(sub.Index))
	h.delivered(
		eventmeter.Delivery{Sub: sub, At: h.now, Bytes: 9, Probed: true, Stamp: eventmeter.Stamp{Source: owed[0], Seq: 1 << 20}},
		true,
	)
	for _, kind := range []eventmeter.NoticeKind{eventmeter.Reconnected, eventmeter.Rejected, eventmeter.Malformed,
		eventmeter.Claimed, eventmeter.DeadStream, eventmeter.TransientError, eventmeter.Oversized} {
		h.noticed(eventmeter.Notice{Sub: sub, Kind: kind, At: h.now, Detail: []string{"one thing", "another"}[h.rand.IntN(2)]})
	}
}

func (h *made) call() {
	sub := h.any()
	c := eventmeter.Call{
		Lane:        sub.Lane,
		Cause:       eventmeter.Cause(h.rand.IntN(eventmeter.Causes)),
		At:          h.now,
		Requests:    1,
		Up:          h.rand.Int64N(500),
		Down:        h.rand.Int64N(500),
		Connections: h.rand.IntN(2),
		Took:        time.Duration(h.rand.Int64N(int64(time.Second))),
		Method:      "events/subscribe",
	}
	if h.rand.IntN(4) == 0 {
		c.Failure = []string{"timeout", "http 500", "http 429"}[h.rand.IntN(3)]
	}
	h.whole.ledger.Called(c)
	ledger, _ := h.of(sub)
	ledger.Called(c)
}
