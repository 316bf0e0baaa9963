package streamclient

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd counts what a mass of streams is told.
type crowd struct {
	opened, bytes, closed atomic.Int64
	wrong                 atomic.Pointer[error]
	over                  sync.WaitGroup
}

func (c *crowd) Opened(Head, Arrival) error { c.opened.Add(1); return nil }
func (c *crowd) Piece(b []byte, _ Arrival) error {
	c.bytes.Add(int64(len(b)))
	return nil
}

func (c *crowd) Closed(err error) {
	if err != ErrClosed {
		c.wrong.CompareAndSwap(nil, &err)
	}
	c.closed.Add(1)
	c.over.Done()
}

// until waits for a counter to come to n.
func until(t *testing.T, what string, c *atomic.Int64, n int64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); c.Load() < n; {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d of %d", what, c.Load(), n)
		}
		time.Sleep(time.Millisecond)
	}
	if got := c.Load(); got != n {
		t.Fatalf("%s: %d, not %d", what, got, n)
	}
}

// TestMassOpensDeliversAndCloses looks that nothing is left of many streams:
// no file, no goroutine, no slot.
func TestMassOpensDeliversAndCloses(t *testing.T) {
	const streams, rounds = 1000, 3
	each(t, func(t *testing.T, open func(Options) Client) {
		say := make([]chan struct{}, rounds)
		for i := range say {
			say[i] = make(chan struct{})
		}
		addr := listen(t, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, streamHead)
			for _, now := range say {
				<-now
				io.WriteString(c, "a\r\n0123456789\r\n")
			}
			io.Copy(io.Discard, r)
		})
		files, goroutines := openFiles(), runtime.NumGoroutine()
		p := open(Options{Addr: addr, Shards: 2})
		c := &crowd{}
		list := make([]Stream, streams)
		for i := range list {
			c.over.Add(1)
			list[i] = p.Open(t.Context(), get, c)
			if i%200 == 199 { // a listener's queue is short
				until(t, "opened", &c.opened, int64(i+1))
			}
		}
		for i, now := range say {
			close(now)
			until(t, "bytes", &c.bytes, int64(streams*10*(i+1)))
		}
		if _, ok := p.(*portable); !ok && kernelHasLoopbackNet {
			// One for each connection's other end, and a few.
			if n := runtime.NumGoroutine() - goroutines; n > streams+50 {
				t.Errorf("%d goroutines more", n)
			}
		}
		for _, s := range list[:streams/2] {
			s.Close()
		}
		until(t, "closed", &c.closed, streams/2)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		c.over.Wait()
		if err := c.wrong.Load(); err != nil || c.closed.Load() != streams {
			t.Errorf("%d ended, one with %v", c.closed.Load(), *err)
		}
		if files < 0 {
			return
		}
		// The other ends are closed by their own goroutines.
		for deadline := time.Now().Add(30 * time.Second); openFiles() > files; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d files are open, %d were before", openFiles(), files)
			}
		}
	})
}

func TestRequestIsClean(t *testing.T) {
	got := string(appendRequest(nil, &Request{Method: "POST", Path: "", Header: http.Header{
		"X": {"a\r\nEvil: b"}, "Bad name": {"c"}, "Content-Length": {"99"}, "Host": {"other"},
	}, Body: []byte("ab")}, "h\r\nost"))
	if want := "POST / HTTP/1.1\r\nHost: h  ost\r\nX: a  Evil: b\r\nContent-Length: 2\r\n\r\nab"; got != want {
		t.Errorf("%q", got)
	}
	if got := string(appendRequest(nil, &Request{Method: "GET", Path: "/"}, "h")); strings.Contains(got, "Content-Length") {
		t.Errorf("%q", got)
	}
}

// BenchmarkOpen opens, reads a head and closes.
func BenchmarkOpen(b *testing.B) {
	addr := listen(b, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	p, err := New(Options{Addr: addr})
	must(b, err)
	defer p.Close()
	ended := make(chan error)
	b.ReportAllocs()
	for b.Loop() {
		p.Open(b.Context(), get, &ender{ended: ended})
		if err := <-ended; err != io.EOF {
			b.Fatal(err)
		}
	}
}

// BenchmarkDelivery is from the write of a chunk until the sink has it.
func BenchmarkDelivery(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			conns := make(chan net.Conn)
			stop := make(chan struct{})
			addr := listen(b, "tcp", "127.0.0.1:0", func(c net.Conn, r *bufio.Reader) {
				http.ReadRequest(r)
				io.WriteString(c, streamHead)
				conns <- c
				<-stop
			})
			p, err := k.make(Options{Addr: addr})
			must(b, err)
			defer p.Close()
			defer close(stop)
			e := &ender{ended: make(chan error, 1), pieces: make(chan struct{})}
			p.Open(b.Context(), get, e)
			c := <-conns
			chunk := []byte("172\r\n" + strings.Repeat("x", 0x172) + "\r\n")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(chunk); err != nil {
					b.Fatal(err)
				}
				<-e.pieces
			}
		})
	}
}

type ender struct {
	ended  chan error
	pieces chan struct{}
}

func (*ender) Opened(Head, Arrival) error { return nil }
func (e *ender) Piece([]byte, Arrival) error {
	e.pieces <- struct{}{}
	return nil
}
func (e *ender) Closed(err error) { e.ended <- err }
