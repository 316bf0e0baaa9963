package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

const (
	methodListChanged = "notifications/events/list_changed"
	methodListen      = "subscriptions/listen"
)

// typeListeners are the streams that carry notifications without a
// subscription: the GET stream of a session (legacy), and the answer to
// subscriptions/listen (modern). The SDK writes to most of them and cannot send
// methods that it does not know, so each stream is wrapped.
type typeListeners struct {
	mu   sync.Mutex
	open map[*typeListener]struct{}
}

// join wraps a response until leave is called, which must happen before its
// handler returns.
func (ls *typeListeners) join(w http.ResponseWriter, id json.RawMessage) (l *typeListener, leave func()) {
	l = &typeListener{ResponseWriter: w, id: id, atBoundary: true, begun: make(chan struct{})}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.open == nil {
		ls.open = make(map[*typeListener]struct{})
	}
	ls.open[l] = struct{}{}
	return l, func() {
		ls.mu.Lock()
		delete(ls.open, l)
		ls.mu.Unlock()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
	}
}

// announce sends a notification without params on every stream.
func (ls *typeListeners) announce(method string) {
	ls.mu.Lock()
	all := slices.Collect(maps.Keys(ls.open))
	ls.mu.Unlock()
	for _, l := range all {
		l.send(appendChange(nil, method, "", l.id))
	}
}

// typeListener is a stream with two writers: the handler of the request, and
// announce. It implements [http.ResponseWriter].
type typeListener struct {
	http.ResponseWriter
	id json.RawMessage // of the request to listen; nil for a GET stream
	// ackPending is true until the SDK has written its acknowledgement, which
	// does not mention changes of event types.
	ackPending bool
	begun      chan struct{} // closed when it is an event stream, and its header is out

	mu         sync.Mutex
	started    bool     // begun is closed
	atBoundary bool     // the last write ended a message
	waiting    [][]byte // messages that could not be sent yet
	closed     bool
}

// send writes a message between those of the other writer.
func (l *typeListener) send(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, message)
	l.flushWaiting()
}

// flushWaiting writes the waiting messages if the stream is at a message
// boundary. The caller holds the lock.
func (l *typeListener) flushWaiting() {
	if l.closed || !l.started || !l.atBoundary || l.ackPending || len(l.waiting) == 0 {
		return
	}
	for _, b := range l.waiting {
		if _, err := l.ResponseWriter.Write(b); err != nil {
			break // the client is gone; the handler will notice
		}
	}
	l.waiting = nil
	_ = http.NewResponseController(l.ResponseWriter).Flush() // the handler notices a client that is gone
}

// begin records that the header goes out. The caller holds the lock.
func (l *typeListener) begin(status int) {
	if !l.started && status == http.StatusOK && strings.HasPrefix(l.Header().Get("Content-Type"), "text/event-stream") {
		l.started = true
		close(l.begun)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (l *typeListener) WriteHeader(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ResponseWriter.WriteHeader(status)
	l.begin(status)
}

// Write implements [http.ResponseWriter].
func (l *typeListener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(http.StatusOK)
	out := b
	if l.ackPending {
		out = l.completeAck(b)
	}
	if _, err := l.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	l.atBoundary = bytes.HasSuffix(b, []byte("\n\n"))
	l.flushWaiting()
	return len(b), nil
}

// completeAck adds eventsListChanged to the SDK's acknowledgement.
func (l *typeListener) completeAck(b []byte) []byte {
	const open, more = `"notifications":{`, `"eventsListChanged":true`
	at := bytes.Index(b, []byte(open))
	if at < 0 {
		return b
	}
	l.ackPending = false
	at += len(open)
	out := append(append([]byte(nil), b[:at]...), more...)
	if b[at] != '}' {
		out = append(out, ',')
	}
	return append(out, b[at:]...)
}

// Flush implements [http.Flusher].
func (l *typeListener) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(http.StatusOK)
	_ = http.NewResponseController(l.ResponseWriter).Flush() // the handler notices a client that is gone
	l.flushWaiting()
}

// Unwrap lets [http.ResponseController] reach the wrapped writer.
func (l *typeListener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// listenParams are the params of subscriptions/listen.
type listenParams struct {
	Notifications struct {
		Types     bool     `json:"eventsListChanged"`
		Tools     bool     `json:"toolsListChanged"`
		Prompts   bool     `json:"promptsListChanged"`
		Resources bool     `json:"resourcesListChanged"`
		URIs      []string `json:"resourceSubscriptions"`
	} `json:"notifications"`
}

// wantsTypes reports whether a client wants notifications of changed event
// types.
func wantsTypes(params json.RawMessage) bool {
	var p listenParams
	return json.Unmarshal(params, &p) == nil && p.Notifications.Types
}

// listenAlone serves a stream that carries only changes of event types.
func (s *Server) listenAlone(c *call) {
	e := s.newEventStream(c, ": still here\n\n")
	s.streamHeader(c.w.Header())
	agreed := `{"eventsListChanged":true}`
	if !s.rules.optIn { // nothing to agree to: every such stream carries them
		agreed = `{}`
	}
	if e.acknowledge(agreed) && e.run(c.r.Context(), &e) {
		e.end()
	}
}

// lists are the lists of this server that the client listens for.
func (p listenParams) lists() (k kinds) {
	n := p.Notifications
	for _, w := range []struct {
		on   bool
		list listKind
	}{{n.Tools, listTools}, {n.Prompts, listPrompts}, {n.Resources, listResources}, {slices.Contains(n.URIs, contentURI), listContent}} {
		if w.on {
			k |= 1 << w.list
		}
	}
	return k
}

// listStream carries changes of lists.
type listStream struct {
	eventStream
	*listListener
}

func (st *listStream) deliver(context.Context) bool {
	changes := st.server.lists.listeners.take(st.listListener)
	return changes == nil || st.write(framesOf(changes, st.call.id))
}

// listenLists serves subscriptions/listen.
func (s *Server) listenLists(c *call, want kinds, items map[string]bool) *rpcError {
	if !c.modern {
		return methodNotFound(c.method)
	}
	if rpcErr := s.reserve(); rpcErr != nil {
		return rpcErr
	}
	defer s.unreserve()
	if len(items) > 0 {
		if rpcErr := s.faultInjector.refuse(faults.Updates, eventmeter.Push); rpcErr != nil {
			return rpcErr
		}
	}
	l := &listListener{want: want, items: items}
	defer s.lists.listeners.join(l)()
	st := &listStream{s.newEventStream(c, ":\n\n"), l}
	st.eventStream.wakeup, st.forgotten = l.wakeup, s.forgetSignal()
	s.streamHeader(c.w.Header())
	if st.acknowledge("{"+string(l.agreed())+"}") && st.run(c.r.Context(), st) {
		st.end()
	}
	return nil
}

// notifySession writes changes to the stream of a legacy session until leave is
// called, and calls end if the server forgets the session. leave waits for a write in
// progress.
func (s *Server) notifySession(l *typeListener, session string, end context.CancelFunc) (leave func()) {
	ls := s.lists
	if ls == nil || session == "" {
		return func() {}
	}
	me := &listListener{session: session, want: 1<<numLists - 1}
	gone := ls.listeners.join(me)
	forgotten := s.forgetSignal()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(done)
		for {
			select {
			case <-me.wakeup:
				l.send(framesOf(ls.listeners.take(me), nil))
			case <-forgotten:
				forgotten = nil
				if _, known := s.base.sessions.find(session); !known {
					end()
				}
			case <-stop:
				return
			}
		}
	}()
	return func() {
		gone()
		close(stop)
		<-done
	}
}

// dropSession drops the subscriptions of a session that ends.
func (ls *lists) dropSession(session string) {
	if ls != nil {
		ls.listeners.drop(session)
	}
}
