package events

import (
	"bytes"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// keyOf returns a hash of a cursor and the run's arguments and principal.
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

// claim reports which event a cursor that came without an event claims, if that is known
// and was not the last claim. It does not keep the cursor.
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

// setCursor keeps a cursor that the target sent. null means that the target has nothing to
// send, not that the last cursor is void.
func (r *run) setCursor(raw []byte) {
	if none(raw) {
		return
	}
	if len(raw) > mcpclient.MaxCursor { // of a webhook: other messages with such a cursor are refused as a whole
		r.Caller.TooLargeFor(r.Sub, r.Caller.Clock.Now(), mcpclient.ErrCursor)
		return
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if !bytes.Equal(r.cursor, raw) {
		r.cursor, r.stands = append(r.cursor[:0], raw...), eventmeter.Stamp{}
	}
}

// heed handles an error of the older revision that says that the run's cursor has expired:
// it drops the cursor, so that the run begins now, and returns true. It also makes the
// error's code mean what it means in that revision.
func (d *lane) heed(r *run, e *mcpclient.CallError) (anew bool) {
	if !d.older || d.flavour.plain || !e.In(mcpclient.Older).Expired() {
		return false
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.cursor, r.stands, r.expired = nil, eventmeter.Stamp{}, true
	return true
}

// begunAnew reports, once, whether heed has dropped the cursor: the events since that
// cursor are skipped.
func (r *run) begunAnew() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	was := r.expired
	r.expired = false
	return was
}

// position writes the cursor, and the largest age of events in a replay.
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

// at reports whether the run's cursor is cursor.
func (r *run) at(cursor []byte) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return bytes.Equal(r.cursor, cursor)
}
