package streamclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// ErrRefusedStream is wrapped by the error of a stream whose request the server
// certainly did not process: it is safe to repeat.
var ErrRefusedStream = errors.New("the server did not process the request")

// ResetError is the error of a stream that the server reset.
type ResetError struct{ Code http2.ErrCode }

func (e *ResetError) Error() string { return "the server reset the stream: " + e.Code.String() }

// RuleError describes how a server violated HTTP/2 (RFC 9113). It ends all streams
// of the connection, or one stream where that is sufficient.
type RuleError struct {
	Code   http2.ErrCode // sent to the server
	Reason string
}

func (e *RuleError) Error() string {
	return "the server broke the rules of HTTP/2: " + e.Reason + " (" + e.Code.String() + ")"
}

// h2Limits are the limits of an HTTP/2 client. Only tests change them.
type h2Limits struct {
	// streams bounds the streams of one connection, below what the server
	// allows: one TCP connection is read by one goroutine, and a segment that
	// is lost holds up every stream of its connection.
	streams int
	// window is how many bytes a server may send on a stream before we grant it
	// more, connWindow on a connection. Sinks do not block and nothing is buffered,
	// so wide windows cost nothing and make refills rare.
	window, connWindow int64
	// headerList bounds an answer's header list, in bytes as RFC 9113 counts them.
	headerList uint32
	// If nothing was read from a connection for pingAfter, a PING is sent. If
	// nothing comes within pingTimeout, the connection is given up.
	pingAfter, pingTimeout time.Duration
	// dials bounds how many connections are being opened at once.
	dials int
}

var h2Defaults = h2Limits{
	streams: 2000, window: 16 << 20, connWindow: 1 << 30, headerList: 64 << 10,
	pingAfter: 30 * time.Second, pingTimeout: 15 * time.Second, dials: 4,
}

// h2Client spreads streams over HTTP/2 connections.
//
// Locks are taken in this order: a stream's, the client's, a connection's.
type h2Client struct {
	opts   Options
	limits h2Limits
	scheme string
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
	writes sync.Pool // *[]byte, for writers

	mu        sync.Mutex
	closed    bool
	conns     map[*h2Conn]struct{} // open ones
	roomy     []*h2Conn            // those of conns that may have room
	waiting   []*h2Stream          // for a connection
	dials     int                  // under way
	room      int                  // of the last connection: an estimate for the next
	dialed    int                  // so far, to take LocalIPs in turn
	ending    []ending             // for notify
	notifying bool                 // notify is running
}

// ending is the end of a stream that its sink does not know yet.
type ending struct {
	s   *h2Stream
	err error
	// unopened is true if a stream that has been opened meanwhile must not end.
	unopened bool
}

// NewHTTP2 returns a client that multiplexes streams over HTTP/2: over TLS where
// Options.TLS is set (the server has to choose h2), else as plain text with
// prior knowledge. Connections are opened on demand, and take no more streams
// than the server allows.
//
// A stream that the server has not processed ends with [ErrRefusedStream]; one
// that it reset ends with a [ResetError].
func NewHTTP2(o Options) (Client, error) {
	if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		return nil, fmt.Errorf("http/2 client: address %q: want host:port: %w", o.Addr, err)
	}
	return newH2(o, h2Defaults), nil
}

func newH2(o Options, l h2Limits) *h2Client {
	if o.Now == nil {
		began := time.Now()
		o.Now = func() int64 { return int64(time.Since(began)) }
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if n := o.StreamsPerConnection; n > 0 {
		l.streams = min(l.streams, n)
	}
	p := &h2Client{opts: o, limits: l, scheme: "http", conns: map[*h2Conn]struct{}{}, room: l.streams}
	if o.TLS != nil {
		p.scheme = "https"
	}
	p.writes.New = func() any { b := make([]byte, 0, 4<<10); return &b }
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Open implements Client. On a closed client it calls the sink's Closed before it
// returns.
func (p *h2Client) Open(ctx context.Context, r Request, sink Sink) Stream {
	s := &h2Stream{client: p, sink: sink, req: &r, left: -1}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		s.tell(ErrClosed, false)
		return s
	}
	if !p.place(s) {
		p.waiting = append(p.waiting, s)
		p.dial()
	}
	p.mu.Unlock()
	if ctx.Done() != nil {
		s.watch(ctx)
	}
	return s
}

// place adds a stream to a connection that has room, if there is one. The caller
// holds p.mu.
func (p *h2Client) place(s *h2Stream) bool {
	for n := len(p.roomy); n > 0; n = len(p.roomy) {
		c := p.roomy[n-1]
		if c.take(s) {
			return true
		}
		c.listed = false
		p.roomy[n-1] = nil
		p.roomy = p.roomy[:n-1]
	}
	return false
}

// dial opens as many connections as the waiting streams seem to need. The caller
// holds p.mu.
func (p *h2Client) dial() {
	for !p.closed && p.dials < p.limits.dials && p.dials*p.room < len(p.waiting) {
		p.dials++
		turn := p.dialed
		p.dialed++
		p.work.Go(func() {
			defer crash.Guard()
			p.connect(turn)
		})
	}
}

// freed notes that a connection may have room again.
func (p *h2Client) freed(c *h2Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offer(c)
}

// offer lists a connection and gives it waiting streams. The caller holds p.mu.
func (p *h2Client) offer(c *h2Conn) {
	if !c.listed {
		c.listed = true
		p.roomy = append(p.roomy, c)
	}
	placed := 0
	for _, s := range p.waiting {
		if !s.over.Load() && !p.place(s) {
			break
		}
		p.waiting[placed] = nil
		placed++
	}
	if p.waiting = p.waiting[placed:]; len(p.waiting) == 0 {
		p.waiting = nil // its memory is not needed again soon
	}
}

// ready notes a connection that has received the server's settings and has room
// for room streams.
func (p *h2Client) ready(c *h2Conn, room int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials--
	p.room = max(room, 1)
	p.offer(c)
	p.dial()
}

// unready notes that a connection failed. If no other is being opened, the waiting
// streams fail.
func (p *h2Client) unready(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials--
	if p.dials > 0 {
		return
	}
	if p.closed {
		err = ErrClosed
	} else {
		err = fmt.Errorf("connecting to %s: %w", p.opts.Addr, err)
	}
	for _, s := range p.waiting {
		p.finish(ending{s: s, err: err})
	}
	p.waiting = nil
}

// finish reports the end of a stream to its sink, on a goroutine that holds no
// lock. The caller holds p.mu.
func (p *h2Client) finish(e ending) {
	p.ending = append(p.ending, e)
	if !p.notifying {
		p.notifying = true
		p.work.Go(crash.Guarded(p.notify))
	}
}

// notify reports the ends of streams until there are none left.
func (p *h2Client) notify() {
	for {
		p.mu.Lock()
		batch := p.ending
		p.ending = nil
		if len(batch) == 0 {
			p.notifying = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		for _, e := range batch {
			if !e.s.tell(e.err, e.unopened) {
				continue
			}
			p.mu.Lock()
			c := e.s.conn
			p.mu.Unlock()
			if c != nil {
				c.drop(e.s, http2.ErrCodeCancel)
			}
		}
	}
}

// Close implements Client. It sends GOAWAY on each connection that accepts it at
// once. A Sink must not call it.
func (p *h2Client) Close() error {
	p.mu.Lock()
	p.closed = true
	p.end()
	for _, s := range p.waiting {
		p.finish(ending{s: s, err: ErrClosed})
	}
	p.waiting = nil
	conns := make([]*h2Conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.fail(ErrClosed)
	}
	p.work.Wait()
	return nil
}
