package refserver

import (
	"slices"
	"sync"
)

// mixer takes the events of several subscriptions, each event once and those
// of a type in order, whichever of the subscriptions it belongs to.
type mixer struct {
	woken    func() // called under a topic's lock
	queueLen int

	mu   sync.Mutex
	taps []*tap
	turn int // of the tap that is looked at first
}

// tap is the readers of one topic.
type tap struct {
	topic   *topic
	readers []*reader
}

// add begins to take what a selection hears, from a position on or, with nil,
// from now on. It returns the reader, to be removed with remove, and the
// position before the first event that it will find.
func (m *mixer) add(t *topic, sel selection, after *uint64) (*reader, uint64) {
	from := start{}
	if after != nil {
		cursor := t.cursor(*after)
		from.cursor = &cursor
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, position, _ := t.open(sel, from, m.queueLen, m.woken)
	for _, p := range m.taps {
		if p.topic == t {
			p.readers = append(p.readers, r)
			return r, position
		}
	}
	m.taps = append(m.taps, &tap{topic: t, readers: []*reader{r}})
	return r, position
}

func (m *mixer) remove(r *reader) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range m.taps {
		if at := slices.Index(p.readers, r); at >= 0 {
			p.readers = slices.Delete(p.readers, at, at+1)
			if len(p.readers) == 0 {
				m.taps = slices.Delete(m.taps, i, i+1)
			}
			r.close()
			return
		}
	}
}

// close removes everything.
func (m *mixer) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.taps {
		for _, r := range p.readers {
			r.close()
		}
	}
	m.taps = nil
}

// take appends up to limit events to into, all of one topic, and tells which.
// It takes from the topics in turn. No event and no topic: there is nothing.
func (m *mixer) take(into []*event, limit int) ([]*event, *topic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range m.taps {
		p := m.taps[m.turn%len(m.taps)]
		m.turn++
		before := len(into)
		if into = p.take(into, limit); len(into) > before {
			return into, p.topic
		}
	}
	return into, nil
}

func (p *tap) take(into []*event, limit int) []*event {
	p.topic.mu.RLock()
	defer p.topic.mu.RUnlock()
	for _, r := range p.readers {
		r.trim()
	}
	for size := 0; limit > 0 && size < maxBatchBytes; limit-- {
		var next *event
		for _, r := range p.readers {
			if r.next < r.log.end() {
				if e := r.log.at(r.next); next == nil || e.n < next.n {
					next = e
				}
			}
		}
		if next == nil {
			break
		}
		for _, r := range p.readers {
			if r.next < r.log.end() && r.log.at(r.next) == next {
				r.next++
			}
		}
		into = append(into, next)
		size += len(next.frame)
	}
	return into
}

// trim skips what the reader has lost: what left the buffer, and what exceeds
// its queue. There is nobody to announce it to.
func (r *reader) trim() {
	var b batch
	l := r.log
	if r.next < l.first {
		r.skipTo(l.first, &b)
	}
	end := l.end()
	if live := max(r.next, r.replay); live < end && end-live > uint64(r.queueLen) {
		r.skipTo(end-uint64(r.queueLen), &b)
	}
}

// pending reports whether take would find an event.
func (m *mixer) pending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.taps {
		if slices.ContainsFunc(p.readers, (*reader).pending) {
			return true
		}
	}
	return false
}
