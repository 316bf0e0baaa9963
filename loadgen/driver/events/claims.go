package events

import (
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
)

// claims finds out what cursors claim. A cursor is opaque; but one that came
// with an event stands for the position behind that event. When the same cursor
// comes by itself later, to this subscription or to a sibling with the same
// arguments and principal, it claims that all up to there was delivered.
//
// That holds only as long as every event has a cursor of its own. When two
// events have the same one, the cursors of this target do not say which event
// they stand for, and nothing is claimed from then on. Of webhooks nothing is
// said either: their cursors are watermarks, which may lag behind the event that
// they come with, and may pass over one that was given up.
type claims struct {
	ambiguous atomic.Bool
	// known has the cursors of the latest events for siblings; nil where a lane
	// has a single subscription.
	known []knownCursor
}

// knownCursors is how many there are.
const knownCursors = 1 << 10

// knownCursor is an event under the hash of its cursor. Its parts are stored one
// by one, by any goroutine; check binds them together, so that parts of two
// events are taken for none.
type knownCursor struct{ key, event, check atomic.Uint64 }

// checkOf binds a cursor's hash to an event of a run, which is in the upper half.
func checkOf(key, event uint64, run uint32) uint64 {
	h := uint64(14695981039346656037) ^ uint64(run)
	for _, v := range [...]uint64{key, event} {
		h = (h ^ v) * 1099511628211
		h ^= h >> 29
	}
	return uint64(run)<<32 | h&0xffffffff
}

// none tells whether a target gave no cursor.
func none(cursor []byte) bool { return len(cursor) == 0 || string(cursor) == "null" }

// keep makes a cursor known to siblings.
func (c *claims) keep(key uint64, stamp eventmeter.Stamp) {
	k := &c.known[key%knownCursors]
	event := uint64(stamp.Source)<<32 | uint64(stamp.Seq)
	check := checkOf(key, event, stamp.Run)
	if was := k.check.Load(); was == check {
		return
	} else if k.key.Load() == key && was == checkOf(key, k.event.Load(), uint32(was>>32)) {
		c.ambiguous.Store(true) // a sibling has another event under the same cursor
		return
	}
	k.key.Store(key)
	k.event.Store(event)
	k.check.Store(check)
}

// find returns the event that a sibling got under a cursor; none has the
// sequence number 0.
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
