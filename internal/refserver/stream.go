package refserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
)

// streamBatch is how many events go into one write of a stream.
const streamBatch = 64

// buffers are shared by all streams. A stream holds a buffer only while it
// writes, so that idle streams cost none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// eventStream is an answer that stays open: what the streams of all systems have in
// common. One goroutine uses it. It is a [streaming] itself, which sends nothing but a
// comment in each interval, and ends when its principal loses its access.
type eventStream struct {
	server    *Server
	call      *call
	wakeup    chan struct{}
	written   time.Time       // when the last frame was written
	forgotten <-chan struct{} // closed when the Forget fault strikes
	cut       bool            // it ends without a result, by a fault
	events    []*event        // scratch
	comment   string
}

// streaming is what a system sends on a stream.
type streaming interface {
	// deliver writes what waits. It returns false if the stream is over.
	deliver(ctx context.Context) bool
	// beat shows that the stream lives, and returns when to do so again.
	beat() (again time.Duration, ok bool)
	// over reports whether the stream has to end, which it then tells the client;
	// revoked says that the principal has lost its access.
	over(revoked bool) bool
}

func (e *eventStream) deliver(context.Context) bool { return true }

func (e *eventStream) beat() (again time.Duration, ok bool) {
	return e.server.opts.Heartbeat, e.write([]byte(e.comment))
}

func (e *eventStream) over(revoked bool) bool { return revoked }

func (s *Server) newEventStream(c *call, comment string) eventStream {
	return eventStream{server: s, call: c, wakeup: make(chan struct{}, 1), written: time.Now(), comment: comment}
}

// run serves the stream until the client disconnects, the stream is over, or the server
// closes, which it reports. of is what embeds e, or e.
func (e *eventStream) run(ctx context.Context, of streaming) (closing bool) {
	silence := time.NewTimer(e.server.opts.Heartbeat)
	defer silence.Stop()
	for {
		changed, revoked := e.server.principals.watch(e.call.principal)
		if of.over(revoked) || !of.deliver(ctx) {
			return false
		}
		if cap(e.events) > 8 { // an idle stream keeps little
			e.events = nil
		}
		select {
		case <-e.wakeup:
		case <-silence.C:
			again, ok := of.beat()
			if !ok {
				return false
			}
			silence.Reset(again)
		case <-changed: // some principal was revoked; the loop checks which
		case <-e.forgotten:
			e.cut = true
			return false
		case <-e.server.closing:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// write writes frames at once. It returns false if the client is gone.
func (e *eventStream) write(frames ...[]byte) bool {
	e.written = time.Now()
	for _, b := range frames {
		if e.call.breach != nil {
			b = e.call.breach.Frames(b)
		}
		if _, err := e.call.w.Write(b); err != nil {
			return false
		}
	}
	return http.NewResponseController(e.call.w).Flush() == nil
}

// writeEvents writes events in one piece. frame appends that of an event, and returns false
// if the stream is over.
func (e *eventStream) writeEvents(events []*event, frame func(dst []byte, e *event) ([]byte, bool)) bool {
	out := buffers.Get().(*[]byte)
	frames, ok := (*out)[:0], true
	for _, event := range events {
		if frames, ok = frame(frames, event); !ok {
			break
		}
	}
	ok = ok && e.write(frames)
	*out = frames
	if cap(frames) <= 1<<20 { // do not keep a huge batch in the pool
		buffers.Put(out)
	}
	e.server.counts.pushed.Add(int64(len(events)))
	clear(events)
	e.events = events[:0]
	return ok
}

// acknowledge says what a stream of subscriptions/listen will carry.
func (e *eventStream) acknowledge(agreed string) bool {
	b := []byte(notification + `subscriptions/acknowledged","params":{"notifications":` + agreed + frameMeta)
	return e.write(append(append(b, e.call.id...), frameEnd...))
}

// end writes the response that closes the stream.
func (e *eventStream) end() {
	c := e.call
	if c.breach.Breaks("stream-final-result-timing") {
		return
	}
	b := append(c.resultOpen([]byte("data: ")), `"_meta":{`...)
	if c.rules == nil || c.rules.complete {
		b = append(append(b, `"`+subscriptionIDKey+`":`...), c.id...)
	}
	e.write(append(b, frameEnd...))
}

// stream is one open events/stream.
type stream struct {
	eventStream
	topic          *topic
	reader         *reader
	batch          int             // most events of one write
	transientError *transientError // the topic's last transient error that was sent
	schema         uint32          // the topic's, when the stream was opened
}

// stream serves events/stream: a request whose answer stays open.
func (s *Server) stream(c *call) *rpcError {
	var p eventParams
	rpcErr := c.decode(&p)
	var t *topic
	var sel selection
	if rpcErr == nil {
		t, sel, _, rpcErr = s.resolve(eventmeter.Push, c, p)
	}
	if rpcErr == nil {
		rpcErr = s.faultInjector.refuse("events", eventmeter.Push)
	}
	if rpcErr == nil && s.breaksStream(c) {
		return nil
	}
	if rpcErr == nil {
		rpcErr = s.reserve()
	}
	if rpcErr != nil {
		return rpcErr
	}
	defer s.leave()
	s.counts.streams.Add(1)
	defer s.counts.streams.Add(-1)
	r, stop := s.whileValid(c.r)
	defer stop()
	st := &stream{
		eventStream:    s.newEventStream(c, ""),
		topic:          t,
		transientError: t.transientError.Load(),
		schema:         t.schema.Load(),
		batch:          streamBatch,
	}
	if s.capacity != nil {
		st.batch = 1 // so that streams take turns
	}
	var position uint64
	var truncated bool
	st.reader, position, truncated = t.open(sel, s.startOf(eventmeter.Push, c, t, p), s.opts.QueueLen, func() { signal(st.wakeup) })
	defer st.reader.close()
	if truncated && c.rules.spellsOlder() {
		return expiredCursor()
	}
	s.streamHeader(c.w.Header())
	st.reader.skipCut()
	st.forgotten = s.forgetSignal()
	open := s.breach.Breaks("stream-active-confirmation") && st.write(nil) || st.active(position, truncated)
	if open && st.run(r.Context(), st) {
		st.end()
	}
	return nil
}

func (st *stream) over(revoked bool) bool {
	s := st.server
	var why *rpcError
	switch {
	case revoked && !s.breach.Breaks("authz-delivery-time-reverify", eventmeter.Push):
		why = forbidden(reasonRevoked)
	case st.topic.withdrawn.Load() && !s.breach.Breaks("removal-terminates-subscriptions", eventmeter.Push):
		why = noSuchEvent()
	case st.topic.schema.Load() != st.schema:
		why = schemaChanged()
	default:
		return false
	}
	if s.breach.Breaks("stream-terminated-ends-subscription") ||
		st.notify("terminated", errorMember(st.call.rules.spell(why))) {
		st.end()
	}
	return true
}

func (st *stream) deliver(ctx context.Context) bool {
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
		if b.gap && !st.announceGap(b.before) {
			return false
		}
		if !st.server.capacity.take(ctx, st.server.closing, len(b.events)) {
			select {
			case <-st.server.closing:
				st.end()
			default: // the client is gone
			}
			return false
		}
		if !st.writeEvents(b.events, st.appendAny) {
			return false
		}
		if !b.more {
			return true
		}
	}
}

// announceGap says that events before a position are not on the stream. It returns
// false if the stream is over.
func (st *stream) announceGap(position uint64) bool {
	if st.call.rules.spellsOlder() {
		st.notify("error", errorMember(st.call.rules.spell(expiredCursor())))
		return false
	}
	return st.active(position, true)
}

func (st *stream) active(position uint64, truncated bool) bool {
	b := st.cursorMember(position)
	if st.call.rules.spellsOlder() {
		return st.notify("active", b)
	}
	return st.notify("active", fmt.Appendf(b, `,"truncated":%t`, truncated))
}

func (st *stream) cursorMember(position uint64) []byte {
	return st.topic.appendCursorValue([]byte(`"cursor":`), position)
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
	return st.write(st.appendNotification(make([]byte, 0, 256), name, members))
}

func (st *stream) appendNotification(b []byte, name string, members []byte) []byte {
	b = append(append(b, notification+"events/"...), name...)
	b = append(b, `","params":{`...)
	b = append(b, members...)
	if st.call.rules.spellsOlder() {
		if len(members) > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `"requestId":`...), st.call.id...)
		return append(b, olderFrameEnd...)
	}
	b = append(b, frameMeta...)
	b = append(b, st.call.id...)
	return append(b, frameEnd...)
}

// appendEvent appends the frame of an event.
func (st *stream) appendEvent(dst []byte, e *event) []byte {
	if !st.call.rules.spellsOlder() {
		return e.appendFrame(dst, st.call.id)
	}
	dst = append(dst, e.frame[:len(e.frame)-len(frameMeta)]...)
	dst = append(append(dst, `,"requestId":`...), st.call.id...)
	return append(dst, olderFrameEnd...)
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
