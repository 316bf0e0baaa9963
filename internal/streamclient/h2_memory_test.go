package streamclient

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

// TestH2Memory is about the client's own share: nothing is sent to the sinks.
func TestH2Memory(t *testing.T) {
	const n, bound = 5000, 350
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	peers := &scripted{t: t, ln: ln}
	peers.serve(answerAll)
	defer peers.wait()
	p := startH2(t, Options{Addr: ln.Addr().String()}, nil)
	defer p.Close()
	sinks := make([]counting, n)
	var open sync.WaitGroup
	open.Add(n)
	for i := range sinks {
		sinks[i].open = &open
	}
	header := http.Header{"Content-Type": {"application/json"}}
	body := []byte("{}")
	before := inUse()
	for i := range sinks {
		p.Open(context.Background(), Request{Method: "POST", Path: "/mcp", Header: header, Body: body}, &sinks[i])
	}
	open.Wait()
	per := (inUse() - before) / n
	t.Logf("%d bytes of heap and stacks per open stream, the peer's included", per)
	if per > bound {
		t.Errorf("%d bytes per stream, more than %d", per, bound)
	}
}

// TestH2StreamSize keeps what DATA needs of a stream in a cache line.
func TestH2StreamSize(t *testing.T) {
	var s h2Stream
	if n := unsafe.Sizeof(s); n > 96 {
		t.Errorf("a stream takes %d bytes", n)
	}
	if n := unsafe.Offsetof(s.kept) + unsafe.Sizeof(s.kept); n > 64 {
		t.Errorf("what DATA needs takes %d bytes", n)
	}
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

type counting struct {
	open *sync.WaitGroup
	n    int
}

func (c *counting) Opened(Head, Arrival) error       { c.open.Done(); return nil }
func (c *counting) Piece(b []byte, at Arrival) error { c.n += len(b); return nil }
func (c *counting) Closed(error)                     {}
