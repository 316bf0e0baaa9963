//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

const (
	// probe is the beginning of every probe id.
	probe = "evtm-"
	// activeMethod is in the message that confirms a stream.
	activeMethod = "events/active"
	// revision is the protocol revision of requests without a session.
	revision = "2026-07-28"
	// clientMeta ends the params of a request.
	clientMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision +
		`","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0.1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// subscription is the body of a request that opens a stream.
func subscription(s *spec, i int) string {
	return `{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"events/stream","params":{"name":"` + eventName +
		`","arguments":` + s.arguments(i) + `,"cursor":null,` + clientMeta
}

// requestHead is an HTTP/1.1 request until the number of bytes of its body.
func requestHead(u *url.URL, method string) string {
	return "POST " + u.Path + " HTTP/1.1\r\nHost: " + u.Host + "\r\nAuthorization: Bearer " + token +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: " + revision +
		"\r\nMcp-Method: " + method + "\r\nContent-Length: "
}

// streamRequest is the HTTP/1.1 request that opens a stream.
func streamRequest(s *spec, u *url.URL, i int) []byte {
	body := subscription(s, i)
	return []byte(requestHead(u, "events/stream") + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// readers is the portable reference client of streams over HTTP/1.1: a goroutine and a 4 KiB reader for
// each socket, which scans lines for the beginning of probe ids.
type readers struct {
	base
	errors *errorMeter // nil when the error is not measured
	work   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newReaders(s spec, clock *eventmeter.Clock) (client, error) {
	return &readers{base: base{spec: s}, errors: newErrorMeter(s, clock)}, nil
}

func (r *readers) open(ctx context.Context) error {
	u, err := url.Parse(r.spec.URL)
	if err != nil {
		return err
	}
	confirmed := make(chan struct{}, r.spec.Streams)
	_, err = loadgen.Attach(
		ctx,
		loadgen.AttachOptions{N: r.spec.Streams, Concurrency: opening},
		func(ctx context.Context, i int) error {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", u.Host)
			if err != nil {
				return err
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
			if _, err := conn.Write(streamRequest(&r.spec, u, i)); err != nil {
				return err
			}
			r.work.Go(func() { r.read(i, conn, confirmed) })
			select {
			case <-confirmed: // perhaps of another stream; each stream sends one
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	)
	return err
}

// read reads one stream line by line until its end. The time of a line is when its end was read.
func (r *readers) read(i int, conn net.Conn, confirmed chan<- struct{}) {
	in := bufio.NewReaderSize(conn, 4<<10)
	open := false
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case bytes.Contains(line, []byte(probe)):
			if r.errors != nil {
				r.errors.observe(i, r.errors.clock.Now(), line)
			}
			r.seen.Add(1)
		case !open && bytes.Contains(line, []byte(activeMethod)):
			open = true
			confirmed <- struct{}{}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (r *readers) begin() { r.errors.begin() }

func (r *readers) finish(o *outcome) { r.errors.report(o) }

func (r *readers) close(context.Context) error {
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
	r.errors.close()
	return nil
}

// epoll is the smallest reference client of streams over HTTP/1.1: bare sockets, and for each processor
// an epoll loop with one buffer, which is searched for the beginning of probe ids. Nothing is kept
// between reads; frames are written whole, so none is split.
type epoll struct {
	base
	confirmed atomic.Int64
	loops     []*loop
	work      sync.WaitGroup
	over      atomic.Bool
}

func newEpoll(s spec, _ *eventmeter.Clock) (client, error) {
	e := &epoll{base: base{spec: s}}
	for range runtime.GOMAXPROCS(0) {
		l, err := newLoop()
		if err != nil {
			return nil, err
		}
		e.loops = append(e.loops, l)
		e.work.Go(func() { e.run(l) })
	}
	return e, nil
}

// open opens one stream after the other.
func (e *epoll) open(ctx context.Context) error {
	u, err := url.Parse(e.spec.URL)
	if err != nil {
		return err
	}
	for i := range e.spec.Streams {
		fd, err := dial(u.Host)
		if err != nil {
			return err
		}
		if _, err := unix.Write(fd, streamRequest(&e.spec, u, i)); err != nil {
			return err
		}
		if err := e.loops[i%len(e.loops)].add(fd); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return e.confirm(ctx, &e.confirmed)
}

func (e *epoll) run(l *loop) {
	buf := make([]byte, 64<<10)
	for !e.over.Load() {
		l.each(1000, func(fd int) {
			n, err := unix.Read(fd, buf)
			if n <= 0 {
				if !errors.Is(err, unix.EAGAIN) { // the stream has ended
					_ = unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, fd, nil)
				}
				return
			}
			if seen := bytes.Count(buf[:n], []byte(probe)); seen > 0 {
				e.seen.Add(int64(seen))
			} else if bytes.Contains(buf[:n], []byte(activeMethod)) {
				e.confirmed.Add(1)
			}
		})
	}
}

func (e *epoll) close(context.Context) error {
	e.over.Store(true)
	e.work.Wait()
	for _, l := range e.loops {
		l.close()
	}
	return nil
}

// loop is an epoll instance and its sockets.
type loop struct {
	fd     int
	conns  []int
	events []unix.EpollEvent
}

func newLoop() (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &loop{fd: fd, events: make([]unix.EpollEvent, 512)}, nil
}

// add makes a socket nonblocking and watches it.
func (l *loop) add(fd int) error {
	l.conns = append(l.conns, fd)
	return errors.Join(unix.SetNonblock(fd, true),
		unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// each waits some milliseconds for sockets that can be read.
func (l *loop) each(timeout int, do func(fd int)) {
	n, _ := unix.EpollWait(l.fd, l.events, timeout) // an interrupt is like the end of the wait
	for _, ev := range l.events[:max(n, 0)] {
		do(int(ev.Fd))
	}
}

func (l *loop) close() {
	for _, fd := range append(l.conns, l.fd) {
		_ = unix.Close(fd) // nothing is written any more
	}
}

// dial opens a blocking socket to an IPv4 address and port.
func dial(host string) (int, error) {
	addr, err := net.ResolveTCPAddr("tcp4", host)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}); err != nil {
		_ = unix.Close(fd) // the connection has failed
		return 0, fmt.Errorf("connecting to %s: %w", host, err)
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// framers is the reference client of streams over HTTP/2: golang.org/x/net's Framer reads frames, and
// DATA frames are counted. Their content is ignored.
type framers struct {
	base
	frames atomic.Int64 // DATA frames of all streams, confirmations included
	work   sync.WaitGroup
	conns  []net.Conn
}

const (
	// framerStreams is the number of streams on a connection, as in the generator.
	framerStreams = 2000
	// The windows need no refill for half a million events on a connection.
	framerWindow = 1<<31 - 1
	framerRefill = 1 << 29
)

func newFramers(s spec, _ *eventmeter.Clock) (client, error) {
	return &framers{base: base{spec: s}}, nil
}

func (f *framers) open(ctx context.Context) error {
	u, err := url.Parse(f.spec.URL)
	if err != nil {
		return err
	}
	for first := 0; first < f.spec.Streams; first += framerStreams {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return err
		}
		f.conns = append(f.conns, conn)
		fr := http2.NewFramer(conn, bufio.NewReaderSize(conn, 64<<10))
		fr.SetReuseFrames()
		if _, err := conn.Write(f.requests(u, min(framerStreams, f.spec.Streams-first))); err != nil {
			return err
		}
		f.work.Go(func() { f.read(fr) })
	}
	return f.confirm(ctx, &f.frames)
}

// requests opens a connection and n streams on it.
func (f *framers) requests(u *url.URL, n int) []byte {
	text := bytes.NewBufferString(http2.ClientPreface)
	var block bytes.Buffer
	fr := http2.NewFramer(text, nil)
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSizeLimit(0)
	// Nothing below fails: it writes into memory.
	_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: framerWindow})
	_ = fr.WriteWindowUpdate(0, framerWindow-65535)
	for i := range n {
		body := subscription(&f.spec, i)
		block.Reset()
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":authority", u.Host}, {":path", u.Path}, {"authorization", "Bearer " + token},
			{"content-type", "application/json"}, {"content-length", strconv.Itoa(len(body))},
			{"accept", "application/json, text/event-stream"}, {"mcp-protocol-version", revision}, {"mcp-method", "events/stream"},
		} {
			_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		id := uint32(2*i + 1)
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		_ = fr.WriteData(id, true, []byte(body))
	}
	return text.Bytes()
}

// read counts DATA frames and keeps the connection alive until it ends. A failed write ends it, too.
func (f *framers) read(fr *http2.Framer) {
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
				_ = fr.WriteWindowUpdate(0, uint32(taken))
				taken = 0
			}
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = fr.WritePing(true, frame.Data)
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

// callOf is a JSON-RPC request in two parts, between which its cursor stands.
func callOf(method, params string) (before, after string) {
	before, after, _ = strings.Cut(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"`+eventName+
		`","arguments":{},`+params+`"cursor":|,`+clientMeta, "|")
	return before, after
}
