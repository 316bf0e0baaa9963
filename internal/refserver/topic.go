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

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// topic is one event type with its replay buffer and its subscribers. Events
// are kept in one log of all events, and again in one log per filter value, so
// that a subscriber reads only its own events and a publication visits no other
// subscribers. Each log is both the replay buffer and the queue of its readers:
// a reader is an index into it.
type topic struct {
	kind           eventType
	prefix         atomic.Pointer[string] // of every cursor; a restart changes it
	maxEvents      int
	maxBytes       int
	maxAge         time.Duration
	overflow       *atomic.Int64 // events skipped because a reader lagged
	transientError atomic.Pointer[transientError]
	withdrawn      atomic.Bool            // removed from the catalogue
	schema         atomic.Uint32          // how often its schema was changed in place
	former         atomic.Pointer[string] // the prefix before the last change of the schema

	mu      sync.RWMutex
	head    uint64 // position of the newest event, 0 = none yet
	opened  uint64 // readers so far
	evicted uint64 // position of the newest event that left the buffer
	bytes   int    // size of the buffered events
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
	t.setEpoch(epoch)
	return t
}

// changeSchema begins an epoch of cursors, so that pollers are told: those of
// the epoch before are recognised.
func (t *topic) changeSchema(epoch string) {
	t.former.Store(t.prefix.Load())
	t.setEpoch(epoch)
	t.schema.Add(1)
}

// isFormer reports whether a cursor is of the schema before the last change.
func (t *topic) isFormer(cursor *string) bool {
	former := t.former.Load()
	return cursor != nil && former != nil && strings.HasPrefix(*cursor, *former)
}

// payloadSchema is the schema of the type's data. A title stands for whatever
// was changed in place.
func (t *topic) payloadSchema() json.RawMessage {
	if n := t.schema.Load(); n > 0 {
		return append([]byte(`{"title":"version `+strconv.FormatUint(uint64(n+1), 10)+`",`), t.kind.payload[1:]...)
	}
	return t.kind.payload
}

// begin sets the epoch of the topic's cursors.
func (t *topic) setEpoch(epoch string) {
	prefix := "c" + epoch + "-"
	t.prefix.Store(&prefix)
}

// publish appends an event and wakes its readers. When it returns, every reader
// finds the event. All readers see events in the order of the publish calls.
func (t *topic) publish(id func() string, key string, data []byte) *event {
	return t.add(func(n uint64, now time.Time) *event { return newEvent(t, n, id(), key, now, data) })
}

// publishFaulty publishes an event whose writer applies a fault.
func (t *topic) publishFaulty(id func() string, key string, data []byte, f faults.Fault) {
	t.add(func(n uint64, now time.Time) *event {
		e := newEvent(t, n, id(), key, now, data)
		e.fault = &f
		return e
	})
}

// publishGap puts a gap in place of an event; readers announce it.
func (t *topic) publishGap(id func() string, key string) {
	t.add(func(n uint64, now time.Time) *event { return &event{n: n, at: now, id: id(), key: key, gap: true} })
}

// otherKey returns the published filter value that follows key in cyclic order.
// It returns false if there is no other.
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

// transientError is an error that the streams of a topic send once.
type transientError struct{ err rpcError }

// disturb sends a transient error to every stream of the topic.
func (t *topic) disturb(err rpcError) {
	t.transientError.Store(&transientError{err})
	t.wakeAll()
}

// keyed returns the log of a filter value. It makes the log if necessary.
func (t *topic) keyed(key string) *eventLog {
	l := t.byKey[key]
	if l == nil {
		l = &eventLog{key: key, evicted: t.evicted}
		t.byKey[key] = l
	}
	return l
}

// evict drops events that are too old, and then the oldest ones until at most
// keep events remain and their size is within the bound. An event is always the
// oldest of both logs that hold it.
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

// release drops the log of a filter value that has neither events nor readers.
func (t *topic) release(l *eventLog) {
	if l != t.all && l.count == 0 && len(l.readers) == 0 {
		delete(t.byKey, l.key)
	}
}

// eventLog is a queue of events with the readers that wait on it. An index that
// only grows numbers the events; first is the index of the oldest.
type eventLog struct {
	key string
	queue[*event]
	first   uint64
	evicted uint64 // position of the newest event that left this log
	readers []*reader
}

func (l *eventLog) end() uint64 { return l.first + uint64(l.count) }

func (l *eventLog) at(index uint64) *event {
	return *l.slot(int(index - l.first))
}

func (l *eventLog) pop() *event {
	e := l.queue.pop()
	l.first++
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

// wakeAll wakes every reader of the topic.
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
	// filter names the one argument that a subscription may give, and the field
	// of the data that it is compared with. Empty: the type takes no arguments.
	filter string
	// owned says that each event belongs to the principal named in the filter
	// field. A subscription receives the events of its own principal; as an
	// argument, the field may name no other.
	owned bool
	// modes are the delivery modes of the type; nil = all.
	modes []eventmeter.Mode
	// noReplay says that the type has no cursors: a subscription begins now.
	noReplay bool
	hint     string // describes the filter
	payload  json.RawMessage
}

// input is the schema of the type's arguments.
func (t eventType) input() string {
	argument := ""
	if t.filter != "" {
		argument = `"` + t.filter + `":{"type":"string","description":"` + t.hint + `"}`
	}
	return `{"type":"object","properties":{` + argument + `},"additionalProperties":false}`
}

// has reports whether the type can be delivered in a mode.
func (t eventType) has(mode eventmeter.Mode) bool {
	return t.modes == nil || slices.Contains(t.modes, mode)
}

// selection is the part of a topic that a subscription receives: every event,
// or the events whose filter field equals key.
type selection struct {
	keyed bool
	key   string
}

// selectBy decodes the arguments of a subscription. It returns the selection
// and the arguments in canonical form (sorted keys, no white space).
func (t eventType) selectBy(arguments json.RawMessage) (selection, string, error) {
	var args map[string]any
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &args); err != nil {
			return selection{}, "", fmt.Errorf("arguments: not an object")
		}
	}
	var sel selection
	for name, value := range args {
		if name != t.filter || name == "" {
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

// keyOf returns the filter value in an event's data, which must be an object.
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
	// fields is the JSON of the Occurrence without braces and cursor.
	fields []byte
	// data is the event's own data, the last part of fields.
	data []byte
	// frame is the stream frame up to the correlation id of the stream;
	// frameEnd follows the id.
	frame []byte
	// gap marks a place where events were skipped. Such an event has no
	// content.
	gap bool
	// fault is the fault that the writer of the event applies; nil = none.
	fault *faults.Fault
}

// frameMeta comes before the id that names the stream of a frame, frameEnd after it.
// In the older revision, requestId names it, and olderFrameEnd follows.
// Every notification begins with notification.
const (
	notification  = `data: {"jsonrpc":"2.0","method":"notifications/`
	frameMeta     = `,"_meta":{"` + subscriptionIDKey + `":`
	frameEnd      = "}}}\n\n"
	olderFrameEnd = "}}\n\n"
)

// newEvent encodes an event. data is valid compact JSON; newEvent does not keep
// it.
func newEvent(t *topic, n uint64, id, key string, at time.Time, data []byte) *event {
	const open = notification + `events/event","params":{`
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
	b = append(b, `,"cursor":`...)
	b = t.appendCursorValue(b, n)
	b = append(b, frameMeta...)
	return &event{n: n, at: at, id: id, key: key, fields: b[start:end:end], data: b[own:end:end], frame: b}
}

// appendFrame appends the stream frame of the event for the stream with that
// JSON-RPC id.
func (e *event) appendFrame(dst, id []byte) []byte {
	dst = append(dst, e.frame...)
	dst = append(dst, id...)
	return append(dst, frameEnd...)
}

// appendOccurrence appends the event as an object without a cursor, as in the
// answer to a poll.
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

// appendCursorValue appends the cursor of position n as JSON: null where the
// type has no replay.
func (t *topic) appendCursorValue(dst []byte, n uint64) []byte {
	if t.kind.noReplay {
		return append(dst, "null"...)
	}
	return append(t.appendCursor(append(dst, '"'), n), '"')
}

// reader is the position of one subscriber in a log. One goroutine at a time
// uses it; publishers call wake.
type reader struct {
	topic *topic
	log   *eventLog // nil: a filter value without a log (readOnce only)
	// next is the index of the next event. Events below replay were published
	// before the reader existed and do not count against its queue.
	next, replay uint64
	queueLen     int    // 0 = no bound
	wake         func() // called under the topic's lock: must not block or lock it
	slot         int    // place in log.readers
	swaps        bool   // a fault: events that say so come after the next one
}

// start says where a new reader begins.
type start struct {
	cursor *string       // nil = from now
	maxAge time.Duration // 0 = no bound on the age of replayed events
}

// open makes and registers a reader, which must be closed. The returned
// position is the one before the first event that the reader will find.
// truncated says that events between the cursor and that position are gone.
func (t *topic) open(sel selection, from start, queueLen int, wake func()) (r *reader, position uint64, truncated bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.evict(now, t.maxEvents)
	r = &reader{topic: t, log: t.all, queueLen: queueLen, wake: wake}
	if sel.keyed {
		r.log = t.keyed(sel.key)
	}
	t.opened++
	r.swaps = t.opened%2 == 0
	r.slot = len(r.log.readers)
	r.log.readers = append(r.log.readers, r)
	truncated = r.seek(from, now)
	return r, r.position(), truncated
}

// readOnce takes up to limit events from a cursor without registering a reader.
// It does both under one lock: between two, the log of a filter value could
// appear or vanish, and its events would be missed.
func (t *topic) readOnce(sel selection, from start, limit int) batch {
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

// seek moves a reader to the event after its cursor.
func (r *reader) seek(from start, now time.Time) (truncated bool) {
	if r.topic.kind.noReplay {
		from = start{}
	}
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

// resolve decodes a cursor into the position to continue after. truncated says
// that events may have been missed whatever the buffer holds. A cursor from
// before a restart continues with the oldest event; an invalid cursor continues
// from now.
func (t *topic) resolve(cursor *string) (after uint64, truncated bool) {
	if cursor == nil {
		return t.head, false
	}
	number, ok := strings.CutPrefix(*cursor, *t.prefix.Load())
	if former := t.former.Load(); !ok && former != nil {
		number, ok = strings.CutPrefix(*cursor, *former) // of the same events
	}
	if ok {
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
// was taken or filtered out. The caller holds the topic's lock.
func (r *reader) position() uint64 {
	if r.log == nil || r.next >= r.log.end() {
		return r.topic.head
	}
	return r.log.at(r.next).n - 1
}

// batch is the result of one read.
type batch struct {
	events []*event
	topic  *topic // of the events
	// before and after are the positions around the events.
	before, after uint64
	// gap is true if events were skipped before the first one.
	gap bool
	// more is true if the log holds more events.
	more bool
}

// maxBatchBytes bounds the size of the events of one batch. The first event is
// taken whatever its size.
const maxBatchBytes = 1 << 20

// take appends up to limit events to into and moves past them. A batch ends
// early when its events are large.
func (r *reader) take(into []*event, limit int) batch {
	r.topic.mu.RLock()
	defer r.topic.mu.RUnlock()
	return r.takeLocked(into, limit)
}

// one takes the next event.
func (r *reader) one() batch { return r.take(nil, 1) }

func (r *reader) takeLocked(into []*event, limit int) batch {
	b := batch{events: into, topic: r.topic}
	l := r.log
	if l == nil {
		b.before, b.after = r.topic.head, r.topic.head
		return b
	}
	end := l.end()
	b.gap = r.trim()
	b.before = r.position()
	for size := 0; r.next < end && limit > 0 && size < maxBatchBytes; limit-- {
		e := l.at(r.next)
		if e.gap {
			if len(b.events) > 0 {
				break // the gap is announced before the events after it
			}
			b.gap, b.before = true, e.n
			r.next++
			continue
		}
		if r.swaps && e.fault != nil && e.fault.Kind == faults.Swap {
			if r.next+1 == end {
				break // it waits for the next event
			}
			if behind := l.at(r.next + 1); !behind.gap {
				b.events = append(b.events, behind)
				size += len(behind.frame)
				r.next++
			}
		}
		b.events = append(b.events, e)
		size += len(e.frame)
		r.next++
	}
	b.after = r.position()
	b.more = r.next < end
	return b
}

// trim skips events that left the buffer or exceed the reader's queue. It reports whether
// there were any. The caller holds the topic's lock.
func (r *reader) trim() (gap bool) {
	to := max(r.next, r.log.first)
	if end, most := r.log.end(), uint64(r.queueLen); most > 0 && end > max(to, r.replay)+most {
		to = end - most
	}
	if to == r.next {
		return false
	}
	r.topic.overflow.Add(int64(to - r.next))
	r.next = to
	return true
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

// currentPosition is position under the topic's lock.
func (r *reader) currentPosition() uint64 {
	r.topic.mu.RLock()
	defer r.topic.mu.RUnlock()
	return r.position()
}

// restart drops all events of the topic and begins a new epoch.
func (t *topic) restart(epoch string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict(time.Now(), 0)
	t.setEpoch(epoch)
}
