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
	"sync/atomic"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// readers is the baseline of streams over HTTP/1.1 with portable means: a
// goroutine and a 4 KiB reader for each socket, which only scans what comes for
// the prefix of a probe id.
type readers struct {
	bare
	errors *errorMeter // nil when the error is not measured
	work   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// bare is what clients without a ledger share.
type bare struct {
	spec spec
	seen atomic.Int64
	silent
}

func (b *bare) received() int64               { return b.seen.Load() }
func (b *bare) recorder() eventmeter.Recorder { return b.silent }
func (b *bare) finish(*outcome)               {}

// probe begins every probe id.
var probe = []byte("evtm-")

func newReaders(s spec, clock *eventmeter.Clock) (client, error) {
	r := &readers{bare: bare{spec: s}}
	if s.Error {
		r.errors = newErrorMeter(clock)
	}
	return r, nil
}

func (r *readers) begin() {
	if r.errors != nil {
		r.errors.paced.Store(true)
	}
}

func (r *readers) finish(o *outcome) {
	if r.errors != nil {
		o.Error = r.errors.quantiles()
	}
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
		case <-confirmed: // somebody's; in the end there is one for each
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return err
}

// read reads one stream line by line until its end. A read may end anywhere,
// so lines are what is scanned. The time of a line, where it is wanted, is that
// of its end's reading.
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
	if r.errors != nil {
		r.errors.close()
	}
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

// revision is of requests without a session.
const revision = "2026-07-28"

// subscription is the body of a request for a stream.
func subscription(s spec, i int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(i+1) + `,"method":"events/stream","params":{"name":"` + eventName +
		`","arguments":` + s.arguments(i) + `,"cursor":null,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision +
		`","io.modelcontextprotocol/clientInfo":{"name":"eventbench","version":"0.1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
}

// streamRequest asks for a stream over HTTP/1.1.
func streamRequest(s spec, i int) []byte {
	body := subscription(s, i)
	u, _ := url.Parse(s.URL) // it was parsed for the connection
	return append([]byte("POST "+u.Path+" HTTP/1.1\r\nHost: "+u.Host+"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: "+revision+"\r\nMcp-Method: events/stream\r\nContent-Length: "+
		strconv.Itoa(len(body))+"\r\n\r\n"), body...)
}
