package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

const headerLastEventID = "Last-Event-ID"

// updates writes resources/updated notifications to one open stream.
type updates struct {
	rs        *resources
	principal string
	mix       mixer
	wakeup    chan struct{}
	out       http.ResponseWriter
	// reached holds the positions of the last events. It is nil unless events
	// have ids: on the stream of a session.
	reached positions
	// id is the id of the request to listen, nil on the stream of a session.
	id      json.RawMessage
	written time.Time
	events  []*event // scratch
	cut     bool     // by a fault

	cancel   context.CancelFunc
	detached chan struct{} // closed when the session is free for another stream
}

func (rs *resources) newUpdates(out http.ResponseWriter, principal string) *updates {
	u := &updates{
		rs:        rs,
		principal: principal,
		out:       out,
		wakeup:    make(chan struct{}, 1),
		detached:  make(chan struct{}),
		written:   time.Now(),
	}
	u.mix.queueLen = rs.server.opts.QueueLen
	u.mix.wake = func() { signal(u.wakeup) }
	return u
}

// run delivers until ctx ends, the server closes or the client is gone. A
// listen stream also ends when its principal loses access.
func (u *updates) run(ctx context.Context) {
	s := u.rs.server
	forgotten := s.forgetSignal()
	every := s.opts.Heartbeat
	silence := time.NewTimer(every)
	defer silence.Stop()
	for {
		changed, revoked := s.principals.watch(u.principal)
		if revoked && u.id != nil {
			return // the SDK also uses the stream of a session, which has lost its subscriptions
		}
		if !u.deliver() {
			return
		}
		select {
		case <-u.wakeup:
		case <-silence.C:
			rest := every - time.Since(u.written)
			if rest <= 0 {
				// A comment: the draft has no heartbeat, and proxies close
				// connections that stay idle.
				if !u.write([]byte(": keep-alive\n\n")) {
					return
				}
				rest = every
			}
			silence.Reset(rest)
		case <-changed: // some principal was revoked; the loop checks which
		case <-s.closing:
			return
		case <-forgotten:
			u.cut = true
			return
		case <-ctx.Done():
			return
		}
	}
}

// deliver writes all waiting events. It returns false if the client is gone.
func (u *updates) deliver() bool {
	for {
		events, t := u.mix.take(u.events[:0], streamBatch)
		if t == nil {
			return true
		}
		out := buffers.Get().(*[]byte)
		frames := (*out)[:0]
		cut := false
		for _, e := range events {
			if e.fault == nil {
				frames = u.appendUpdate(frames, e, t)
			} else if frames, cut = u.appendFaulty(frames, e, t); cut {
				u.rs.server.faultInjector.countIn("sep-1803", *e.fault)
				break
			}
		}
		ok := u.write(frames) && !cut
		*out = frames
		if cap(frames) <= 1<<20 {
			buffers.Put(out)
		}
		u.rs.server.counts.pushed.Add(int64(len(events)))
		clear(events)
		if u.events = events[:0]; cap(events) > 8 {
			u.events = nil
		}
		if !ok {
			return false
		}
	}
}

// appendUpdate appends the frame of one event. The payload is the event's data,
// as the eventSchema of its resource describes it.
func (u *updates) appendUpdate(dst []byte, e *event, t *topic) []byte {
	if u.reached != nil {
		u.reached[t] = e.n
		dst = append(dst, "id: "...)
		dst = u.rs.appendPositions(dst, u.reached)
		dst = append(dst, '\n')
	}
	dst = append(dst, `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`...)
	dst = appendEventURI(dst, e, &t.kind)
	dst = append(dst, `","payload":`...)
	dst = append(dst, e.data...)
	if u.id != nil {
		dst = append(dst, `,"_meta":{"`+subscriptionIDKey+`":`...)
		dst = append(dst, u.id...)
		dst = append(dst, '}')
	}
	return append(dst, "}}\n\n"...)
}

func (u *updates) write(b []byte) bool {
	u.written = time.Now()
	if _, err := u.out.Write(b); err != nil {
		return false
	}
	return http.NewResponseController(u.out).Flush() == nil
}

// stream serves the GET stream of a session of the legacy era. It has two
// writers: the SDK's handler and the updates.
func (rs *resources) stream(w http.ResponseWriter, r *http.Request, principal string, sdk func(http.ResponseWriter, *http.Request)) {
	id := r.Header.Get(headerSession)
	if id == "" || r.Header.Get(headerVersion) >= modernVersion || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		sdk(w, r) // the SDK answers with the error
		return
	}
	var from positions
	if last := r.Header.Get(headerLastEventID); last != "" {
		var ok bool
		if from, ok = rs.readPositions(last); !ok {
			http.Error(w, "Last-Event-ID is none of this server's", http.StatusBadRequest)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del(headerLastEventID) // the SDK's streams keep nothing
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	rs.server.unbuffered(w.Header())
	out := &shared{ResponseWriter: w, begun: make(chan struct{})}
	u := rs.newUpdates(out, principal)
	u.reached, u.cancel = make(positions), cancel
	s := rs.session(id, principal)
	if !s.attach(ctx, u, from) {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	defer s.detach(u)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() {
		defer crash.Guard()
		defer cancel()
		select {
		case <-out.begun:
		case <-ctx.Done():
			return
		}
		// Send the id alone first, so that a client that loses the stream
		// before its first event can resume here.
		prime := rs.appendPositions([]byte("id: "), u.reached)
		if u.write(append(prime, "\ndata:\n\n"...)) {
			u.run(ctx)
		}
	})
	sdk(out, r.WithContext(ctx))
}

// shared is an event stream with two writers, each of which writes whole
// events.
type shared struct {
	http.ResponseWriter
	begun chan struct{} // closed when the stream's header is out

	mu     sync.Mutex
	status int
	open   bool
}

// WriteHeader implements [http.ResponseWriter].
func (s *shared) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ResponseWriter.Write(b)
}

// FlushError lets [http.ResponseController] flush.
func (s *shared) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := http.NewResponseController(s.ResponseWriter).Flush()
	if s.status == http.StatusOK && !s.open {
		s.open = true
		close(s.begun)
	}
	return err
}

// Flush implements [http.Flusher].
func (s *shared) Flush() { _ = s.FlushError() } // http.Flusher returns no error

// listen answers subscriptions/listen of the modern era. The stream belongs to
// the request, cannot be resumed, and carries no ids.
func (rs *resources) listen(w http.ResponseWriter, r *http.Request, c *call) {
	var p resourceListenParams
	if rpcErr := decodeParams(c.params, &p); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	s := rs.server
	uris := rs.available(p.Notifications.ResourceSubscriptions, c.principal)
	if rpcErr := s.faultInjector.refuse("sep-1803", eventmeter.Push); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	for i := range uris {
		if rpcErr := s.reserve(); rpcErr != nil {
			s.subscriptions.Add(int64(-i))
			c.fail(w, rpcErr)
			return
		}
	}
	n := int64(len(uris))
	s.counts.streams.Add(n)
	defer func() {
		s.counts.streams.Add(-n)
		s.subscriptions.Add(-n)
	}()
	u := rs.newUpdates(w, c.principal)
	u.id = c.id
	defer u.mix.close()
	for _, uri := range uris {
		if t, sel, rpcErr := rs.eventResource(uri, c.principal); rpcErr == nil {
			u.mix.add(rs.as(eventmeter.Push, t), sel, nil)
		}
	}
	s.streamHeader(w.Header())
	agreed, err := json.Marshal(map[string]any{"resourceSubscriptions": uris})
	if err != nil { // cannot fail: only strings
		return
	}
	ack := append(
		[]byte(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":`),
		agreed...)
	if u.write(append(append(append(ack, `,"_meta":{"`+subscriptionIDKey+`":`...), c.id...), frameEnd...)) && n > 0 {
		u.run(r.Context())
	}
	if u.cut {
		return // a fault: no answer
	}
	end := append(c.resultOpen([]byte("data: ")), `"_meta":{"`+subscriptionIDKey+`":`...)
	u.write(append(append(end, c.id...), "}}}\n\n"...))
}
