package refserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// topic is one event type with its replay buffer and its subscribers. Events
// are kept in one log of all, and again in one log for each filter value, so
// that a subscriber reads exactly what it hears and an emission walks nobody
// else. Every log is at once the replay buffer and the queue of its readers:
// a reader is an index into it.
type topic struct {
	kind      eventType
	prefix    atomic.Pointer[string] // of every cursor; a new life has a new one
	maxEvents int
	maxBytes  int
	maxAge    time.Duration
	overflow  *atomic.Int64 // events skipped because a reader lagged
	trouble   atomic.Pointer[trouble]
	withdrawn atomic.Bool // not offered now

	mu      sync.RWMutex
	head    uint64 // position of the newest event, 0 = none yet
	evicted uint64 // position of the newest event that left the buffer
	bytes   int    // that the events of the buffer take up
	all     *eventLog
	byKey   map[string]*eventLog
}

func newTopic(kind eventType, epoch string, opts Options, overflow *atomic.Int64) *topic {
	t := &topic{
		kind:      kind,
		maxEvents: opts.BufferEvents,
		maxBytes:  opts.BufferBytes,
		maxAge:    opts.BufferAge,
		overflow:  overflow,
		all:       &eventLog{},
		byKey:     make(map[string]*eventLog),
	}
	t.begin(epoch)
	return t
}

// begin gives the topic's cursors the epoch of a life.
func (t *topic) begin(epoch string) {
	prefix := "c" + epoch + "-"
	t.prefix.Store(&prefix)
}

// publish appends an event and wakes its readers. When it returns, every reader
// finds the event; the order of publish calls is the order of every reader.
func (t *topic) publish(id func() string, key string, data []byte) *event {
	return t.add(func(n uint64, now time.Time) *event { return newEvent(t, n, id(), key, now, data) })
}

// publishFaulty publishes an event whose writer commits a fault.
func (t *topic) publishFaulty(id func() string, key string, data []byte, f faults.Fault) {
	t.add(func(n uint64, now time.Time) *event {
		e := newEvent(t, n, id(), key, now, data)
		e.fault = &f
		return e
	})
}

// publishGap leaves a gap in place of an event; readers announce it.
func (t *topic) publishGap(id func() string, key string) {
	t.add(func(n uint64, now time.Time) *event { return &event{n: n, at: now, id: id(), key: key, gap: true} })
}

// otherKey is the filter value after key, in order and round, that events have
// been published under; false when there is no other.
func (t *topic) otherKey(key string) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	keys := slices.Sorted(maps.Keys(t.byKey))
	i, found := slices.BinarySearch(keys, key)
	if !found || len(keys) < 2 {
		return "", false
	}
	return keys[(i+1)%len(keys)], true
}

func (t *topic) add(make func(n uint64, now time.Time) *event) *event {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.head++
	e := make(t.head, now)
	key := e.key
	t.bytes += cap(e.frame)
	t.evict(now, t.maxEvents-1)
	t.all.push(e)
	t.all.wake()
	if t.kind.filter != "" {
		l := t.keyed(key)
		l.push(e)
		l.wake()
	}
	return e
}

// trouble is a transient error that the streams of a topic are told of.
type trouble struct{ err rpcError }

// disturb tells every stream of the topic of a transient error.
func (t *topic) disturb(err rpcError) {
	t.trouble.Store(&trouble{err})
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.all.wake()
	for _, l := range t.byKey {
		l.wake()
	}
}

// keyed returns the log of a filter value, making it if need be.
func (t *topic) keyed(key string) *eventLog {
	l := t.byKey[key]
	if l == nil {
		l = &eventLog{key: key, evicted: t.evicted}
		t.byKey[key] = l
	}
	return l
}

// evict drops events over the age, and the oldest ones until at most keep are
// left and their bytes are within the bound. An event is always the oldest of both logs that hold it.
func (t *topic) evict(now time.Time, keep int) {
	for t.all.count > 0 && (t.all.count > keep || t.bytes > t.maxBytes || now.Sub(t.all.at(t.all.first).at) > t.maxAge) {
		e := t.all.pop()
		t.evicted = e.n
		t.bytes -= cap(e.frame)
		if t.kind.filter == "" {
			continue
		}
		l := t.byKey[e.key]
		l.pop()
		t.release(l)
	}
}

// release forgets a filter value that has neither events nor readers.
func (t *topic) release(l *eventLog) {
	if l != t.all && l.count == 0 && len(l.readers) == 0 {
		delete(t.byKey, l.key)
	}
}

// eventLog is a queue of events with the readers that wait on it. Its events
// are numbered by an index that only grows: first is that of the oldest.
type eventLog struct {
	key     string
	ring    []*event
	start   int
	count   int
	first   uint64
	evicted uint64 // position of the newest event that left this log
	readers []*reader
}

func (l *eventLog) end() uint64 { return l.first + uint64(l.count) }

func (l *eventLog) at(index uint64) *event {
	return l.ring[(l.start+int(index-l.first))&(len(l.ring)-1)]
}

func (l *eventLog) push(e *event) {
	if l.count == len(l.ring) {
		grown := make([]*event, max(4, 2*len(l.ring)))
		for i := range l.count {
			grown[i] = l.ring[(l.start+i)&(len(l.ring)-1)]
		}
		l.ring, l.start = grown, 0
	}
	l.ring[(l.start+l.count)&(len(l.ring)-1)] = e
	l.count++
}

func (l *eventLog) pop() *event {
	e := l.ring[l.start]
	l.ring[l.start] = nil
	l.start = (l.start + 1) & (len(l.ring) - 1)
	l.first++
	l.count--
	l.evicted = e.n
	return e
}

func (l *eventLog) wake() {
	for _, r := range l.readers {
		r.wake()
	}
}

// after returns the index of the first event past position n.
func (l *eventLog) after(n uint64) uint64 {
	low, high := l.first, l.end()
	for low < high {
		mid := low + (high-low)/2
		if l.at(mid).n > n {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// wakeAll lets every reader look what has changed.
func (t *topic) wakeAll() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.all.wake()
	for _, l := range t.byKey {
		l.wake()
	}
}

// eventType is one entry of events/list.
type eventType struct {
	name        string
	description string
	// filter is the one argument that a subscription may give, and the field
	// of the data it is compared with. Empty: the type takes no arguments.
	filter string
	// owned says that each event is one principal's, whose name stands in the
	// filter field: a subscription hears its own principal's and takes no
	// argument.
	owned   bool
	input   json.RawMessage
	payload json.RawMessage
}

// selection is what a subscription hears of a type: everything, or the events
// whose filter field equals key.
type selection struct {
	keyed bool
	key   string
}

// selectBy reads a subscription's arguments. It returns them in canonical form
// (sorted keys, no white space) beside the selection they make.
func (t eventType) selectBy(arguments json.RawMessage) (selection, string, error) {
	var args map[string]any
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &args); err != nil {
			return selection{}, "", fmt.Errorf("arguments: not an object")
		}
	}
	var sel selection
	for name, value := range args {
		if name != t.filter || name == "" || t.owned {
			return selection{}, "", fmt.Errorf("arguments: %s takes no argument %q", t.name, name)
		}
		text, ok := value.(string)
		if !ok {
			return selection{}, "", fmt.Errorf("arguments: %s is not a string", name)
		}
		sel = selection{keyed: true, key: text}
	}
	if args == nil {
		return sel, "{}", nil
	}
	canonical, err := json.Marshal(args) // sorts the keys
	if err != nil {
		return selection{}, "", fmt.Errorf("arguments: %w", err)
	}
	return sel, string(canonical), nil
}

// keyOf finds the filter value in an event's data, which must be an object.
func (t eventType) keyOf(data []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return "", fmt.Errorf("data is not a JSON object")
	}
	var key string
	if raw, ok := fields[t.filter]; ok && len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &key); err != nil {
			return "", fmt.Errorf("data.%s: %w", t.filter, err)
		}
	}
	return key, nil
}

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

// reader is one subscriber's place in a log. It is used by one goroutine at a
// time; wake is called by publishers.
type reader struct {
	topic *topic
	log   *eventLog // nil: a filter value that nobody has used (glance only)
	// next is the index of the next event; what lies below replay was there
	// before the reader and is not held against its queue.
	next, replay uint64
	queueLen     int    // 0 = no bound
	wake         func() // called under the topic's lock: must not block or lock it
	slot         int    // place in log.readers
}

// start says where a new reader begins.
type start struct {
	cursor *string       // nil = from now
	maxAge time.Duration // 0 = no bound on the age of what is replayed
}

// open makes a reader and registers it; it must be closed. The position is the
// one before the first event that the reader will find, and truncated says
// that events between the cursor and there are gone.
func (t *topic) open(sel selection, from start, queueLen int, wake func()) (r *reader, position uint64, truncated bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.evict(now, t.maxEvents)
	r = &reader{topic: t, log: t.all, queueLen: queueLen, wake: wake}
	if sel.keyed {
		r.log = t.keyed(sel.key)
	}
	r.slot = len(r.log.readers)
	r.log.readers = append(r.log.readers, r)
	truncated = r.seek(from, now)
	return r, r.position(), truncated
}

// glance takes up to limit events from a cursor without registering anybody.
// It does both under one lock: between two, the log of a filter value could
// come or go, and the events in it be passed over.
func (t *topic) glance(sel selection, from start, limit int) batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.evict(now, t.maxEvents)
	r := &reader{topic: t, log: t.all}
	if sel.keyed {
		r.log = t.byKey[sel.key]
	}
	truncated := r.seek(from, now)
	b := r.takeLocked(nil, limit)
	b.gap = b.gap || truncated
	return b
}

// seek puts a reader behind its cursor.
func (r *reader) seek(from start, now time.Time) (truncated bool) {
	after, truncated := r.topic.resolve(from.cursor)
	l := r.log
	if l == nil {
		return truncated || r.topic.evicted > after
	}
	r.next, r.replay = l.after(after), l.end()
	if l.evicted > after {
		truncated = true
	}
	for from.maxAge > 0 && r.next < l.end() && now.Sub(l.at(r.next).at) > from.maxAge {
		r.next++
		truncated = true
	}
	return truncated
}

// resolve reads a cursor: the position after which to go on, and whether
// something may have been missed whatever the buffer holds. A cursor of another
// life of this server goes on from the oldest event of this one; what is no
// cursor at all goes on from now.
func (t *topic) resolve(cursor *string) (after uint64, truncated bool) {
	if cursor == nil {
		return t.head, false
	}
	if number, ok := strings.CutPrefix(*cursor, *t.prefix.Load()); ok {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > t.head {
			return t.head, true
		}
		return n, false
	}
	epoch, number, ok := strings.Cut(*cursor, "-")
	if _, err := strconv.ParseUint(number, 10, 64); !ok || err != nil || !strings.HasPrefix(epoch, "c") {
		return t.head, true
	}
	return 0, true
}

// position is the cursor position before the next event: everything up to it
// has been taken, or was not for this reader.
func (r *reader) position() uint64 {
	if r.log == nil || r.next >= r.log.end() {
		return r.topic.head
	}
	return r.log.at(r.next).n - 1
}

// batch is what a reader took.
type batch struct {
	events []*event
	// before and after are the positions around the events.
	before, after uint64
	// gap is true when events were skipped before the first one.
	gap bool
	// more is true when the log holds more.
	more bool
}

// maxBatchBytes bounds the bytes of the events of one batch; its first event is
// taken whatever its size.
const maxBatchBytes = 1 << 20

// take appends up to limit events to into and moves past them. A batch ends
// early when its events are large.
func (r *reader) take(into []*event, limit int) batch {
	r.topic.mu.RLock()
	defer r.topic.mu.RUnlock()
	return r.takeLocked(into, limit)
}

func (r *reader) takeLocked(into []*event, limit int) batch {
	b := batch{events: into}
	l := r.log
	if l == nil {
		b.before, b.after = r.topic.head, r.topic.head
		return b
	}
	end := l.end()
	if r.next < l.first {
		r.skipTo(l.first, &b)
	}
	if live := max(r.next, r.replay); r.queueLen > 0 && live < end && end-live > uint64(r.queueLen) {
		r.skipTo(end-uint64(r.queueLen), &b)
	}
	b.before = r.position()
	for size := 0; r.next < end && limit > 0 && size < maxBatchBytes; limit-- {
		e := l.at(r.next)
		if e.gap {
			if len(b.events) > 0 {
				break // it is announced before the events after it
			}
			b.gap, b.before = true, e.n
			r.next++
			continue
		}
		b.events = append(b.events, e)
		size += len(e.frame)
		r.next++
	}
	b.after = r.position()
	b.more = r.next < end
	return b
}

func (r *reader) skipTo(index uint64, b *batch) {
	r.topic.overflow.Add(int64(index - r.next))
	r.next, b.gap = index, true
}

// pending reports whether take would find an event.
func (r *reader) pending() bool {
	r.topic.mu.RLock()
	defer r.topic.mu.RUnlock()
	return r.next < r.log.end()
}

// close unregisters the reader. After it returns wake is not called again.
func (r *reader) close() {
	t := r.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	l := r.log
	last := len(l.readers) - 1
	l.readers[r.slot] = l.readers[last]
	l.readers[r.slot].slot = r.slot
	l.readers[last] = nil
	l.readers = l.readers[:last]
	t.release(l)
}

// where is the position that the reader has reached.
func (r *reader) where() uint64 {
	r.topic.mu.RLock()
	defer r.topic.mu.RUnlock()
	return r.position()
}
