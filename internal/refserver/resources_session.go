package refserver

import (
	"context"
	"slices"
	"sync"

	"github.com/eventmeter/eventmeter"
)

// resourceSession holds the subscriptions of one session of the legacy era. It
// outlives the session's streams.
type resourceSession struct {
	rs        *resources
	principal string

	mu     sync.Mutex
	over   bool
	subs   map[string]*resourceSub // by URI
	stream *updates                // the open stream, nil if there is none
}

// resourceSub is one subscription of a session.
type resourceSub struct {
	topic *topic
	sel   selection
	// from is the position at which the subscription was made: redelivery does
	// not go behind it.
	from   uint64
	reader *reader // nil without a stream
}

func (s *resourceSession) add(uri string) *rpcError {
	t, sel, rpcErr := s.rs.eventResource(uri, s.principal)
	if rpcErr != nil {
		return rpcErr
	}
	t = s.rs.as(eventmeter.Push, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return &rpcError{Code: codeInvalidRequest, Message: "the session has ended"}
	}
	if s.subs[uri] != nil {
		return nil
	}
	if rpcErr := s.rs.server.faultInjector.refuse("sep-1803", eventmeter.Push); rpcErr != nil {
		return rpcErr
	}
	if rpcErr := s.rs.server.reserve(); rpcErr != nil {
		return rpcErr
	}
	s.rs.server.counts.streams.Add(1)
	sub := &resourceSub{topic: t, sel: sel}
	s.subs[uri] = sub
	if s.stream != nil {
		sub.reader, sub.from = s.stream.mix.add(t, sel, nil)
	} else {
		sub.from = t.newest()
	}
	return nil
}

// newest returns the position of the newest event.
func (t *topic) newest() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.head
}

func (s *resourceSession) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(uri)
}

func (s *resourceSession) removeLocked(uri string) {
	sub := s.subs[uri]
	if sub == nil {
		return
	}
	delete(s.subs, uri)
	if sub.reader != nil {
		s.stream.mix.remove(sub.reader)
	}
	s.rs.server.counts.streams.Add(-1)
	s.rs.server.unreserve()
}

// clear ends every subscription of the session.
func (s *resourceSession) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.subs {
		s.removeLocked(uri)
	}
}

// attach makes u the session's stream. It ends a stream that is still open,
// because its client has gone or replaced it. With positions, delivery
// continues from there; without, it begins now. attach returns false if ctx
// ends or the session is over.
func (s *resourceSession) attach(ctx context.Context, u *updates, from positions) bool {
	for {
		s.mu.Lock()
		if s.over {
			s.mu.Unlock()
			return false
		}
		old := s.stream
		if old == nil {
			break
		}
		s.mu.Unlock()
		old.cancel()
		select {
		case <-old.detached:
		case <-ctx.Done():
			return false
		}
	}
	defer s.mu.Unlock()
	s.stream = u
	for _, sub := range s.subs {
		var after *uint64
		if from != nil {
			position := max(from[sub.topic], sub.from)
			after = &position
		}
		sub.reader, _ = u.mix.add(sub.topic, sub.sel, after)
		sub.reader.skipCut()
		u.reached[sub.topic] = max(from[sub.topic], sub.from)
		if from == nil {
			u.reached[sub.topic] = sub.topic.newest()
		}
	}
	return true
}

// detach ends u's time as the session's stream.
func (s *resourceSession) detach(u *updates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.mix.close()
	for _, sub := range s.subs {
		sub.reader = nil
	}
	s.stream = nil
	close(u.detached)
}

// positions is how far a stream has come in each topic. Its text is the id of
// the stream's events and is sufficient to continue from there, so the server
// keeps nothing for a client that may reconnect.
type positions map[*topic]uint64

// mixer reads the events of several subscriptions. It returns each event once
// and those of a topic in order, however many subscriptions select it.
type mixer struct {
	wake     func() // called under a topic's lock
	queueLen int

	mu   sync.Mutex
	taps []*tap
	turn int // index of the tap to read first
}

// tap holds the readers of one topic.
type tap struct {
	topic   *topic
	readers []*reader
}

// add adds a selection, from a position on or, with nil, from now on. It
// returns the reader, which remove removes, and the position before the first
// event that it will find.
func (m *mixer) add(t *topic, sel selection, after *uint64) (*reader, uint64) {
	from := start{}
	if after != nil {
		cursor := t.cursor(*after)
		from.cursor = &cursor
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, position, _ := t.open(sel, from, m.queueLen, m.wake)
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

// close removes every reader.
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

// one takes the next event.
func (m *mixer) one() batch {
	events, t := m.take(nil, 1)
	return batch{events: events, topic: t}
}

// take appends up to limit events of one topic to into, and returns the topic.
// It takes from the topics in turn. Without an event, the topic is nil.
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
		r.trim() // the protocol has no message to announce it
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
