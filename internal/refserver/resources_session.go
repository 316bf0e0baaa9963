package refserver

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter"
)

// resourceSession is what one session of the legacy era has subscribed to. It
// outlives its streams.
type resourceSession struct {
	rs        *resources
	principal string

	mu     sync.Mutex
	over   bool
	subs   map[string]*resourceSub // by URI
	stream *updates                // the one that is open; nil = none
}

// resourceSub is one subscription of a session.
type resourceSub struct {
	topic *topic
	sel   selection
	// from is the position at which it was made: a redelivery does not go
	// behind it.
	from   uint64
	reader *reader // while there is a stream
}

// session returns what is known of a session, making it if need be.
func (rs *resources) session(id, principal string) *resourceSession {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.sessions[id]
	if s == nil {
		s = &resourceSession{rs: rs, principal: principal, subs: make(map[string]*resourceSub)}
		rs.sessions[id] = s
	}
	return s
}

// drop forgets a session that has ended.
func (rs *resources) drop(id string) {
	rs.mu.Lock()
	s := rs.sessions[id]
	delete(rs.sessions, id)
	rs.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.clear()
}

// subscribe answers resources/subscribe. Subscribing again changes nothing.
func (rs *resources) subscribe(w http.ResponseWriter, r *http.Request, c *call) {
	s, uri, wrong := rs.ofSession(r, c)
	if wrong == nil {
		wrong = s.add(uri)
	}
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	c.answer(w, nil)
}

// unsubscribe answers resources/unsubscribe. What was not subscribed to is
// left alone.
func (rs *resources) unsubscribe(w http.ResponseWriter, r *http.Request, c *call) {
	s, uri, wrong := rs.ofSession(r, c)
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	s.remove(uri)
	c.answer(w, nil)
}

func (rs *resources) ofSession(r *http.Request, c *call) (*resourceSession, string, *rpcError) {
	var p uriParams
	if wrong := decodeParams(c.params, &p); wrong != nil {
		return nil, "", wrong
	}
	id := r.Header.Get(headerSession) // the face has looked that there is one
	if id == "" {
		return nil, "", &rpcError{Code: codeInvalidRequest, Message: c.method + " needs a session: updates come on its stream"}
	}
	return rs.session(id, c.principal), p.URI, nil
}

func (s *resourceSession) add(uri string) *rpcError {
	t, sel, wrong := s.rs.eventResource(uri, s.principal)
	if wrong != nil {
		return wrong
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
	if wrong := s.rs.server.faultInjector.refuses("sep-1803", eventmeter.Push); wrong != nil {
		return wrong
	}
	if wrong := s.rs.server.reserve(); wrong != nil {
		return wrong
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

// newest is the position of the newest event.
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

// attach makes u the session's stream. A stream that is still open gives way:
// its client has gone, or has thought better of it. With a place, deliveries
// go on from there; without one, they begin now. It reports false if ctx ends
// or the session is over.
func (s *resourceSession) attach(ctx context.Context, u *updates, from place) bool {
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
		case <-old.left:
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

// detach ends u's turn as the session's stream.
func (s *resourceSession) detach(u *updates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.mix.close()
	for _, sub := range s.subs {
		sub.reader = nil
	}
	s.stream = nil
	close(u.left)
}

// place is how far a stream has come in each topic. Its text is the id of the
// stream's events: all that is needed to go on from there, so that nothing is
// kept for a client that has gone but may come back.
type place map[*topic]uint64

// appendPlace appends the text of a place: the server's life, and the positions
// in the order of the catalogue.
func (rs *resources) appendPlace(dst []byte, p place) []byte {
	dst = append(dst, rs.life()...)
	for _, t := range rs.inBand() {
		dst = append(dst, '-')
		dst = strconv.AppendUint(dst, p[t], 10)
	}
	return dst
}

// life names this life of the server, as cursors do.
func (rs *resources) life() string {
	prefix := *rs.inBand()[0].prefix.Load()
	return prefix[:len(prefix)-1]
}

// readPlace reads a Last-Event-ID. One of another life of the server is no
// place, since nothing of that life is left; ok is false for what is no id of
// ours at all.
func (rs *resources) readPlace(text string) (p place, ok bool) {
	parts := strings.Split(text, "-")
	order := rs.inBand()
	if len(parts) != len(order)+1 || !strings.HasPrefix(parts[0], "c") {
		return nil, false
	}
	p = make(place, len(order))
	for i, t := range order {
		n, err := strconv.ParseUint(parts[i+1], 10, 64)
		if err != nil {
			return nil, false
		}
		p[t] = min(n, t.newest())
	}
	if parts[0] != rs.life() {
		return nil, true
	}
	return p, true
}

// honoured are the URIs of a request to listen that can be had, each once.
func (rs *resources) honoured(uris []string, principal string) []string {
	out := []string{}
	for _, uri := range uris {
		if _, _, wrong := rs.eventResource(uri, principal); wrong == nil && !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return out
}
