package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// TraceRecorder is a Recorder that writes a trace of published or received events. Use
// it beside the ledger, with [eventmeter.Tee]. Its own goroutine makes and writes the
// lines, so that it delays no caller. If entries come faster than they can be written,
// some are left out, and Close returns an error.
type TraceRecorder struct {
	recorder              // ignores all other calls
	start    atomic.Int64 // the Instant at which t is 0
	content  func(Emission) (string, []byte)
	queue    chan traced
	done     chan struct{}
	missed   atomic.Int64
	written  int64 // by the goroutine
	err      error // by the goroutine

	mu   sync.Mutex
	seen *idRing // ids of events that were written; guarded by mu
}

// recorder is an alias, so that the embedded field is not exported.
type recorder = eventmeter.Recorder

// traced is an entry for the file.
type traced struct {
	at       eventmeter.Instant
	emission Emission
	message  []byte // of a received event; nil for a published one
}

// traceQueue is how many entries may wait for the file.
const traceQueue = 1 << 14

// NewTraceRecorder returns a TraceRecorder that writes published events, with the
// name and the payload that content returns. If content is nil, it writes received
// events: an event with an id once, however many subscriptions receive it, and events
// without an id only from the first subscription.
func NewTraceRecorder(w io.Writer, content func(Emission) (event string, payload []byte)) *TraceRecorder {
	t := &TraceRecorder{
		recorder: eventmeter.Tee(),
		content:  content,
		queue:    make(chan traced, traceQueue),
		done:     make(chan struct{}),
		seen:     newIDRing(1 << 16),
	}
	go t.write(w)
	return t
}

// Start sets the instant at which the trace's time is 0. Events before it are not
// written.
func (t *TraceRecorder) Start(at eventmeter.Instant) { t.start.Store(int64(at)) }

// Fired implements [eventmeter.Recorder].
func (t *TraceRecorder) Fired(e Emission) {
	if t.content != nil {
		t.add(traced{at: e.Fired, emission: e})
	}
}

// Observed implements [eventmeter.Observer].
func (t *TraceRecorder) Observed(o eventmeter.Observation) {
	start := eventmeter.Instant(t.start.Load())
	if t.content != nil || start == 0 || o.At < start {
		return
	}
	if o.EventID == 0 {
		if o.Sub != (eventmeter.Sub{}) {
			return
		}
	} else {
		t.mu.Lock()
		again := t.seen.add(o.EventID)
		t.mu.Unlock()
		if again {
			return
		}
	}
	t.add(traced{at: o.At, message: append([]byte(nil), o.Message...)})
}

func (t *TraceRecorder) add(e traced) {
	select {
	case t.queue <- e:
	default:
		t.missed.Add(1)
	}
}

// write writes the entries until Close.
func (t *TraceRecorder) write(w io.Writer) {
	defer crash.Guard()
	defer close(t.done)
	out := bufio.NewWriter(w)
	var line []byte
	var last eventmeter.Instant
	for e := range t.queue {
		if t.err != nil {
			continue
		}
		start := eventmeter.Instant(t.start.Load())
		if start == 0 || e.at < start {
			continue
		}
		// Entries come from several goroutines, so neighbours may be out of order.
		last = max(last, e.at)
		entry := TraceEntry{At: last.Sub(start), Source: e.emission.Source}
		if e.message == nil {
			entry.Event, entry.Payload = t.content(e.emission)
		} else if entry.Event, entry.Payload = eventIn(e.message); entry.Payload == nil {
			continue
		}
		if line, t.err = entry.Append(line[:0]); t.err == nil {
			_, t.err = out.Write(line)
		}
		t.written++
	}
	if err := out.Flush(); t.err == nil {
		t.err = err
	}
}

// eventIn returns the name and the data of an event. Of a message without an object
// as data it returns the whole message; of one that is not a JSON object, nothing.
func eventIn(message []byte) (name string, payload json.RawMessage) {
	var m struct {
		Params json.RawMessage `json:"params"`
		Name   string          `json:"name"`
		Data   json.RawMessage `json:"data"`
	}
	if json.Unmarshal(message, &m) != nil {
		return "", nil
	}
	if len(m.Params) > 0 && m.Params[0] == '{' {
		return eventIn(m.Params)
	}
	if len(m.Data) == 0 || m.Data[0] != '{' {
		return m.Name, message
	}
	return m.Name, m.Data
}

// Close waits until all entries are written and returns their number. It does not
// close the writer. No other method may be called afterwards. The error is that of
// the writer, or says how many entries were left out.
func (t *TraceRecorder) Close() (entries int64, err error) {
	close(t.queue)
	<-t.done
	if t.err != nil {
		return t.written, fmt.Errorf("write the trace: %w", t.err)
	}
	if n := t.missed.Load(); n > 0 {
		return t.written, fmt.Errorf("write the trace: %d entries are missing, since the file could not be written as fast as they came", n)
	}
	return t.written, nil
}

// idRing holds the newest ids, in bounded memory.
type idRing struct {
	known map[uint64]struct{}
	ring  []uint64
	next  int
}

func newIDRing(size int) *idRing {
	return &idRing{known: map[uint64]struct{}{}, ring: make([]uint64, size)}
}

// add adds an id, which must not be 0, and reports whether it was there already.
func (r *idRing) add(id uint64) bool {
	if _, ok := r.known[id]; ok {
		return true
	}
	if old := r.ring[r.next]; old != 0 {
		delete(r.known, old)
	}
	r.ring[r.next] = id
	r.next = (r.next + 1) % len(r.ring)
	r.known[id] = struct{}{}
	return false
}
