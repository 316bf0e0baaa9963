package events

import (
	"bytes"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// keyOf hashes a cursor, the arguments and the principal.
func (r *run) keyOf(cursor []byte) uint64 { return eventmeter.HashID(cursor) ^ r.group }

// comesWith keeps the cursor that an event came with.
func (d *lane) comesWith(r *run, cursor []byte, stamp eventmeter.Stamp) {
	if none(cursor) {
		return
	}
	c := &d.claims
	r.Mu.Lock()
	if !bytes.Equal(r.cursor, cursor) {
		r.cursor = append(r.cursor[:0], cursor...)
	} else if r.stands != (eventmeter.Stamp{}) && r.stands != stamp {
		c.ambiguous.Store(true)
	}
	r.stands = stamp
	r.Mu.Unlock()
	if c.known != nil {
		c.keep(r.keyOf(cursor), stamp)
	}
}

// claim reports what a cursor claims that came by itself, if that is known and
// was not claimed just before. It does not keep the cursor.
func (d *lane) claim(r *run, cursor []byte, at eventmeter.Instant) {
	if none(cursor) || d.claims.ambiguous.Load() {
		return
	}
	r.Mu.Lock()
	var stands eventmeter.Stamp
	if bytes.Equal(r.cursor, cursor) {
		stands = r.stands
	}
	if stands == (eventmeter.Stamp{}) {
		stands = d.claims.find(r.keyOf(cursor))
	}
	news := stands != (eventmeter.Stamp{}) && stands != r.claimed
	if news {
		r.claimed = stands
	}
	r.Mu.Unlock()
	if news {
		d.Recorder.Noticed(eventmeter.Notice{Sub: r.Sub, Kind: eventmeter.Claimed, At: at, Stamp: stands})
	}
}

// position returns a copy of the last cursor; nil if there was none.
func (r *run) position() []byte {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return slices.Clone(r.cursor)
}

// setCursor keeps a position that the target sent. null says that there is
// none to send, not that the old one is void.
func (r *run) setCursor(raw []byte) {
	if none(raw) {
		return
	}
	if len(raw) > mcpclient.MaxCursor { // only a webhook's: elsewhere, what brings it is refused
		r.Caller.TooLargeFor(r.Sub, r.Caller.Clock.Now(), mcpclient.ErrCursor)
		return
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if !bytes.Equal(r.cursor, raw) {
		r.cursor, r.stands = append(r.cursor[:0], raw...), eventmeter.Stamp{}
	}
}

// position writes the cursor and the bound of a replay.
func (d *lane) position(o *wire.Object, r *run) {
	r.Mu.Lock()
	o.Raw("cursor", r.cursor)
	r.Mu.Unlock()
	switch age := d.Opts.MaxAge; {
	case age <= 0:
	case d.older:
		o.Int("maxAge", int64((age+time.Second-1)/time.Second))
	default:
		o.Int("maxAgeMs", age.Milliseconds())
	}
}

// at tells whether the run's position is cursor.
func (r *run) at(cursor []byte) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return bytes.Equal(r.cursor, cursor)
}
