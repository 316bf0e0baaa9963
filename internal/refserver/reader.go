package refserver

import (
	"strconv"
	"strings"
	"time"
)

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
