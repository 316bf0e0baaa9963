package selfbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// readers is the portable baseline of streams over HTTP/1.1: a goroutine and a
// 4 KiB reader for each socket, which scans lines for the prefix of probe ids.
type readers struct {
	base
	work sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// probe is the prefix of every probe id.
var probe = []byte("evtm-")

func newReaders(s spec, clock *eventmeter.Clock) (client, error) {
	r := &readers{base: base{spec: s}}
	if s.Error {
		r.errors = newErrorMeter(clock)
	}
	return r, nil
}

func (r *readers) open(ctx context.Context) error {
	confirmed := make(chan struct{}, r.spec.Streams)
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: r.spec.Streams, Concurrency: opening}, func(ctx context.Context, i int) error {
		conn, err := connect(ctx, r.spec, i)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.conns = append(r.conns, conn)
		r.mu.Unlock()
		if _, err := conn.Write(streamRequest(r.spec, i)); err != nil {
			return err
		}
		r.work.Go(func() { r.read(i, conn, confirmed) })
		select {
		case <-confirmed: // perhaps of another stream; each stream sends one
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return err
}

// read reads one stream line by line until its end. The time of a line is the
// time at which its end was read.
func (r *readers) read(i int, conn net.Conn, confirmed chan<- struct{}) {
	in := bufio.NewReaderSize(conn, 4<<10)
	open := false
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case bytes.Contains(line, probe):
			if r.errors != nil {
				r.errors.observe(i, r.errors.clock.Now(), line)
			}
			r.seen.Add(1)
		case !open && bytes.Contains(line, activeMethod):
			open = true
			confirmed <- struct{}{}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (r *readers) close(context.Context) error {
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
	r.closeErrors()
	return nil
}

var activeMethod = []byte("events/active")

// connect opens connection i to a target.
func connect(ctx context.Context, s spec, i int) (net.Conn, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	if from := locals(s.Local); len(from) > 0 {
		d.LocalAddr = &net.TCPAddr{IP: from[i%len(from)].AsSlice()}
	}
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("stream %d: %w", i, err)
	}
	return conn, nil
}

// revision is the protocol revision of requests without a session.
const revision = "2026-07-28"

// subscription is the body of a request that opens a stream.
func subscription(s spec, i int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"events/stream","params":{"name":"` + eventName +
		`","arguments":` + s.arguments(i) + `,"cursor":null,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision +
		`","io.modelcontextprotocol/clientInfo":{"name":"eventbench","version":"0.1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
}

// streamRequest is the HTTP/1.1 request that opens a stream.
func streamRequest(s spec, i int) []byte {
	body := subscription(s, i)
	u, _ := url.Parse(s.URL) // connect has parsed it
	return append(
		[]byte(
			"POST "+u.Path+" HTTP/1.1\r\nHost: "+u.Host+"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: "+revision+"\r\nMcp-Method: events/stream\r\nContent-Length: "+
				strconv.Itoa(
					len(body),
				)+"\r\n\r\n",
		),
		body...)
}
