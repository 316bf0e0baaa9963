package refserver

import (
	"maps"
	"slices"
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
