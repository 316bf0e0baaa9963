//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"unsafe"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Conn is the server's end of an HTTP/2 connection.
type h2Conn struct {
	net.Conn
	mu     sync.Mutex // of writes
	framer *http2.Framer
}

// h2Answerer answers a request on one HTTP/2 stream.
type h2Answerer func(c *h2Conn, stream uint32, x *exchange)

// serveH2 serves an HTTP/2 connection without TLS.
func (s *server) serveH2(conn net.Conn, r *bufio.Reader) {
	if _, err := io.CopyN(io.Discard, r, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	c := &h2Conn{Conn: conn, framer: http2.NewFramer(conn, r)}
	if c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1000}) != nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer conn.Close()
	bodies := map[uint32][]byte{}
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.write(func() error { return c.framer.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.write(func() error { return c.framer.WritePing(true, f.Data) })
			}
		case *http2.DataFrame:
			id := f.StreamID
			bodies[id] = append(bodies[id], f.Data()...)
			if !f.StreamEnded() {
				continue
			}
			x := &exchange{Conn: conn, done: s.done}
			x.read(bodies[id])
			delete(bodies, id)
			work.Go(func() { s.answerH2(c, id, x) })
		}
	}
}

func (s *server) answerH2(c *h2Conn, id uint32, x *exchange) {
	s.mu.Lock()
	s.requestCount[x.method]++
	again := s.requestCount[x.method] > 2*s.streams
	s.mu.Unlock()
	if a := s.h2[x.method]; a != nil && !again {
		a(c, id, x)
		return
	}
	if text := goodAnswer(x); text != "" {
		c.head(id, "application/json", true)
		c.data(id, []byte(text), true)
		return
	}
	c.head(id, "text/event-stream", true)
	c.data(id, []byte(x.active()), false)
}

// write writes one frame. It returns false if the client has gone.
func (c *h2Conn) write(frame func() error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frame() == nil
}

// head begins an answer; whole says that no CONTINUATION follows.
func (c *h2Conn) head(id uint32, kind string, whole bool) bool {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":status", "200"}, {"content-type", kind}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
	}
	return c.write(func() error {
		return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: whole})
	})
}

func (c *h2Conn) data(id uint32, b []byte, end bool) bool {
	for {
		n := min(len(b), 16<<10)
		if !c.write(func() error { return c.framer.WriteData(id, end && n == len(b), b[:n]) }) {
			return false
		}
		if b = b[n:]; len(b) == 0 {
			return true
		}
	}
}

// pad writes n bytes of a text, a mebibyte of frames at a time. The framer would copy each.
func (c *h2Conn) pad(id uint32, n int) bool {
	const most = 16 << 10
	for n > 0 {
		var pieces net.Buffers
		for ; n > 0 && len(pieces) < 2*64; n -= most {
			size := min(n, most)
			head := binary.BigEndian.AppendUint32(nil, uint32(size)<<8|uint32(http2.FrameData))
			pieces = append(pieces, binary.BigEndian.AppendUint32(append(head, 0), id), unsafe.Slice(unsafe.StringData(padding), size))
		}
		if !c.write(func() error {
			_, err := pieces.WriteTo(c.Conn)
			return err
		}) {
			return false
		}
	}
	return true
}

// repeat writes a frame the given number of times, or until the client has
// gone.
func (c *h2Conn) repeat(times int, frame func() error) {
	for range times {
		if !c.write(frame) {
			return
		}
	}
}
