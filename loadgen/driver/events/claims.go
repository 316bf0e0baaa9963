package events

import (
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
)

// claims finds out which events a cursor claims to be delivered. A cursor is opaque, but
// one that came with an event stands for the position after that event. If the same cursor
// comes later without an event, to this subscription or to another one with the same
// arguments and principal, the target claims that every event up to that position was
// delivered.
//
// This holds only as long as every event has a cursor of its own. If two events have the
// same one, a cursor does not identify an event, and nothing is claimed from then on.
// Cursors of webhooks claim nothing: they are watermarks, which may lag behind their event
// and may skip an event that was given up.
type claims struct {
	ambiguous atomic.Bool
	// known has the cursors of the latest events, for other subscriptions; nil if the
	// lane has only one.
	known []knownCursor
}

// knownCursors is the length of claims.known.
const knownCursors = 1 << 10

// knownCursor is an event and the hash of its cursor. Any goroutine may store its parts,
// one by one. check depends on all of them, so that parts of two events are not taken for
// one.
type knownCursor struct{ key, event, check atomic.Uint64 }

// checkOf returns the check of a cursor's hash and an event of a run. Its upper half is
// the run.
func checkOf(key, event uint64, run uint32) uint64 {
	h := uint64(14695981039346656037) ^ uint64(run)
	for _, v := range [...]uint64{key, event} {
		h = (h ^ v) * 1099511628211
		h ^= h >> 29
	}
	return uint64(run)<<32 | h&0xffffffff
}

// none reports whether a raw cursor is missing or null.
func none(cursor []byte) bool { return len(cursor) == 0 || string(cursor) == "null" }

// keep makes the cursor of an event known to other subscriptions.
func (c *claims) keep(key uint64, stamp eventmeter.Stamp) {
	k := &c.known[key%knownCursors]
	event := uint64(stamp.Source)<<32 | uint64(stamp.Seq)
	check := checkOf(key, event, stamp.Run)
	if was := k.check.Load(); was == check {
		return
	} else if k.key.Load() == key && was == checkOf(key, k.event.Load(), uint32(was>>32)) {
		c.ambiguous.Store(true) // another subscription got another event with the same cursor
		return
	}
	k.key.Store(key)
	k.event.Store(event)
	k.check.Store(check)
}

// find returns the event that another subscription got with a cursor, the zero Stamp if
// there is none.
func (c *claims) find(key uint64) eventmeter.Stamp {
	if c.known == nil {
		return eventmeter.Stamp{}
	}
	k := &c.known[key%knownCursors]
	event, check := k.event.Load(), k.check.Load()
	run := uint32(check >> 32)
	if k.key.Load() != key || check != checkOf(key, event, run) {
		return eventmeter.Stamp{}
	}
	return eventmeter.Stamp{Run: run, Source: uint16(event >> 32), Seq: uint32(event)}
}
