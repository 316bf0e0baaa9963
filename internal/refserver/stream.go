package refserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver/breach"
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
	schema         uint32          // the topic's, when the stream was opened
	// forgotten is closed when the Forget fault strikes.
	forgotten <-chan struct{}
}

// stream serves events/stream: a request whose answer stays open.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c *call) {
	var p eventParams
	rpcErr := decodeParams(c.params, &p)
	var t *topic
	var sel selection
	if rpcErr == nil {
		t, sel, _, rpcErr = s.resolve(eventmeter.Push, c, p)
	}
	if rpcErr == nil {
		rpcErr = s.faultInjector.refuse("events", eventmeter.Push)
	}
	if rpcErr == nil && s.breaksStream(w, c) {
		return
	}
	if rpcErr == nil {
		rpcErr = s.reserve()
	}
	if rpcErr != nil {
		c.fail(w, rpcErr)
		return
	}
	defer s.leave()
	s.counts.streams.Add(1)
	defer s.counts.streams.Add(-1)
	r, stop := s.whileValid(r)
	defer stop()
	st := &stream{
		server:         s,
		call:           c,
		topic:          t,
		wakeup:         make(chan struct{}, 1),
		out:            w,
		flush:          http.NewResponseController(w).Flush,
		transientError: t.transientError.Load(),
		schema:         t.schema.Load(),
		ctx:            r.Context(),
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
		c.fail(w, expiredCursor())
		return
	}
	s.streamHeader(w.Header())
	st.reader.skipCut()
	st.forgotten = s.forgetSignal()
	if s.breach.Breaks(breach.StreamActiveConfirmation, eventmeter.Push) && st.write(nil) || st.active(position, truncated) {
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
		changed, revoked := s.principals.watch(st.call.principal)
		if why := st.over(revoked); why != nil {
			if s.breach.Breaks(breach.StreamTerminatedEndsSubscription, eventmeter.Push) ||
				st.notify("terminated", errorMember(st.call.rules.spell(why))) {
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
			again, ok := st.beat()
			if !ok {
				return
			}
			heartbeat.Reset(again)
		case <-changed: // some principal was revoked; the loop checks which
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
		if b.gap && !st.announceGap(b.before) {
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
				frames = st.appendEvent(frames, e)
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
	b := st.cursorMember(nil, position)
	if st.call.rules.spellsOlder() {
		return st.notify("active", b)
	}
	b = append(b, `,"truncated":`...)
	return st.notify("active", strconv.AppendBool(b, truncated))
}

func (st *stream) heartbeat() bool {
	if st.call.rules.spellsOlder() {
		return st.notify("heartbeat", nil)
	}
	if st.server.breach.Breaks(breach.StreamHeartbeatNotSSEComment, eventmeter.Push) {
		return st.write([]byte(": still here\n\n"))
	}
	return st.notify("heartbeat", st.cursorMember(nil, st.reader.currentPosition()))
}

func (st *stream) cursorMember(dst []byte, position uint64) []byte {
	return st.topic.appendCursorValue(append(dst, `"cursor":`...), position)
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
	b = append(b, `data: {"jsonrpc":"2.0","method":"notifications/events/`...)
	b = append(b, name...)
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

// end writes the response that closes the stream.
func (st *stream) end() {
	if st.server.breach.Breaks(breach.StreamFinalResultTiming, eventmeter.Push) {
		return
	}
	b := append(st.call.resultOpen([]byte("data: ")), `"_meta":{`...)
	if st.call.rules.complete {
		b = append(append(b, `"`+subscriptionIDKey+`":`...), st.call.id...)
	}
	st.write(append(b, frameEnd...))
}

func (st *stream) write(b []byte) bool {
	st.written = time.Now()
	if st.server.breach != nil {
		b = st.server.breach.Frames(b)
	}
	if _, err := st.out.Write(b); err != nil {
		return false
	}
	return st.flush() == nil
}

// over returns why a stream has to end, or nil.
func (st *stream) over(revoked bool) *rpcError {
	switch {
	case revoked && !st.server.breach.Breaks(breach.AuthzDeliveryTimeReverify, eventmeter.Push):
		return forbidden(reasonRevoked)
	case st.topic.withdrawn.Load() && !st.server.breach.Breaks(breach.RemovalTerminatesSubscriptions, eventmeter.Push):
		return noSuchEvent()
	case st.topic.schema.Load() != st.schema:
		return schemaChanged()
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
