package streamclient

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Batch is about how many bytes go into one write.
const h2Batch = 32 << 10

// h2Writer is the writing side of a connection. It alone assigns stream ids,
// so that they rise on the wire.
type h2Writer struct {
	conn    *h2Conn
	block   bytes.Buffer
	encoder *hpack.Encoder
	names   map[string]string // header names as HTTP/2 has them
	sending []*h2Stream       // scratch
	pinged  bool
}

// run writes until the connection is to end, and closes it.
func (w *h2Writer) run() {
	c := w.conn
	w.encoder = hpack.NewEncoder(&w.block)
	w.names = map[string]string{}
	defer c.raw.Close()
	alive := time.NewTimer(c.client.limits.pingAfter)
	defer alive.Stop()
	err := w.write(w.preface)
	for err == nil {
		var more bool
		if more, err = w.round(); err != nil || more {
			continue
		}
		select {
		case <-c.wake:
		case <-c.done:
			w.farewell()
			return
		case <-alive.C:
			var again time.Duration
			if again, err = w.pulse(); err == nil {
				alive.Reset(again)
			}
		}
	}
	c.fail(err)
}

// write calls fill with a pooled buffer and writes what it returns.
func (w *h2Writer) write(fill func([]byte) []byte) error {
	c := w.conn
	lent := c.client.writes.Get().(*[]byte)
	b := fill((*lent)[:0])
	var err error
	if len(b) > 0 {
		c.mu.Lock()
		if c.why == nil { // otherwise the deadline of fail stays
			_ = c.raw.SetWriteDeadline(
				time.Now().Add(c.client.limits.pingAfter + c.client.limits.pingTimeout),
			) // fails only when closed, and then the write fails, too
		}
		c.mu.Unlock()
		var n int
		n, err = c.nc.Write(b)
		if count := c.client.opts.Count; count != nil && c.client.opts.TLS == nil {
			count.Sent(n)
		}
	}
	if cap(b) <= 2*h2Batch {
		*lent = b
		c.client.writes.Put(lent)
	}
	return err
}

func (w *h2Writer) preface(b []byte) []byte {
	l := w.conn.client.limits
	b = append(b, http2.ClientPreface...)
	b = appendFrameHeader(b, 18, http2.FrameSettings, 0, 0)
	b = appendSetting(b, http2.SettingEnablePush, 0)
	b = appendSetting(b, http2.SettingInitialWindowSize, uint32(l.window))
	b = appendSetting(b, http2.SettingMaxHeaderListSize, l.headerList)
	if l.connWindow > 65535 {
		b = appendNumberFrame(b, http2.FrameWindowUpdate, 0, uint32(l.connWindow-65535))
	}
	return b
}

// farewell tells the server why the connection ends.
func (w *h2Writer) farewell() {
	w.conn.mu.Lock()
	why := w.conn.why
	w.conn.mu.Unlock()
	code, said := http2.ErrCodeNo, ""
	if e, ok := why.(*RuleError); ok {
		code, said = e.Code, e.Reason
	}
	_ = w.write(func(b []byte) []byte { return appendGoAway(b, code, said) }) // the connection ends either way
}

// pulse sends a PING if nothing was read for a while. It returns how long to wait
// before the next call.
func (w *h2Writer) pulse() (time.Duration, error) {
	c := w.conn
	l := c.client.limits
	silent := time.Duration(c.client.opts.Now() - c.lastRead.Load())
	switch {
	case silent < l.pingAfter:
		w.pinged = false
		return l.pingAfter - silent, nil
	case !w.pinged:
		w.pinged = true
		return l.pingTimeout, c.say(appendPing(nil, 0, pingAlive))
	}
	return 0, fmt.Errorf("the connection is dead: no answer to a PING within %v: %w", l.pingTimeout, os.ErrDeadlineExceeded)
}

// round writes what is queued, at most one batch. more is true if there is more.
func (w *h2Writer) round() (more bool, err error) {
	err = w.write(func(b []byte) []byte {
		b, more = w.collect(b)
		return b
	})
	return more, err
}

// collect appends what is queued: control frames, then new streams, then the
// bodies that had to wait.
func (w *h2Writer) collect(b []byte) ([]byte, bool) {
	c := w.conn
	c.mu.Lock()
	b = append(b, c.control...)
	if cap(c.control) > 4<<10 {
		c.control = nil
	}
	c.control = c.control[:0]
	if c.why != nil {
		c.mu.Unlock()
		return b, false
	}
	stalled := c.stalled
	c.stalled = nil
	skipped := 0
	n := min(len(c.opens), 128)
	for _, s := range c.opens[:n] {
		if s.over.Load() { // closed before it was sent
			c.open--
			skipped++
			continue
		}
		s.id = c.nextID
		c.nextID += 2
		c.table[s.id] = s
		w.sending = append(w.sending, s)
	}
	if c.opens = slices.Delete(c.opens, 0, n); len(c.opens) == 0 {
		c.opens = nil
	}
	more := len(c.opens) > 0
	w.encoder.SetMaxDynamicTableSizeLimit(min(c.peer.table, 4096))
	w.encoder.SetMaxDynamicTableSize(min(c.peer.table, 4096))
	frame, list, done := c.peer.frame, c.peer.headerList, c.draining && c.open == 0
	c.mu.Unlock()
	if skipped > 0 {
		c.freed(done)
	}
	for _, s := range w.sending {
		b = w.request(b, s, frame, list)
	}
	clear(w.sending)
	w.sending = w.sending[:0]
	for _, s := range stalled {
		b = w.body(b, s)
	}
	return b, more
}

// request appends a request: its head, and as much of its body as the windows allow.
func (w *h2Writer) request(b []byte, s *h2Stream, frame int, list uint32) []byte {
	c, r := w.conn, s.req
	w.block.Reset()
	if size := w.encode(r, list); size > list {
		s.tell(
			fmt.Errorf(
				"the head of the request has %d bytes, and the server accepts at most %d: send fewer or shorter headers",
				size,
				list,
			),
			false,
		)
		// The stream has its id and is in the table, but nothing is sent: the server
		// treats an id that was skipped as closed.
		c.forget(s)
		return b
	}
	flags := http2.Flags(0)
	if len(r.Body) == 0 {
		flags = http2.FlagHeadersEndStream
		w.sent(s)
	}
	kind := http2.FrameHeaders
	for block := w.block.Bytes(); ; {
		n := min(len(block), frame)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		b = append(appendFrameHeader(b, n, kind, flags, s.id), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			break
		}
		kind, flags = http2.FrameContinuation, 0
	}
	if s.req != nil {
		b = w.body(b, s)
	}
	return b
}

// body appends as much of a request's body as the windows allow. The rest waits
// in stalled.
func (w *h2Writer) body(b []byte, s *h2Stream) []byte {
	c := w.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table[s.id] != s { // over
		s.req = nil
		return b
	}
	for len(s.req.Body) > 0 {
		n := min(int64(len(s.req.Body)), c.window, c.peer.window+int64(s.delta), int64(c.peer.frame))
		if n <= 0 {
			c.stalled = append(c.stalled, s)
			return b
		}
		c.window -= n
		s.delta -= int32(n)
		flags := http2.Flags(0)
		if n == int64(len(s.req.Body)) {
			flags = http2.FlagDataEndStream
		}
		b = append(appendFrameHeader(b, int(n), http2.FrameData, flags, s.id), s.req.Body[:n]...)
		s.req.Body = s.req.Body[n:]
	}
	s.sent, s.req = true, nil
	return b
}

func (w *h2Writer) sent(s *h2Stream) {
	w.conn.mu.Lock()
	s.sent, s.req = true, nil
	w.conn.mu.Unlock()
}

// encode makes the header block of a request, unless the header list is larger
// than limit. It returns the size of the list as RFC 9113 counts it.
func (w *h2Writer) encode(r *Request, limit uint32) (size uint32) {
	o := &w.conn.client.opts
	authority := cmp.Or(r.Header.Get("Host"), o.Host, o.Addr)
	all := func(field func(name, value string)) {
		field(":authority", authority)
		field(":method", r.Method)
		field(":path", r.Path)
		field(":scheme", w.conn.client.scheme)
		for k, vs := range r.Header {
			name := w.name(k)
			if name == "" {
				continue
			}
			for _, v := range vs {
				field(name, v)
			}
		}
		if len(r.Body) > 0 {
			field("content-length", strconv.Itoa(len(r.Body)))
		}
	}
	all(func(name, value string) { size += uint32(len(name) + len(value) + 32) })
	if size <= limit {
		all(func(name, value string) {
			_ = w.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // into memory
		})
	}
	return size
}

// name returns a header's name in HTTP/2; "" for headers that HTTP/2 does not have
// or expresses in another way.
func (w *h2Writer) name(k string) string {
	if n, ok := w.names[k]; ok {
		return n
	}
	n := strings.ToLower(k)
	switch n {
	case "host", "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "content-length":
		n = ""
	}
	if len(w.names) < 256 {
		w.names[k] = n
	}
	return n
}
