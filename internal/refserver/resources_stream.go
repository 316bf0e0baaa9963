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
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

const headerLastEventID = "Last-Event-ID"

// updates writes resources/updated notifications to one open stream.
type updates struct {
	eventStream
	rs  *resources
	mix mixer
	// reached holds the positions of the last events. It is nil unless events
	// have ids: on the stream of a session.
	reached positions

	cancel   context.CancelFunc
	detached chan struct{} // closed when the session is free for another stream
}

// newUpdates makes the stream of a session.
func (rs *resources) newUpdates(w http.ResponseWriter, principal string) *updates {
	s := rs.server
	u := &updates{eventStream: s.newEventStream(&call{w: w, principal: principal}, ""), rs: rs, detached: make(chan struct{})}
	u.mix.queueLen, u.mix.wake = s.opts.QueueLen, func() { signal(u.wakeup) }
	u.forgotten = s.forgetSignal()
	return u
}

func (u *updates) over(revoked bool) bool {
	return revoked && u.call.id != nil // the SDK also uses the stream of a session, which has lost its subscriptions
}

func (u *updates) beat() (again time.Duration, ok bool) {
	every := u.server.opts.Heartbeat
	if rest := every - time.Since(u.written); rest > 0 {
		return rest, true
	}
	// A comment: the draft has no heartbeat, and proxies close connections that
	// stay idle.
	return every, u.write([]byte(": keep-alive\n\n"))
}

func (u *updates) deliver(context.Context) bool {
	for {
		events, t := u.mix.take(u.events[:0], streamBatch)
		if t == nil {
			return true
		}
		if !u.writeEvents(events, func(dst []byte, e *event) ([]byte, bool) { return u.appendAny(dst, e, t) }) {
			return false
		}
	}
}

// appendAny is [stream.appendAny] for a stream of SEP-1803.
func (u *updates) appendAny(dst []byte, e *event, t *topic) ([]byte, bool) {
	if e.fault == nil || e.fault.Kind != faults.Cut || e.fault.Replay {
		dst = u.appendUpdate(dst, e, t)
	}
	switch {
	case e.fault == nil:
	case e.fault.Kind == faults.Cut:
		u.cut = true
		u.server.faultInjector.countIn("sep-1803", *e.fault)
		u.write(dst)
		return dst[:0], false
	case e.fault.Kind == faults.Malformed:
		dst = append(dst[:len(dst)-len("}}\n\n")], "\n\n"...) // its braces never close
	}
	return dst, true
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
	dst = append(dst, notification+`resources/updated","params":{"uri":"`...)
	dst = appendEventURI(dst, e, &t.kind)
	dst = append(dst, `","payload":`...)
	dst = append(dst, e.data...)
	if id := u.call.id; id != nil {
		dst = append(append(dst, frameMeta...), id...)
		dst = append(dst, '}')
	}
	return append(dst, "}}\n\n"...)
}

// stream serves the GET stream of a session of the legacy era. It has two
// writers: the SDK's handler and the updates.
func (rs *resources) stream(l *typeListener, r *http.Request, principal string) {
	sdk := rs.server.base
	id := r.Header.Get(headerSession)
	if id == "" || r.Header.Get(headerVersion) >= modernVersion || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		sdk.serve(l, r, principal) // the SDK answers with the error
		return
	}
	var from positions
	if last := r.Header.Get(headerLastEventID); last != "" {
		var ok bool
		if from, ok = rs.readPositions(last); !ok {
			http.Error(l, "Last-Event-ID is none of this server's", http.StatusBadRequest)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Del(headerLastEventID) // the SDK's streams keep nothing
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	rs.server.unbuffered(l.Header())
	u := rs.newUpdates(l, principal)
	u.reached, u.cancel = make(positions), cancel
	s := rs.session(id, principal)
	if !s.attach(ctx, u, from) {
		http.Error(l, "session not found", http.StatusNotFound)
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
		case <-l.begun:
		case <-ctx.Done():
			return
		}
		// Send the id alone first, so that a client that loses the stream
		// before its first event can resume here.
		prime := rs.appendPositions([]byte("id: "), u.reached)
		if u.write(append(prime, "\ndata:\n\n"...)) {
			u.run(ctx, u)
		}
	})
	sdk.serve(l, r.WithContext(ctx), principal)
}

// listen answers subscriptions/listen of the modern era. The stream belongs to
// the request, cannot be resumed, and carries no ids.
func (rs *resources) listen(c *call) *rpcError {
	var p listenParams
	if rpcErr := c.decode(&p); rpcErr != nil {
		return rpcErr
	}
	s := rs.server
	uris := rs.available(p.Notifications.URIs, c.principal)
	if rpcErr := s.faultInjector.refuse("sep-1803", eventmeter.Push); rpcErr != nil {
		return rpcErr
	}
	for i := range uris {
		if rpcErr := s.reserve(); rpcErr != nil {
			s.subscriptions.Add(int64(-i))
			return rpcErr
		}
	}
	n := int64(len(uris))
	s.counts.streams.Add(n)
	defer func() {
		s.counts.streams.Add(-n)
		s.subscriptions.Add(-n)
	}()
	u := rs.newUpdates(c.w, c.principal)
	u.call = c
	defer u.mix.close()
	for _, uri := range uris {
		if t, sel, rpcErr := rs.eventResource(uri, c.principal); rpcErr == nil {
			u.mix.add(rs.as(eventmeter.Push, t), sel, nil)
		}
	}
	s.streamHeader(c.w.Header())
	agreed, err := json.Marshal(map[string]any{"resourceSubscriptions": uris})
	if err != nil { // cannot fail: only strings
		return nil
	}
	if u.acknowledge(string(agreed)) && n > 0 {
		u.run(c.r.Context(), u)
	}
	if !u.cut {
		u.end()
	}
	return nil
}
