//go:build unix

package mcpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// directTransport carries exchanges over HTTP/1.1 in plain text. The goroutine of the
// caller writes the request and reads the answer; net/http has two more goroutines for
// each connection. Like the http.Transport of a lane it has no redirects, proxies,
// compression or limits. It is safe for concurrent use.
//
// It exists because it saves CPU time. Per poll, user and system time of the whole
// generator process, in runs that alternate with net/http on two shared cores (medians,
// every event delivered): 2,000 pollers every 0.5 s take 32 µs instead of 43 µs, 10,000
// every 2 s take 42 µs instead of 63 µs. With start and attach of a short run included,
// it saves 18 % and 19 %.
type directTransport struct {
	dial    wire.DialFunc
	addr    string
	host    string
	traffic *wire.Traffic

	mu     sync.Mutex
	idle   []*directConn // by the time of their last use
	closed bool
}

const (
	// directIdle is how long an idle connection is kept.
	directIdle = 90 * time.Second
	// directInterim bounds the interim answers (1xx) before an answer.
	directInterim = 5
)

// newDirect returns a transport for exchanges with u, or nil if it needs net/http.
func newDirect(u *url.URL, dial wire.DialFunc, addr string, traffic *wire.Traffic) *directTransport {
	odd := func(r rune) bool { return r > '~' || r == '%' } // an internationalized name, or a zone
	if u.Scheme != "http" || strings.ContainsFunc(u.Host, odd) {
		return nil
	}
	return &directTransport{dial: dial, addr: addr, host: u.Host, traffic: traffic}
}

// directConn is a connection, used by one exchange at a time.
type directConn struct {
	net.Conn
	raw     syscall.RawConn
	traffic *wire.Traffic
	since   time.Time // since when it is idle
	left    int64     // how many more bytes may be read
}

var errLongHead = errors.New("the head of the answer is too long")

// Read implements [io.Reader].
func (c *directConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLongHead
	}
	n, err := c.Conn.Read(b)
	c.left -= int64(n)
	c.traffic.CountDown(n)
	return n, err
}

// Write implements [io.Writer].
func (c *directConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.CountUp(n)
	return n, err
}

// interrupt makes reads and writes of the connection return.
func (c *directConn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// quiet reports whether the other end has neither hung up nor sent anything since the
// last answer. net/http knows because one of its goroutines always reads.
func (c *directConn) quiet() bool {
	quiet := false
	err := c.raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		quiet = err == syscall.EAGAIN
		return true
	})
	return err == nil && quiet
}

// take returns an idle connection, or a new one.
func (t *directTransport) take(ctx context.Context) (*directConn, error) {
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			return t.open(ctx)
		}
		c := t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if time.Since(c.since) < directIdle && c.quiet() {
			return c, nil
		}
		_ = c.Close()
	}
}

func (t *directTransport) open(ctx context.Context) (*directConn, error) {
	conn, err := t.dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("dial %s: a connection of type %T has no socket", t.addr, conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	t.traffic.CountOpened()
	return &directConn{Conn: conn, raw: raw, traffic: t.traffic}, nil
}

// put makes a connection idle, and closes one that has been idle for too long.
func (t *directTransport) put(c *directConn) {
	c.since = time.Now()
	var old *directConn
	t.mu.Lock()
	switch {
	case t.closed:
		old = c
	default:
		if len(t.idle) > 0 && c.since.Sub(t.idle[0].since) > directIdle {
			old = t.idle[0]
			t.idle = append(t.idle[:0], t.idle[1:]...)
		}
		t.idle = append(t.idle, c)
	}
	t.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// close closes every connection; those in use are closed when their exchange ends.
func (t *directTransport) close() {
	t.mu.Lock()
	idle := t.idle
	t.idle, t.closed = nil, true
	t.mu.Unlock()
	for _, c := range idle {
		_ = c.Close()
	}
}

var (
	directReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}
	directWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}
)

// RoundTrip implements [http.RoundTripper]. The body must be short enough to be
// written before the answer is read.
func (t *directTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := t.take(ctx)
	if err != nil {
		return nil, err
	}
	b := &directBody{t: t, c: c, stop: context.AfterFunc(ctx, c.interrupt)}
	if err := t.write(c, req); err != nil {
		b.finish(false)
		return nil, err
	}
	b.r = directReaders.Get().(*bufio.Reader)
	b.r.Reset(c)
	c.left = maxHead
	resp, err := readAnswer(b.r, req)
	if err != nil {
		b.finish(false)
		return nil, err
	}
	c.left = math.MaxInt64
	b.last = resp.Close || resp.StatusCode == http.StatusSwitchingProtocols
	b.from, resp.Body = resp.Body, b
	return resp, nil
}

// readAnswer reads the head of an answer, after skipping interim answers.
func readAnswer(r *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range directInterim + 1 {
		resp, err := http.ReadResponse(r, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errors.New("too many interim answers")
}

// write sends the request, in one piece if it is not long.
func (t *directTransport) write(c *directConn, req *http.Request) error {
	w := directWriters.Get().(*bufio.Writer)
	w.Reset(c)
	defer func() {
		w.Reset(nil)
		directWriters.Put(w)
	}()
	host := req.Host
	if host == "" {
		host = t.host
	}
	for _, s := range [...]string{req.Method, " ", req.URL.RequestURI(), " HTTP/1.1\r\nHost: ", host, "\r\n"} {
		_, _ = w.WriteString(s) // a writer keeps its first error
	}
	_ = req.Header.Write(w)
	if req.Body != nil {
		_, _ = w.WriteString("Content-Length: ")
		_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), req.ContentLength, 10))
		_, _ = w.WriteString("\r\n\r\n")
		if _, err := io.Copy(w, req.Body); err != nil {
			return err
		}
	} else {
		_, _ = w.WriteString("\r\n")
	}
	return w.Flush()
}

// directBody is the body of an answer. If it is read to its end, the connection becomes
// idle; if it is closed before, the connection is closed.
type directBody struct {
	t    *directTransport
	c    *directConn
	r    *bufio.Reader
	from io.Reader
	stop func() bool
	// timer interrupts the reading of the rest; nil = reading is not bounded.
	timer *time.Timer
	last  bool // the connection cannot be used again
	done  bool
}

// Read implements [io.Reader].
func (b *directBody) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	if err != nil {
		b.finish(err == io.EOF)
	}
	return n, err
}

// within bounds the time for reading the rest of the answer.
func (b *directBody) within(limit time.Duration) {
	if !b.done {
		b.timer = time.AfterFunc(limit, b.c.interrupt)
	}
}

// Close implements [io.Closer].
func (b *directBody) Close() error {
	b.finish(false)
	return nil
}

// finish ends the exchange; whole is true if the answer was read to its end.
func (b *directBody) finish(whole bool) {
	if b.done {
		return
	}
	b.done = true
	// If the interruption has begun, it may set the deadline at any later time.
	stopped := b.stop()
	if b.timer != nil {
		stopped = b.timer.Stop() && stopped
	}
	whole = stopped && whole && !b.last && b.r.Buffered() == 0
	if b.r != nil {
		b.r.Reset(nil)
		directReaders.Put(b.r)
		b.r = nil
	}
	if whole {
		b.t.put(b.c)
		return
	}
	_ = b.c.Close()
}
