package streamclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is a Sink that keeps little.
type counter struct{ bytes, pieces int }

func (*counter) Opened(Head, Arrival) error         { return nil }
func (c *counter) Piece(b []byte, at Arrival) error { c.bytes += len(b); c.pieces++; return nil }
func (*counter) Closed(error)                       {}

// watcher is a Sink that can be waited for.
type watcher struct {
	t      testing.TB
	mu     sync.Mutex
	change *sync.Cond
	head   *Head
	body   bytes.Buffer
	at     []Arrival
	closed bool
	err    error
	onOpen func() error
}

func watch(t testing.TB) *watcher {
	w := &watcher{t: t}
	w.change = sync.NewCond(&w.mu)
	return w
}

func (w *watcher) tell(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.t.Error("told of something after the end")
	}
	f()
	w.change.Broadcast()
}

func (w *watcher) Opened(h Head, at Arrival) error {
	w.tell(func() { w.head = &h })
	if w.onOpen != nil {
		return w.onOpen()
	}
	return nil
}

func (w *watcher) Piece(b []byte, at Arrival) error {
	w.tell(func() { w.body.Write(b); w.at = append(w.at, at) })
	return nil
}

func (w *watcher) Closed(err error) { w.tell(func() { w.closed, w.err = true, err }) }

// until waits for something to hold.
func (w *watcher) until(what string, holds func() bool) {
	w.t.Helper()
	late := time.AfterFunc(30*time.Second, func() {
		w.mu.Lock()
		w.t.Errorf("waited in vain for %s", what)
		w.closed = true
		w.mu.Unlock()
		w.change.Broadcast()
	})
	defer late.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !holds() && !w.closed {
		w.change.Wait()
	}
}

func (w *watcher) end() error {
	w.t.Helper()
	w.until("the end", func() bool { return w.closed })
	return w.err
}

func (w *watcher) read(text string) {
	w.t.Helper()
	w.until("text", func() bool { return strings.Contains(w.body.String(), text) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.Contains(w.body.String(), text) {
		w.t.Errorf("%q came instead of %q: %v", w.body.String(), text, w.err)
	}
}

// listen serves each connection with f until the test is over.
func listen(t testing.TB, network, addr string, f func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Skipf("no listener at %s: %v", addr, err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { defer c.Close(); f(c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return l.Addr().String()
}

// kinds are the implementations that must behave alike.
var kinds = []struct {
	name string
	make func(Options) (Client, error)
}{
	{"loops", New}, {"portable", NewPortable},
	{"stamped", func(o Options) (Client, error) {
		o.KernelTimestamps = true
		return New(o)
	}},
}

// each runs f with every implementation.
func each(t *testing.T, f func(t *testing.T, open func(Options) Client)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			f(t, func(o Options) Client {
				p, err := k.make(o)
				must(t, err)
				t.Cleanup(func() { p.Close() })
				return p
			})
		})
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

var get = Request{Method: "GET", Path: "/"}

func TestStreamIsReadAsItComes(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		said := make(chan string)
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := io.ReadAll(req.Body)
			if req.Method != "POST" || req.URL.Path != "/mcp" || string(body) != `{"a":1}` || req.Header.Get("X-A") != "b" ||
				req.Host != "example.test" {
				t.Errorf("%+v %s", req, body)
			}
			io.WriteString(c, streamHead[:20])
			for s := range said {
				io.WriteString(c, s)
			}
		})
		n := &traffic{}
		p := open(Options{Addr: addr, Host: "example.test", Count: n})
		w := watch(t)
		p.Open(t.Context(), Request{Method: "POST", Path: "/mcp", Header: http.Header{"X-A": {"b"}}, Body: []byte(`{"a":1}`)}, w)
		said <- streamHead[20:]
		w.until("the head", func() bool { return w.head != nil })
		said <- "5\r\nhel"
		w.read("hel")
		said <- "lo\r\n"
		w.read("hello")
		close(said)
		if err := w.end(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("ended with %v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n.opened.Load() != 1 || n.sent.Load() < 50 || n.taken.Load() != int64(len(streamHead)+len("5\r\nhello\r\n")) {
			t.Errorf("%d opened, %d sent, %d taken", n.opened.Load(), n.sent.Load(), n.taken.Load())
		}
	})
}

type traffic struct{ opened, sent, taken atomic.Int64 }

func (n *traffic) Opened()     { n.opened.Add(1) }
func (n *traffic) Sent(b int)  { n.sent.Add(int64(b)) }
func (n *traffic) Taken(b int) { n.taken.Add(int64(b)) }

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		reset bool
		want  error
		body  string
	}{
		"in order":        {text: streamHead + "2\r\nok\r\n0\r\n\r\n", want: io.EOF, body: "ok"},
		"length":          {text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", want: io.EOF, body: "ok"},
		"half closed":     {text: "HTTP/1.1 200 OK\r\n\r\nok", want: io.EOF, body: "ok"},
		"cut in a chunk":  {text: streamHead + "5\r\nok", want: io.ErrUnexpectedEOF, body: "ok"},
		"cut in a length": {text: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", want: io.ErrUnexpectedEOF, body: "ok"},
		"nothing":         {want: io.ErrUnexpectedEOF},
		"no HTTP":         {text: "220 smtp\r\n\r\n", want: ErrMalformed},
		"large and at once": {text: streamHead + "100000\r\n" + strings.Repeat("x", 1<<20) + "\r\n0\r\n\r\n", want: io.EOF,
			body: strings.Repeat("x", 1<<20)},
		"reset": {text: streamHead + "2\r\nok\r\n", reset: true, want: syscall.ECONNRESET, body: "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, open func(Options) Client) {
				read := make(chan struct{}, 1)
				addr := listen(t, "tcp", "127.0.0.1:0", func(conn net.Conn, r *bufio.Reader) {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					io.WriteString(conn, c.text)
					if c.reset {
						<-read
						conn.(*net.TCPConn).SetLinger(0)
					}
				})
				w := watch(t)
				open(Options{Addr: addr}).Open(t.Context(), get, w)
				if c.reset {
					w.read(c.body)
					read <- struct{}{}
				}
				if err := w.end(); !errors.Is(err, c.want) || w.body.String() != c.body {
					t.Errorf("%v after %d bytes", err, w.body.Len())
				}
			})
		})
	}
}

func TestCloseEndsAStream(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, streamHead)
			io.Copy(io.Discard, r)
		})
		p := open(Options{Addr: addr})
		one, other, silent := watch(t), watch(t), watch(t)
		s := p.Open(t.Context(), get, one)
		p.Open(t.Context(), get, other)
		p.Open(t.Context(), get, silent).Close() // at once
		one.until("the head", func() bool { return one.head != nil })
		other.until("the head", func() bool { return other.head != nil })
		s.Close()
		s.Close()
		for _, w := range []*watcher{one, silent} {
			if err := w.end(); err != ErrClosed {
				t.Error(err)
			}
		}
		p.Close()
		if err := other.end(); err != ErrClosed {
			t.Error(err)
		}
		late := watch(t)
		p.Open(t.Context(), get, late).Close()
		if err := late.end(); err != ErrClosed {
			t.Error(err)
		}
	})
}

func TestSinkCloses(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, streamHead+"2\r\nok\r\n")
			io.Copy(io.Discard, r) // until it is closed
		})
		w := watch(t)
		no := errors.New("no")
		w.onOpen = func() error { return no }
		open(Options{Addr: addr}).Open(t.Context(), get, w)
		if err := w.end(); err != no || w.body.Len() > 0 {
			t.Error(err)
		}
	})
}

func TestContextEndsTheOpening(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		asked := make(chan struct{}, 2)
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			req, _ := http.ReadRequest(r)
			if req != nil && req.URL.Path == "/open" {
				io.WriteString(c, streamHead)
			}
			asked <- struct{}{}
			io.Copy(io.Discard, r)
		})
		p := open(Options{Addr: addr})
		ctx, cancel := context.WithCancel(t.Context())
		w, stays := watch(t), watch(t)
		p.Open(ctx, Request{Method: "GET", Path: "/open"}, stays)
		stays.until("the head", func() bool { return stays.head != nil })
		p.Open(ctx, get, w)
		<-asked
		<-asked
		cancel()
		if err := w.end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.Close()
		if err := stays.end(); err != ErrClosed {
			t.Errorf("the stream that was open ended with %v", err)
		}
	})
}

// A sink that hears of the head may end the context of the opening at once.
func TestOpenedOutlivesItsContext(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			io.WriteString(c, streamHead)
			io.Copy(io.Discard, r)
		})
		p := open(Options{Addr: addr})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			w := watch(t)
			w.onOpen = func() error {
				cancel()
				return nil
			}
			s := p.Open(ctx, get, w)
			w.until("the head", func() bool { return w.head != nil })
			s.Close()
			if err := w.end(); err != ErrClosed {
				t.Fatalf("the stream ended with %v", err)
			}
		}
	})
}

func TestNobodyThere(t *testing.T) {
	each(t, func(t *testing.T, open func(Options) Client) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addr := l.Addr().String()
		l.Close()
		w := watch(t)
		open(Options{Addr: addr}).Open(t.Context(), get, w)
		if err := w.end(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		_, port, _ := net.SplitHostPort(addr)
		w = watch(t)
		open(Options{Addr: net.JoinHostPort("nobody.invalid", port)}).Open(t.Context(), get, w)
		var dns *net.DNSError
		if err := w.end(); !errors.As(err, &dns) {
			t.Error(err)
		}
	})
	for _, addr := range []string{"", "x", "127.0.0.1:0", "127.0.0.1:http"} {
		if _, err := New(Options{Addr: addr}); err == nil {
			t.Errorf("%q was taken", addr)
		}
	}
}
