package refserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	methodListChanged = "notifications/events/list_changed"
	methodListen      = "subscriptions/listen"
)

// audience is the streams on which notifications go that belong to no
// subscription: the GET stream of a session (legacy), and the answer to
// subscriptions/listen (modern). The SDK writes to most of them, and has no
// way to send what it does not know, so each is wrapped.
type audience struct {
	mu   sync.Mutex
	open map[*hearer]struct{}
}

// hearer is a stream with two writers: whoever serves the request, and
// announce. It implements [http.ResponseWriter].
type hearer struct {
	http.ResponseWriter
	id json.RawMessage // of the request to listen; nil for a GET stream
	// grants is true while the SDK's acknowledgement, which cannot say that
	// changes of event types are told, is still to come.
	grants bool

	mu      sync.Mutex
	started bool     // it is an event stream, and its header is out
	whole   bool     // what was written ends with a whole message
	waiting [][]byte // messages that could not go out yet
	gone    bool
}

// join wraps a response until leave is called, which must be before its handler
// returns.
func (ls *audience) join(w http.ResponseWriter, id json.RawMessage) (l *hearer, leave func()) {
	l = &hearer{ResponseWriter: w, id: id, whole: true}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.open == nil {
		ls.open = make(map[*hearer]struct{})
	}
	ls.open[l] = struct{}{}
	return l, func() {
		ls.mu.Lock()
		delete(ls.open, l)
		ls.mu.Unlock()
		l.mu.Lock()
		l.gone = true
		l.mu.Unlock()
	}
}

// announce sends a notification without params on every stream.
func (ls *audience) announce(method string) {
	ls.mu.Lock()
	all := make([]*hearer, 0, len(ls.open))
	for l := range ls.open {
		all = append(all, l)
	}
	ls.mu.Unlock()
	for _, l := range all {
		l.announce(method)
	}
}

func (l *hearer) announce(method string) {
	b := append([]byte("data: "), `{"jsonrpc":"2.0","method":"`...)
	b = append(append(b, method...), '"')
	if l.id != nil {
		b = append(b, `,"params":{"_meta":{"`+subscriptionIDKey+`":`...)
		b = append(append(b, l.id...), "}}"...)
	}
	l.send(append(b, "}\n\n"...))
}

// send writes a message between those of the other writer.
func (l *hearer) send(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, message)
	l.flushWaiting()
}

// flushWaiting writes what waits, if it is the moment; the caller holds the lock.
func (l *hearer) flushWaiting() {
	if l.gone || !l.started || !l.whole || l.grants || len(l.waiting) == 0 {
		return
	}
	for _, b := range l.waiting {
		if _, err := l.ResponseWriter.Write(b); err != nil {
			break // the client is gone, which the handler learns by itself
		}
	}
	l.waiting = nil
	_ = http.NewResponseController(l.ResponseWriter).Flush() // likewise
}

// begin notes that the header goes out; the caller holds the lock.
func (l *hearer) begin(status int) {
	if status == http.StatusOK && strings.HasPrefix(l.Header().Get("Content-Type"), "text/event-stream") {
		l.started = true
	}
}

// WriteHeader implements [http.ResponseWriter].
func (l *hearer) WriteHeader(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ResponseWriter.WriteHeader(status)
	l.begin(status)
}

// Write implements [http.ResponseWriter].
func (l *hearer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(http.StatusOK)
	out := b
	if l.grants {
		out = l.grant(b)
	}
	if _, err := l.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	l.whole = bytes.HasSuffix(b, []byte("\n\n"))
	l.flushWaiting()
	return len(b), nil
}

// grant completes the SDK's acknowledgement.
func (l *hearer) grant(b []byte) []byte {
	const open, more = `"notifications":{`, `"eventsListChanged":true`
	at := bytes.Index(b, []byte(open))
	if at < 0 {
		return b
	}
	l.grants = false
	at += len(open)
	out := append(append([]byte(nil), b[:at]...), more...)
	if b[at] != '}' {
		out = append(out, ',')
	}
	return append(out, b[at:]...)
}

// Flush implements [http.Flusher].
func (l *hearer) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(http.StatusOK)
	_ = http.NewResponseController(l.ResponseWriter).Flush() // a client that is gone is the handler's to find
	l.flushWaiting()
}

// Unwrap lets [http.ResponseController] reach what is beneath.
func (l *hearer) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// wanted is the part of the params of subscriptions/listen that decides who
// serves it.
type wanted struct {
	Notifications struct {
		Types     bool     `json:"eventsListChanged"`
		Tools     bool     `json:"toolsListChanged"`
		Prompts   bool     `json:"promptsListChanged"`
		Resources bool     `json:"resourcesListChanged"`
		URIs      []string `json:"resourceSubscriptions"`
	} `json:"notifications"`
}

// asksForTypes tells whether changes of the event types are to be told, which
// the draft has no word for: eventsListChanged follows its siblings.
func asksForTypes(params json.RawMessage) bool {
	var p wanted
	return json.Unmarshal(params, &p) == nil && p.Notifications.Types
}

// listen serves subscriptions/listen for a client that wants to hear of event
// types: by itself, or, if the client wants more, with the SDK.
func (f *face) listen(w http.ResponseWriter, r *http.Request, e envelope, principal string) {
	modern, status, wrong := f.era(r.Header, e)
	if wrong != nil {
		writeRPCError(w, status, e.ID, wrong)
		return
	}
	var p wanted
	if !modern || !validID(e.ID) || json.Unmarshal(e.Params, &p) != nil {
		f.base.serve(w, r, principal)
		return
	}
	l, leave := f.server.audience.join(w, e.ID)
	defer leave()
	if n := p.Notifications; n.Tools || n.Prompts || n.Resources || len(n.URIs) > 0 {
		l.grants = true
		f.base.serve(l, r, principal)
		return
	}
	f.server.listenAlone(l, r, &call{method: e.Method, id: e.ID, modern: true, principal: principal})
}

// listenAlone serves a stream that carries nothing but changes of event types.
func (s *Server) listenAlone(l *hearer, r *http.Request, c *call) {
	s.streamHeader(l.Header())
	meta := `"_meta":{"` + subscriptionIDKey + `":` + string(c.id) + `}`
	l.WriteHeader(http.StatusOK)
	l.send([]byte(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"eventsListChanged":true},` + meta + "}}\n\n"))
	alive := time.NewTicker(s.opts.Heartbeat)
	defer alive.Stop()
	for {
		revoked, gone := s.principals.watch(c.principal)
		if gone {
			return
		}
		select {
		case <-alive.C:
			l.send([]byte(": still here\n\n"))
		case <-revoked:
		case <-s.closing:
			l.send(append(c.resultOpen([]byte("data: ")), meta+"}}\n\n"...))
			return
		case <-r.Context().Done():
			return
		}
	}
}
