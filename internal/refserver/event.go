package refserver

import (
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// timeLayout is ISO 8601 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// event is one published event. It is immutable, shared by the buffer and all
// subscribers, and encoded once.
type event struct {
	n  uint64 // position in its topic, from 1
	at time.Time
	id string
	// key is the value of the type's filter field.
	key string
	// fields is the Occurrence's JSON without braces and without a cursor.
	fields []byte
	// data is the event's own data, the last part of fields.
	data []byte
	// frame is the stream frame up to where a stream's own correlation id goes;
	// frameEnd follows it.
	frame []byte
	// gap marks a place where events were skipped; nothing else is in it then.
	gap bool
	// fault is committed by whoever writes the event, nil for none.
	fault *faults.Fault
}

const frameEnd = "}}}\n\n"

// newEvent encodes an event. data is valid compact JSON and is not kept.
func newEvent(t *topic, n uint64, id, key string, at time.Time, data []byte) *event {
	const open = `data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{`
	size := len(open) + len(data) + len(t.kind.name) + len(id) + 200
	b := make([]byte, 0, size)
	b = append(b, open...)
	start := len(b)
	b = append(b, `"eventId":"`...)
	b = append(b, id...)
	b = append(b, `","name":"`...)
	b = append(b, t.kind.name...)
	b = append(b, `","timestamp":"`...)
	b = at.UTC().AppendFormat(b, timeLayout)
	b = append(b, `","data":`...)
	own := len(b)
	b = append(b, data...)
	end := len(b)
	b = append(b, `,"cursor":"`...)
	b = t.appendCursor(b, n)
	b = append(b, `","_meta":{"`+subscriptionIDKey+`":`...)
	return &event{n: n, at: at, id: id, key: key, fields: b[start:end:end], data: b[own:end:end], frame: b}
}

// appendFrame appends the event's stream frame for the stream with that
// JSON-RPC id.
func (e *event) appendFrame(dst, id []byte) []byte {
	dst = append(dst, e.frame...)
	dst = append(dst, id...)
	return append(dst, frameEnd...)
}

// appendOccurrence appends the event as an object without a cursor, as a poll
// answer holds it.
func (e *event) appendOccurrence(dst []byte) []byte {
	dst = append(dst, '{')
	dst = append(dst, e.fields...)
	return append(dst, '}')
}

// appendCursor appends the cursor of position n.
func (t *topic) appendCursor(dst []byte, n uint64) []byte {
	dst = append(dst, *t.prefix.Load()...)
	return strconv.AppendUint(dst, n, 10)
}

func (t *topic) cursor(n uint64) string { return string(t.appendCursor(nil, n)) }
