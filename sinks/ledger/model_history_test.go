package ledger

import (
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
)

// history plays a legal run that is made up from bytes: whatever they are, the
// calls are such as correct upstreams and drivers make. It returns when the
// bytes are used up.
type history struct {
	bytes    []byte
	now      eventmeter.Instant
	to       eventmeter.Recorder
	opt      Options
	fired    []eventmeter.Emission
	pending  []eventmeter.Emission
	next     []uint32
	states   map[eventmeter.Sub]eventmeter.State
	warm     bool
	withheld map[eventmeter.Sub]int
}

const historyRun = 7

// historyOptions are small enough for everything to happen to everybody.
func historyOptions(shape byte) Options {
	opt := Options{
		Clock: eventmeter.NewClock(), Run: historyRun, Sources: 1 + int(shape&1),
		LateAfter: 300 * time.Microsecond, Interval: 2 * time.Millisecond, Examples: 3,
		Lanes: []LaneSpec{
			{Name: "a", Subscriptions: 2, Ordered: true},
			{Name: "b", Subscriptions: 3, Replay: shape&4 != 0, Owed: func(i int) []uint16 {
				if i == 2 {
					return nil
				}
				return []uint16{uint16(i) % uint16(1+shape&1)}
			}},
		},
	}
	if shape&2 != 0 {
		opt.DetachGrace = 200 * time.Microsecond
	}
	return opt
}

func (h *history) byte() byte {
	if len(h.bytes) == 0 {
		return 0
	}
	b := h.bytes[0]
	h.bytes = h.bytes[1:]
	return b
}

// play makes all calls.
func (h *history) play() {
	h.next = make([]uint32, h.opt.Sources)
	h.states = map[eventmeter.Sub]eventmeter.State{}
	h.now = 1000
	h.warm = h.byte()&1 == 1
	for len(h.bytes) > 0 {
		op := h.byte()
		h.now += eventmeter.Instant(op>>4) * 10_000 // up to 150 µs
		switch op & 15 {
		case 0, 1, 2, 3:
			h.fire()
		case 4, 5:
			h.resolve()
		case 6, 7, 8, 9, 10:
			h.deliver()
		case 11:
			h.spread()
		case 12, 13:
			h.change()
		case 14:
			h.notice()
		case 15:
			h.warm = false
			h.now += eventmeter.Instant(h.byte()) * 20_000
		}
	}
}

// lag makes an instant that was read before other calls were made.
func (h *history) lag(b byte) eventmeter.Instant {
	if b&3 == 3 {
		return max(h.now-eventmeter.Instant(b>>2)*1_000, 1)
	}
	return h.now
}

func (h *history) sub() eventmeter.Sub {
	b := int(h.byte()) % 5
	if b < 2 {
		return eventmeter.Sub{Index: uint32(b)}
	}
	return eventmeter.Sub{Lane: 1, Index: uint32(b - 2)}
}

func (h *history) fire() {
	b := h.byte()
	source := uint16(b>>7) % uint16(h.opt.Sources)
	h.next[source]++
	e := eventmeter.Emission{
		Stamp:    eventmeter.Stamp{Run: historyRun, Source: source, Seq: h.next[source]},
		Measured: !h.warm,
		Fired:    h.lag(b & 63),
	}
	e.Intended = max(e.Fired-eventmeter.Instant(b&15)*7_777, 1)
	h.to.Fired(e)
	h.fired = append(h.fired, e)
	h.pending = append(h.pending, e)
	if b&64 != 0 {
		h.close(len(h.pending)-1, 0)
	}
}

func (h *history) resolve() {
	if len(h.pending) == 0 {
		h.fire()
		return
	}
	b := h.byte()
	h.close(int(b>>3)%len(h.pending), b&7)
}

func (h *history) close(i int, how byte) {
	e := h.pending[i]
	h.pending = slices.Delete(h.pending, i, i+1)
	o := eventmeter.Accepted
	switch how {
	case 6:
		o = eventmeter.Uncertain
	case 7:
		o = eventmeter.Refused
	}
	at := h.now
	if how == 5 {
		at = max(e.Fired, h.now-30_000)
	}
	h.to.Resolved(e.Stamp, o, at)
}

// deliver makes one copy; most are of an emission among the last few.
func (h *history) deliver() {
	sub, b := h.sub(), h.byte()
	d := eventmeter.Delivery{Sub: sub, At: h.now, Bytes: 10, Probed: true, Refused: b&0xe0 == 0xe0}
	switch {
	case b == 1 || b == 5 || b == 6:
		d.Probed, d.Update = false, b != 1
		if b == 6 { // read a while ago
			d.At = max(1, h.now-30_000)
		}
		h.to.Delivered(d)
		return
	case b == 2:
		d.Stamp = eventmeter.Stamp{Run: historyRun + 1, Seq: 1}
	case b == 3 || len(h.fired) == 0:
		d.Stamp = eventmeter.Stamp{Run: historyRun, Source: uint16(h.byte()), Seq: 9999}
	case b == 4:
		d.Stamp = eventmeter.Stamp{Run: historyRun}
	case b&1 == 0:
		d.Stamp = h.fired[len(h.fired)-1-int(b>>1&7)%len(h.fired)].Stamp
	default:
		d.Stamp = h.fired[int(h.byte())%len(h.fired)].Stamp
	}
	d.EventID = h.eventID(d.Stamp, sub)
	h.to.Delivered(d)
}

func (h *history) eventID(s eventmeter.Stamp, sub eventmeter.Sub) uint64 {
	id := uint64(s.Source)<<32 | uint64(s.Seq)<<8 | 1
	switch h.byte() & 7 {
	case 0:
		return id + 1
	case 1:
		return 0
	case 2:
		return id + uint64(sub.Index) + 3
	}
	return id
}

// spread delivers the newest emission to everybody who is active.
func (h *history) spread() {
	if len(h.fired) == 0 {
		return
	}
	e := h.fired[len(h.fired)-1]
	skip := h.byte()
	for i := range 5 {
		sub := eventmeter.Sub{Index: uint32(i)}
		if i >= 2 {
			sub = eventmeter.Sub{Lane: 1, Index: uint32(i - 2)}
		}
		if h.states[sub] == eventmeter.Active && skip>>i&1 == 0 {
			h.now += 1_000
			h.to.Delivered(
				eventmeter.Delivery{
					Sub:     sub,
					Stamp:   e.Stamp,
					Probed:  true,
					EventID: uint64(e.Source)<<32 | uint64(e.Seq)<<8 | 1,
					At:      h.now,
				},
			)
		}
	}
}

// change moves one subscription to a state that can follow.
func (h *history) change() {
	sub, b := h.sub(), h.byte()
	to := eventmeter.Attaching
	switch h.states[sub] {
	case eventmeter.Attaching:
		to = [...]eventmeter.State{
			eventmeter.Active, eventmeter.Active, eventmeter.Active, eventmeter.Active,
			eventmeter.Active, eventmeter.Detaching, eventmeter.Detached, eventmeter.Failed,
		}[b>>5]
	case eventmeter.Active:
		to = [...]eventmeter.State{eventmeter.Detaching, eventmeter.Detaching, eventmeter.Detached, eventmeter.Failed}[b>>6]
	case eventmeter.Detaching:
		to = [...]eventmeter.State{eventmeter.Detached, eventmeter.Failed}[b>>7]
	}
	h.states[sub] = to
	at := h.now
	if to != eventmeter.Detached && to != eventmeter.Failed {
		at = h.lag(b & 15)
	}
	h.now++
	t := eventmeter.Transition{Sub: sub, To: to, At: h.after(sub, at), Reason: "made up"}
	if b&16 != 0 { // a poller, which last asked a while ago
		t.Seen = max(h.now-eventmeter.Instant(b&15)*50_000, 1)
	}
	h.to.Changed(t)
}

// after keeps the instants of one subscription's states in order.
func (h *history) after(sub eventmeter.Sub, at eventmeter.Instant) eventmeter.Instant {
	if h.withheld == nil {
		h.withheld = map[eventmeter.Sub]int{}
	}
	at = max(at, eventmeter.Instant(h.withheld[sub]))
	h.withheld[sub] = int(at)
	return at
}

func (h *history) notice() {
	b := h.byte()
	n := eventmeter.Notice{Kind: eventmeter.Truncated, Sub: h.sub(), At: h.now}
	switch b & 15 {
	case 3:
		n.Before = b&16 != 0
	case 15:
		n.Kind = eventmeter.NoticeKind(b>>4%8 + 1)
		if b == 255 {
			n.Kind, n.Detail = eventmeter.Oversized, []string{"a line", "an answer"}[h.now&1]
		}
	case 14, 13:
		n.Kind, n.Own = eventmeter.Undeliverable, b&16 != 0
	case 12, 11:
		n.Later = b&1 != 0
		n.Kind, n.Since = eventmeter.Suspended, max(h.now-eventmeter.Instant(b>>4)*50_000, 0)
	case 10, 9, 8:
		n.Kind = eventmeter.Rejected
		if len(h.fired) > 0 {
			n.Refused, n.Stamp = true, h.fired[len(h.fired)-1-int(b>>4)%len(h.fired)].Stamp
		}
	}
	if b&12 == 4 && len(h.fired) > 0 {
		n.Kind, n.Stamp = eventmeter.Claimed, h.fired[len(h.fired)-1-int(b>>4)%len(h.fired)].Stamp
	} else if n.Kind == eventmeter.Claimed { // of another run
		n.Stamp = eventmeter.Stamp{Run: historyRun + 1, Seq: 1}
	}
	h.to.Noticed(n)
}
