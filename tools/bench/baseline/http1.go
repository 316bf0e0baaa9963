//go:build unix

package baseline

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	// readBuffer is the size of the buffer for requests.
	readBuffer = 2 << 10
)

// ServeHTTP1 serves HTTP/1.1 on a listener until ctx ends, and closes it. The
// caller also runs [Server.Run]. A connection has a goroutine until its stream is
// open; then one of a few goroutines writes its events. They never wait for a
// client: the rest of an event that a full socket accepts in part is written
// later, and events in between are skipped. The server notices that a client has
// closed its connection when it writes to it.
func (f *Server) ServeHTTP1(ctx context.Context, ln net.Listener) error {
	shards := make([]*shard, runtime.GOMAXPROCS(0))
	var sending sync.WaitGroup
	over := make(chan struct{})
	for i := range shards {
		s := &shard{baseline: f, group: f.join()}
		shards[i] = s
		sending.Go(func() { s.send(over) })
	}
	var turn int
	var mu sync.Mutex
	err := f.accept(ctx, ln, func(ctx context.Context, nc net.Conn) {
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		defer stop()
		a := f.requests(nc, bufio.NewReaderSize(nc, readBuffer))
		if !a.stream {
			nc.Close()
			return
		}
		mu.Lock()
		s := shards[turn%len(shards)]
		turn++
		mu.Unlock()
		s.add(nc, a)
	})
	close(over)
	sending.Wait()
	for _, s := range shards {
		f.leave(s.group)
		s.close()
	}
	return err
}

// requests answers requests until one opens a stream, and returns its answer.
func (f *Server) requests(nc net.Conn, in *bufio.Reader) (opened answer) {
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return opened
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return opened
		}
		a := answer{status: http.StatusMethodNotAllowed} // without a body, as a HEAD request needs it
		if r.Method == http.MethodPost {
			a = f.answer(body)
		}
		if a.stream {
			return a
		}
		head := "HTTP/1.1 " + strconv.Itoa(a.status) + " " + http.StatusText(a.status) +
			"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(a.body)) + "\r\n\r\n"
		if _, err := nc.Write(append([]byte(head), a.body...)); err != nil {
			return opened
		}
	}
}

// chunked is text as a chunk of a chunked body.
func chunked(text []byte) []byte {
	b := strconv.AppendInt(make([]byte, 0, len(text)+12), int64(len(text)), 16)
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// shard writes to some of the open streams.
type shard struct {
	baseline *Server
	group    *group

	mu     sync.Mutex
	parts  []*part
	closed bool
}

// part is the streams of one group.
type part struct {
	group int
	conns []*h1conn
}

type h1conn struct {
	socket
	id   streamID
	rest []byte // of a message that was written in part
}

// add confirms a stream and adds it under one lock, so that it misses no event
// after its confirmation.
func (s *shard) add(nc net.Conn, a answer) {
	socket, err := newSocket(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = nc.Write(append([]byte(streamHead), chunked(active(a.id))...)) // into an empty socket
	}
	if err != nil || s.closed {
		nc.Close()
		return
	}
	i := slices.IndexFunc(s.parts, func(p *part) bool { return p.group == a.group })
	if i < 0 {
		i = len(s.parts)
		s.parts = append(s.parts, &part{group: a.group})
	}
	s.parts[i].conns = append(s.parts[i].conns, &h1conn{socket: socket, id: a.id})
	s.baseline.streams.Add(1)
	s.baseline.opened.Add(1)
}

func (s *shard) send(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case fr := <-s.group.work:
			s.broadcast(fr)
		}
	}
}

// broadcast writes one message to all streams of the shard, or of a group.
func (s *shard) broadcast(fr *frame) {
	b := chunked(fr.text)
	at := bytes.IndexByte(b, '\n') + 1
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if fr.group == everybody || p.group == fr.group {
			s.write(p, fr, b, at)
		}
	}
}

// write writes a message, which begins at offset at, to the streams of a part.
func (s *shard) write(p *part, fr *frame, b []byte, at int) {
	kept := p.conns[:0]
	written := 0
	for _, c := range p.conns {
		copy(b[at+fr.id:], c.id[:])
		if fr.sent >= 0 {
			stampNow(b[at+fr.sent : at+fr.sent+sentDigits])
		}
		took, err := c.push(b)
		if err != nil {
			c.nc.Close()
			s.baseline.streams.Add(-1)
			continue
		}
		kept = append(kept, c)
		if !took {
			s.baseline.skipped.Add(1)
		} else {
			written++
		}
	}
	clear(p.conns[len(kept):])
	p.conns = kept
	if fr.event {
		s.baseline.frames.Add(int64(written))
	}
}

// push writes what the socket accepts. It returns false if no byte of b was written.
func (c *h1conn) push(b []byte) (took bool, err error) {
	if len(c.rest) > 0 {
		n, err := c.try(c.rest)
		if c.rest = c.rest[n:]; err != nil || len(c.rest) > 0 {
			return false, err
		}
		c.rest = nil
	}
	n, err := c.try(b)
	if n > 0 && n < len(b) {
		c.rest = append([]byte(nil), b[n:]...)
	}
	return n > 0, err
}

func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.parts {
		for _, c := range p.conns {
			c.nc.Close()
		}
		s.baseline.streams.Add(-int64(len(p.conns)))
	}
	s.parts = nil
}
