package refserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// streamBatch is how many events go into one write of a stream.
const streamBatch = 64

// buffers are shared by all streams. A stream holds a buffer only while it
// writes, so that idle streams cost none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// stream is one open events/stream.
type stream struct {
	server         *Server
	call           *call
	topic          *topic
	reader         *reader
	wakeup         chan struct{}
	out            http.ResponseWriter
	flush          func() error
	ctx            context.Context // of the request
	batch          int             // most events of one write
	written        time.Time       // when the last frame was written
	events         []*event        // scratch
	transientError *transientError // the topic's last transient error that was sent
	// forgotten is closed when the Forget fault strikes.
	forgotten <-chan struct{}
}

// stream serves events/stream: a request whose answer stays open.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *call) {
	var p eventParams
	wrong := decodeParams(c.params, &p)
	var t *topic
	var sel selection
	if wrong == nil {
		t, sel, _, wrong = s.resolve(eventmeter.Push, c, p)
	}
	if wrong == nil {
		wrong = s.faultInjector.refuse("events", eventmeter.Push)
	}
	if wrong == nil {
		wrong = s.reserve()
	}
	if wrong != nil {
		c.fail(w, wrong)
		return
	}
	defer s.unreserve()
	s.counts.streams.Add(1)
	defer s.counts.streams.Add(-1)
	s.streamHeader(w.Header())
	st := &stream{server: s, call: c, topic: t, wakeup: make(chan struct{}, 1), out: w, flush: http.NewResponseController(w).Flush, transientError: t.transientError.Load(), ctx: r.Context(), batch: streamBatch}
	if s.capacity != nil {
		st.batch = 1 // so that streams take turns
	}
	var position uint64
	var truncated bool
	st.reader, position, truncated = t.open(sel, p.start(), s.opts.QueueLen, func() { signal(st.wakeup) })
	defer st.reader.close()
	st.reader.skipCut()
	st.forgotten = s.forgetSignal()
	if st.active(position, truncated) {
		st.run(r)
	}
}

// run delivers until the client disconnects, the principal loses its access or
// the server closes.
func (st *stream) run(r *http.Request) {
	s := st.server
	heartbeat := time.NewTimer(s.opts.Heartbeat)
	defer heartbeat.Stop()
	for {
		revoked, gone := s.principals.watch(st.call.principal)
		if why := st.over(gone); why != nil {
			if st.notify("terminated", errorMember(why)) {
				st.end()
			}
			return
		}
		if !st.deliver() {
			return
		}
		select {
		case <-st.wakeup:
		case <-heartbeat.C:
			rest := s.opts.Heartbeat - time.Since(st.written)
			if _, missed := s.faultInjector.serverFault(faults.Heartbeats, eventmeter.Push); missed {
				rest = s.opts.Heartbeat
			} else if rest <= 0 {
				// Read the position again: events that the filter dropped have
				// moved it.
				if !st.notify("heartbeat", st.cursorMember(nil, st.reader.currentPosition())) {
					return
				}
				rest = s.opts.Heartbeat
			}
			heartbeat.Reset(rest)
		case <-revoked: // some principal was revoked; the loop checks which
		case <-st.forgotten: // the fault closes the stream without a result
			return
		case <-s.closing:
			st.end()
			return
		case <-r.Context().Done():
			return
		}
	}
}

// deliver writes all waiting events. It returns false if the client is gone.
func (st *stream) deliver() bool {
	for {
		if t := st.topic.transientError.Load(); t != st.transientError {
			st.transientError = t
			if !st.notify("error", errorMember(&t.err)) {
				return false
			}
		}
		b := st.reader.take(st.events[:0], st.batch)
		if len(b.events) == 0 && !b.gap {
			return true
		}
		if b.gap && !st.active(b.before, true) {
			return false
		}
		if !st.server.capacity.take(st.ctx, st.server.closing, len(b.events)) {
			select {
			case <-st.server.closing:
				st.end()
			default: // the client is gone
			}
			return false
		}
		out := buffers.Get().(*[]byte)
		frames, ok := (*out)[:0], true
		for _, e := range b.events {
			if e.fault == nil {
				frames = e.appendFrame(frames, st.call.id)
			} else if frames, ok = st.appendFaulty(frames, e); !ok {
				break
			}
		}
		ok = ok && st.write(frames)
		*out = frames
		if cap(frames) <= 1<<20 { // do not keep a huge batch in the pool
			buffers.Put(out)
		}
		st.server.counts.pushed.Add(int64(len(b.events)))
		clear(b.events)
		st.events = b.events[:0]
		if !ok {
			return false
		}
		if !b.more {
			if cap(st.events) > 8 {
				st.events = nil
			}
			return true
		}
	}
}

func (st *stream) active(position uint64, truncated bool) bool {
	b := st.cursorMember(nil, position)
	b = append(b, `,"truncated":`...)
	return st.notify("active", strconv.AppendBool(b, truncated))
}

func (st *stream) cursorMember(dst []byte, position uint64) []byte {
	dst = append(dst, `"cursor":"`...)
	dst = st.topic.appendCursor(dst, position)
	return append(dst, '"')
}

func errorMember(e *rpcError) []byte {
	b, err := json.Marshal(e)
	if err != nil { // cannot fail: only strings and numbers
		return []byte(`"error":{}`)
	}
	return append([]byte(`"error":`), b...)
}

// notify writes one notification of notifications/events/.
func (st *stream) notify(name string, members []byte) bool {
	b := append(make([]byte, 0, 256), `data: {"jsonrpc":"2.0","method":"notifications/events/`...)
	b = append(b, name...)
	b = append(b, `","params":{`...)
	b = append(b, members...)
	b = append(b, `,"_meta":{"`+subscriptionIDKey+`":`...)
	b = append(b, st.call.id...)
	return st.write(append(b, frameEnd...))
}

// end writes the response that closes the stream.
func (st *stream) end() {
	b := st.call.resultOpen([]byte("data: "))
	st.write(append(b, `"_meta":{}}}`+"\n\n"...))
}

func (st *stream) write(b []byte) bool {
	st.written = time.Now()
	if _, err := st.out.Write(b); err != nil {
		return false
	}
	return st.flush() == nil
}

// over returns why a stream has to end, or nil.
func (st *stream) over(revoked bool) *rpcError {
	switch {
	case revoked:
		return forbidden(reasonRevoked)
	case st.topic.withdrawn.Load():
		return notFound("event")
	}
	return nil
}

// streamHeader sets the header of every event stream.
func (s *Server) streamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	s.unbuffered(h)
}

// unbuffered asks proxies to pass bytes on at once: a proxy that collects them
// would delay every event. nginx and some others support this header.
func (s *Server) unbuffered(h http.Header) {
	if !s.opts.ProxiesMayBuffer {
		h.Set("X-Accel-Buffering", "no")
	}
}

// typeListeners are the streams that carry notifications without a
// subscription: the GET stream of a session (legacy), and the answer to
// subscriptions/listen (modern). The SDK writes to most of them and cannot send
// methods that it does not know, so each stream is wrapped.
type typeListeners struct {
	mu   sync.Mutex
	open map[*typeListener]struct{}
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

// listenParams are the params of subscriptions/listen. The draft has no word
// for changes of event types: eventsListChanged follows its siblings.
type wanted struct {
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
func asksForTypes(params json.RawMessage) bool {
	var p wanted
	return json.Unmarshal(params, &p) == nil && p.Notifications.Types
}

// listenAlone serves a stream that carries only changes of event types.
func (s *Server) listenAlone(l *typeListener, r *http.Request, c *call) {
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
