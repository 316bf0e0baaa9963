//go:build unix

package baseline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// chunk is the size of a write. The frames of a write share a send time.
const chunk = 64 << 10

// ServeHTTP2 serves HTTP/2 on a listener until ctx ends, and closes it. The
// caller also runs [Server.Run]. It answers HTTP/1.1 on connections that begin
// with it, because clients send their first requests that way. It closes a
// connection when a stream is requested over HTTP/1.1.
func (f *Server) ServeHTTP2(ctx context.Context, ln net.Listener) error {
	return f.accept(ctx, ln, func(ctx context.Context, nc net.Conn) {
		defer nc.Close()
		c := &h2conn{
			baseline: f,
			nc:       nc,
			out:      bufio.NewWriterSize(nc, chunk),
			bodies:   map[uint32][]byte{},
			window:   65535,
			initial:  65535,
			maxFrame: 16 << 10,
		}
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		defer stop()
		c.serve()
	})
}

// accept runs serve on every connection and waits for all of them.
func (f *Server) accept(ctx context.Context, ln net.Listener, serve func(context.Context, net.Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		nc, err := ln.Accept()
		if err != nil {
			cancel()
			if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		conns.Go(func() { serve(ctx, nc) })
	}
}

// maxStreams is the limit of open streams on an HTTP/2 connection.
const maxStreams = 250_000

// h2conn is one connection: one goroutine reads and answers, a second one sends
// events. Header blocks are not decoded, because nothing depends on them.
type h2conn struct {
	baseline *Server
	nc       net.Conn
	bodies   map[uint32][]byte // of requests under way

	mu       sync.Mutex
	out      *bufio.Writer // mu, for whole frames
	open     []h2stream    // by rising id
	window   int64
	initial  int64
	maxFrame int
}

type h2stream struct {
	id    uint32
	delta int32 // send window minus the initial window
	group int32
	name  streamID // in messages
}

func (c *h2conn) serve() {
	in := bufio.NewReaderSize(c.nc, 16<<10)
	if begin, err := in.Peek(4); err != nil || string(begin) != http2.ClientPreface[:4] {
		c.baseline.requests(c.nc, in)
		return
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(in, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	fr := http2.NewFramer(nil, in)
	fr.SetReuseFrames()
	c.control(func(w *http2.Framer) error {
		return w.WriteSettings(
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
			http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	})
	g := c.baseline.join()
	var sending sync.WaitGroup
	over := make(chan struct{})
	sending.Go(func() { c.send(g, over) })
	for {
		f, err := fr.ReadFrame()
		if err == nil {
			err = c.take(f)
		}
		if err == nil && in.Buffered() == 0 {
			err = c.flush()
		}
		if err != nil {
			break
		}
	}
	c.baseline.leave(g)
	close(over)
	c.nc.Close() // the sender may be blocked in a write
	sending.Wait()
	c.baseline.streams.Add(-int64(len(c.open)))
}

// control writes with a Framer into the connection's buffer.
func (c *h2conn) control(f func(*http2.Framer) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = f(http2.NewFramer(c.out, nil)) // the buffer keeps the error until it is flushed
}

func (c *h2conn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Flush()
}

var errClosing = errors.New("the client closes the connection")

func (c *h2conn) take(f http2.Frame) error {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.HeadersFrame:
		c.bodies[id] = nil
		if f.StreamEnded() {
			c.request(id)
		}
	case *http2.DataFrame:
		if len(c.bodies[id])+len(f.Data()) > maxBody {
			return errClosing
		}
		c.bodies[id] = append(c.bodies[id], f.Data()...)
		c.control(func(w *http2.Framer) error {
			if f.Length == 0 {
				return nil
			}
			return errors.Join(w.WriteWindowUpdate(0, f.Length), w.WriteWindowUpdate(id, f.Length))
		})
		if f.StreamEnded() {
			c.request(id)
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.settings(f)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			c.control(func(w *http2.Framer) error { return w.WritePing(true, f.Data) })
		}
	case *http2.WindowUpdateFrame:
		c.widen(id, f.Increment)
	case *http2.RSTStreamFrame:
		delete(c.bodies, id)
		c.forget(id)
	case *http2.GoAwayFrame:
		return errClosing
	}
	return nil
}

func (c *h2conn) settings(f *http2.SettingsFrame) {
	c.mu.Lock()
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		c.initial = int64(v)
	}
	if v, ok := f.Value(http2.SettingMaxFrameSize); ok {
		c.maxFrame = int(v)
	}
	c.mu.Unlock()
	c.control(func(w *http2.Framer) error { return w.WriteSettingsAck() })
}

func (c *h2conn) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(c.open, id, func(s h2stream, id uint32) int { return int(int64(s.id) - int64(id)) })
}

func (c *h2conn) widen(id, n uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 {
		c.window += int64(n)
	} else if i, ok := c.find(id); ok {
		c.open[i].delta += int32(n)
	}
}

func (c *h2conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.find(id); ok {
		if i == 0 { // clients close many streams in the order of their ids
			c.open = c.open[1:]
		} else {
			c.open = slices.Delete(c.open, i, i+1)
		}
		c.baseline.streams.Add(-1)
	}
}

// request answers a request that is complete.
func (c *h2conn) request(id uint32) {
	a := c.baseline.answer(c.bodies[id])
	delete(c.bodies, id)
	kind, body := "application/json", a.body
	if a.stream {
		kind, body = "text/event-stream", active(a.id)
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSizeLimit(0)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(a.status)}) // into memory
	_ = e.WriteField(hpack.HeaderField{Name: "content-type", Value: kind})
	c.mu.Lock()
	defer c.mu.Unlock()
	w := http2.NewFramer(c.out, nil)
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
	_ = w.WriteData(id, !a.stream, body)
	c.window -= int64(len(body))
	if !a.stream {
		return
	}
	s := h2stream{id: id, delta: -int32(len(body)), group: int32(a.group), name: a.id}
	i, _ := c.find(id)
	c.open = slices.Insert(c.open, i, s)
	c.baseline.streams.Add(1)
	c.baseline.opened.Add(1)
}

// send writes events to all streams of the connection.
func (c *h2conn) send(g *group, over <-chan struct{}) {
	buf := make([]byte, 0, chunk+16<<10)
	for {
		select {
		case <-over:
			return
		case fr := <-g.work:
			for next := uint32(0); ; {
				var err error
				if buf, next, err = c.part(buf[:0], fr, next); err != nil {
					return // the reader fails, too
				}
				if next == 0 {
					break
				}
			}
		}
	}
}

// part writes a message to streams, beginning with an id, until a chunk is full.
// It returns the id to continue with, 0 at the end.
func (c *h2conn) part(buf []byte, fr *frame, from uint32) ([]byte, uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := int64(len(fr.text))
	i, _ := c.find(from)
	var now [sentDigits]byte
	stampNow(now[:])
	n := 0
	for ; i < len(c.open) && len(buf) < chunk && (c.baseline.opts.Batch == 0 || n < c.baseline.opts.Batch); i++ {
		s := &c.open[i]
		if fr.group != everybody && int(s.group) != fr.group {
			continue
		}
		if c.window < size || c.initial+int64(s.delta) < size || len(fr.text) > c.maxFrame {
			c.baseline.skipped.Add(1)
			continue
		}
		c.window -= size
		s.delta -= int32(size)
		buf = append(buf, byte(size>>16), byte(size>>8), byte(size), byte(http2.FrameData), 0)
		buf = binary.BigEndian.AppendUint32(buf, s.id)
		begin := len(buf)
		buf = append(buf, fr.text...)
		copy(buf[begin+fr.id:], s.name[:])
		if fr.sent >= 0 {
			copy(buf[begin+fr.sent:], now[:])
		}
		n++
	}
	next := uint32(0)
	if i < len(c.open) {
		next = c.open[i].id
	}
	if err := c.out.Flush(); err != nil {
		return buf, 0, err
	}
	if len(buf) > 0 {
		if _, err := c.nc.Write(buf); err != nil {
			return buf, 0, err
		}
	}
	if fr.event {
		c.baseline.frames.Add(int64(n))
	}
	return buf, next, nil
}
