package selfbench

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/eventmeter/eventmeter"
)

// framers is the baseline of streams over HTTP/2: golang.org/x/net's Framer reads
// frames, and DATA frames are counted. Their content is ignored.
type framers struct {
	base
	frames atomic.Int64 // DATA frames of all streams, confirmations included
	work   sync.WaitGroup
	conns  []net.Conn
}

// framerStreams is the number of streams that share a connection, as in the
// generator.
const framerStreams = 2000

// The windows need no refill for half a million events on a connection.
const (
	framerWindow = 1<<31 - 1
	framerRefill = 1 << 29
)

func newFramers(s spec, _ *eventmeter.Clock) (client, error) {
	return &framers{base: base{spec: s}}, nil
}

func (f *framers) open(ctx context.Context) error {
	for first := 0; first < f.spec.Streams; first += framerStreams {
		conn, err := connect(ctx, f.spec, first/framerStreams)
		if err != nil {
			return err
		}
		f.conns = append(f.conns, conn)
		fr := http2.NewFramer(conn, bufio.NewReaderSize(conn, 64<<10))
		fr.SetReuseFrames()
		var writing sync.Mutex
		if err := f.preface(conn, fr); err != nil {
			return err
		}
		f.work.Go(func() { f.read(fr, &writing) })
		if err := f.request(conn, &writing, min(framerStreams, f.spec.Streams-first)); err != nil {
			return err
		}
	}
	return f.confirm(ctx, &f.frames)
}

func (f *framers) preface(conn net.Conn, fr *http2.Framer) error {
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	if err := fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: framerWindow}); err != nil {
		return err
	}
	return fr.WriteWindowUpdate(0, framerWindow-65535)
}

// request opens streams on a connection, with all requests in one write.
func (f *framers) request(conn net.Conn, writing *sync.Mutex, n int) error {
	u, err := url.Parse(f.spec.URL)
	if err != nil {
		return err
	}
	var text, block bytes.Buffer
	fr := http2.NewFramer(&text, nil)
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSizeLimit(0)
	for i := range n {
		body := subscription(f.spec, i)
		block.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":authority", u.Host}, {":path", u.Path},
			{"content-type", "application/json"}, {"content-length", strconv.Itoa(len(body))}, {"accept", "application/json, text/event-stream"},
			{"mcp-protocol-version", revision}, {"mcp-method", "events/stream"},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // into memory
		}
		id := uint32(2*i + 1)
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = fr.WriteData(id, true, body)
	}
	writing.Lock()
	defer writing.Unlock()
	_, err = conn.Write(text.Bytes())
	return err
}

// read counts DATA frames and keeps the connection alive until it ends.
func (f *framers) read(fr *http2.Framer, writing *sync.Mutex) {
	control := func(write func() error) {
		writing.Lock()
		defer writing.Unlock()
		_ = write() // ReadFrame fails, too
	}
	taken := 0
	for {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			f.frames.Add(1)
			if taken += int(frame.Length); taken >= framerRefill {
				n := uint32(taken)
				taken = 0
				control(func() error { return fr.WriteWindowUpdate(0, n) })
			}
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				control(fr.WriteSettingsAck)
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				data := frame.Data
				control(func() error { return fr.WritePing(true, data) })
			}
		}
	}
}

// received leaves out the frame that confirms each stream.
func (f *framers) received() int64 { return f.frames.Load() - int64(f.spec.Streams) }

func (f *framers) close(context.Context) error {
	for _, c := range f.conns {
		c.Close()
	}
	f.work.Wait()
	return nil
}
