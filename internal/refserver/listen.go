package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
	l = &typeListener{ResponseWriter: w, id: id, atBoundary: true}
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
	all := make([]*typeListener, 0, len(ls.open))
	for l := range ls.open {
		all = append(all, l)
	}
	ls.mu.Unlock()
	for _, l := range all {
		l.announce(method)
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

	mu         sync.Mutex
	started    bool     // it is an event stream, and its header is out
	atBoundary bool     // the last write ended a message
	waiting    [][]byte // messages that could not be sent yet
	closed     bool
}

func (l *typeListener) announce(method string) {
	b := append([]byte("data: "), `{"jsonrpc":"2.0","method":"`...)
	b = append(append(b, method...), '"')
	if l.id != nil {
		b = append(b, `,"params":{"_meta":{"`+subscriptionIDKey+`":`...)
		b = append(append(b, l.id...), "}}"...)
	}
	l.send(append(b, "}\n\n"...))
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
	if status == http.StatusOK && strings.HasPrefix(l.Header().Get("Content-Type"), "text/event-stream") {
		l.started = true
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
func (s *Server) listenAlone(l *typeListener, r *http.Request, c *call) {
	s.streamHeader(l.Header())
	meta := `"_meta":{"` + subscriptionIDKey + `":` + string(c.id) + `}`
	l.WriteHeader(http.StatusOK)
	agreed := `{"eventsListChanged":true}`
	if !s.rules.optIn { // nothing to agree to: every such stream carries them
		agreed = `{}`
	}
	l.send(
		[]byte(
			`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + agreed + `,` + meta + "}}\n\n",
		),
	)
	alive := time.NewTicker(s.opts.Heartbeat)
	defer alive.Stop()
	for {
		changed, revoked := s.principals.watch(c.principal)
		if revoked {
			return
		}
		select {
		case <-alive.C:
			l.send([]byte(": still here\n\n"))
		case <-changed:
		case <-s.closing:
			l.send(append(c.resultOpen([]byte("data: ")), meta+"}}\n\n"...))
			return
		case <-r.Context().Done():
			return
		}
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

// listenLists serves subscriptions/listen.
func (s *Server) listenLists(w http.ResponseWriter, r *http.Request, c *call, want kinds, items map[string]bool) {
	if !c.modern {
		c.fail(w, &rpcError{Code: codeMethodNotFound, Message: "Method not found: " + c.method})
		return
	}
	if rpcErr := s.reserve(); rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	defer s.unreserve()
	if len(items) > 0 {
		if rpcErr := s.faultInjector.refuse(faults.Updates, eventmeter.Push); rpcErr != nil {
			c.fail(w, rpcErr)
			return
		}
	}
	l := &listListener{want: want, items: items}
	defer s.lists.listeners.join(l)()
	forgotten := s.forgetSignal()
	s.streamHeader(w.Header())
	flush := http.NewResponseController(w).Flush
	send := func(b []byte) bool {
		_, err := w.Write(b)
		return err == nil && flush() == nil
	}
	meta := `"_meta":{"` + subscriptionIDKey + `":` + string(c.id) + `}`
	open := send(
		[]byte(
			`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{` + string(
				l.agreed(),
			) + `},` + meta + "}}\n\n",
		),
	)
	alive := time.NewTicker(s.opts.Heartbeat)
	defer alive.Stop()
	for open {
		changed, revoked := s.principals.watch(c.principal)
		if revoked {
			return
		}
		select {
		case <-l.wakeup:
			open = send(appendAll(nil, s.lists.listeners.take(l), c.id))
		case <-alive.C:
			open = send([]byte(":\n\n"))
		case <-changed:
		case <-forgotten:
			return
		case <-s.closing:
			send(append(c.resultOpen([]byte("data: ")), meta+"}}\n\n"...))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// notifySession writes changes to the stream of a legacy session until leave is
// called, and calls end if the server forgets the session. leave waits for a write in
// progress.
func (s *Server) notifySession(w http.ResponseWriter, session string, end context.CancelFunc) (leave func()) {
	ls := s.lists
	l, wrapped := w.(*typeListener)
	if ls == nil || session == "" || !wrapped {
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
				l.send(appendAll(nil, ls.listeners.take(me), nil))
			case <-forgotten:
				forgotten = nil
				if _, known := s.base.sessions.owner(session); !known {
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
