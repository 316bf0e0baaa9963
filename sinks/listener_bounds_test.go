package sinks

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
)

// A connection beyond the bound is closed at once and counted as one that failed
// here. Those that are open go on, and another may come when one of them ends.
func TestListenerBoundsConnections(t *testing.T) {
	t.Parallel()
	for _, callback := range []string{"http://127.0.0.1:0", ""} {
		told := make(chan string, 100)
		l, err := Listen(ListenerOptions{
			Callback: callback, MaxConnections: 2, Failed: func(reason string) { told <- reason },
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		})
		must(t, err)
		open := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.open
		}
		dial := func(want int) net.Conn {
			c, err := net.Dial("tcp", l.port.Addr().String())
			must(t, err)
			for open() != want {
				runtime.Gosched()
			}
			return c
		}
		first, second := dial(1), dial(2)
		for range 3 {
			c, err := net.Dial("tcp", l.port.Addr().String())
			must(t, err)
			if reason := <-told; reason != "too many connections at once: more than 2" {
				t.Errorf("told %q", reason)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("a connection beyond the bound was spoken to")
			}
			c.Close()
		}
		if n := open(); n != 2 {
			t.Errorf("%d connections are open, want 2", n)
		}
		if callback != "" {
			if _, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if resp, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil || resp.StatusCode != 200 {
				t.Errorf("a connection within the bound: %v", err)
			}
		}
		second.Close()
		for open() != 1 {
			runtime.Gosched()
		}
		dial(2).Close()
		first.Close()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A delivery beyond the bound of concurrent ones is answered 503, and its hook is
// told.
func TestReceiverBoundsRequests(t *testing.T) {
	var turned atomic.Int64
	r := NewReceiver(ReceiverOptions{
		Clock: eventmeter.NewClock(), MaxRequests: 2,
		Turned: func(h Hook, status int, _ eventmeter.Instant, _ int) {
			if h == nil || status != http.StatusServiceUnavailable {
				t.Errorf("turned with %v, %d", h, status)
			}
			turned.Add(1)
		},
	})
	entered, leave, done := make(chan bool), make(chan bool), make(chan int)
	r.Add("/slow", hookFunc(func(*Inbound) Reply { entered <- true; <-leave; return Reply{} }))
	r.Add("/fast", silentHook{})
	for range 2 {
		go func() { done <- statusOf(r, "/slow") }()
		<-entered
	}
	if got := statusOf(r, "/fast"); got != 503 || turned.Load() != 1 {
		t.Errorf("beyond the bound: %d, told %d times", got, turned.Load())
	}
	for range 2 {
		leave <- true
		if got := <-done; got != 200 {
			t.Errorf("within the bound: %d", got)
		}
	}
	if got := statusOf(r, "/fast"); got != 200 || turned.Load() != 1 {
		t.Errorf("afterwards: %d, told %d times", got, turned.Load())
	}
}

// pipes is a listener whose connections are made in memory.
type pipes struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { return nil }

// A connection that does not get on is closed: in the TLS handshake, in the head
// of a request, in its body, and between requests. An answer may take its time.
func TestListenerClosesWhatStalls(t *testing.T) {
	const head = "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
	for name, c := range map[string]struct {
		secure bool
		say    string
		delay  time.Duration
		after  time.Duration
		answer string
	}{
		"TLS handshake":    {secure: true, say: "\x16\x03\x01", after: 10 * time.Second},
		"nothing":          {after: 10 * time.Second},
		"head":             {say: "POST /slow HTTP/1.1\r\nHost: x\r\nX: ", after: 10 * time.Second},
		"body":             {say: head + "12", after: 30 * time.Second, answer: "HTTP/1.1 400"},
		"between requests": {say: head + "123", after: 2 * time.Minute, answer: "HTTP/1.1 200"},
		"a slow answer":    {say: head + "123", delay: 10 * time.Minute, after: 12 * time.Minute, answer: "HTTP/1.1 200"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
				r.Add("/slow", hookFunc(func(*Inbound) Reply { return Reply{Delay: c.delay} }))
				p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				o := ListenerOptions{Handler: r, Wrap: func(l net.Listener) net.Listener { p.Listener = l; return p }}
				if !c.secure {
					o.Callback = "http://127.0.0.1:0"
				}
				l, err := Listen(o)
				must(t, err)
				near, far := net.Pipe()
				p.conns <- far
				began := time.Now()
				if _, err := io.WriteString(near, c.say); err != nil {
					t.Fatal(err)
				}
				said, err := io.ReadAll(near)
				if err != nil && !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("closed after %v, want %v", took, c.after)
				}
				if !strings.HasPrefix(string(said), c.answer) {
					t.Errorf("said %q, want %q", said, c.answer)
				}
				near.Close()
				close(p.done)
				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The bound of requests costs nothing that the heap knows of.
func BenchmarkReceiverBounded(b *testing.B) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock(), MaxRequests: 100})
	r.Add("/a", silentHook{})
	body := rewound{strings.NewReader(strings.Repeat("x", 350))}
	req := httptest.NewRequest(http.MethodPost, "/a", body)
	req.ContentLength = 350
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Seek(0, io.SeekStart)
		r.ServeHTTP(w, req)
	}
}
