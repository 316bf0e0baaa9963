package streamclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// portable is a client with a goroutine and a small buffer for each stream. It
// works everywhere, and over TLS.
type portable struct {
	opts   Options
	nextIP atomic.Uint32
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // held while work may grow
	closed bool
}

// portableBuffer is the size of a stream's buffer. Most events fit.
const portableBuffer = 1 << 10

var portableBuffers = sync.Pool{New: func() any { b := make([]byte, portableBuffer); return &b }}

// NewPortable returns a client that uses nothing but package net: a goroutine
// and a small buffer for each stream. It has no kernel times.
func NewPortable(o Options) (Client, error) {
	if _, err := newResolver(o.Addr); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	p := &portable{opts: withDefaults(o)}
	p.life, p.end = context.WithCancel(context.Background())
	return p, nil
}

// line is one stream of a portable client.
type line struct {
	client *portable
	sink   Sink
	answer

	mu   sync.Mutex
	conn net.Conn
	why  error // the error of Closed, once an end was requested
	stop context.CancelFunc
	// until is when a held stream is read again; zero = not held. ended is closed
	// when an end is requested.
	until time.Time
	ended chan struct{}
}

// Open implements Client.
func (p *portable) Open(ctx context.Context, r Request, s Sink) Stream {
	dial, stop := context.WithTimeout(ctx, p.opts.ConnectTimeout)
	c := &line{client: p, sink: s, stop: stop, ended: make(chan struct{})}
	c.bodiless, c.hold = r.Method == http.MethodHead, budget.Of(p.opts.Budget)
	p.mu.Lock()
	if !p.closed {
		p.work.Go(func() {
			defer crash.Guard()
			defer stop()
			err := c.run(ctx, dial, &r)
			c.mu.Lock()
			if c.why != nil {
				err = c.why
			}
			c.conn = nil
			c.mu.Unlock()
			c.drop()
			c.sink.Closed(err)
		})
		p.mu.Unlock()
		return c
	}
	p.mu.Unlock()
	stop()
	s.Closed(ErrClosed)
	return c
}

// Close implements Stream.
func (c *line) Close() { c.giveUp(ErrClosed) }

func (c *line) giveUp(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
		close(c.ended)
	}
	c.stop()
	if c.conn != nil {
		// Not Close: Close of a TLS connection waits for the other side.
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	}
}

// Hold implements Stream. A read that is under way returns at most one buffer,
// which is held, too.
func (c *line) Hold(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.IsZero() {
		c.until = time.Now().Add(d)
	}
}

// wait waits while the stream is held. It reports whether the stream was held.
func (c *line) wait() bool {
	c.mu.Lock()
	until := c.until
	c.mu.Unlock()
	if until.IsZero() {
		return false
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ended:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
	return true
}

// take stores the connection, so that giveUp can close it; false if the stream was
// already given up.
func (c *line) take(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	return c.why == nil
}

// run opens the stream and reads it to its end.
func (c *line) run(ctx, dial context.Context, r *Request) error {
	p := c.client
	quit := context.AfterFunc(p.life, func() {
		defer crash.Guard()
		c.giveUp(ErrClosed)
	})
	defer quit()
	conn, err := p.dial(dial)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	defer conn.Close()
	if !c.take(conn) {
		return ErrClosed
	}
	late := context.AfterFunc(ctx, func() {
		defer crash.Guard()
		c.giveUp(ctx.Err())
	})
	opened := func() {
		late()
		c.stop()
	}
	defer opened()
	if t, ok := conn.(*tls.Conn); ok {
		if err := t.HandshakeContext(dial); err != nil {
			return fmt.Errorf("handshake with %s: %w", p.opts.Addr, err)
		}
	}
	if _, err := conn.Write(appendRequest(nil, r, p.opts.Host)); err != nil {
		// The server may have answered all the same.
		if got := c.read(conn, opened); !errors.Is(got, io.ErrUnexpectedEOF) {
			return got
		}
		return fmt.Errorf("write: %w", err)
	}
	*r = Request{}
	return c.read(conn, opened)
}

// headFirst is a sink that ends the opening of its stream before it hears of the head.
type headFirst struct {
	Sink
	opened func()
}

func (o *headFirst) Opened(h Head, at Arrival) error {
	o.opened()
	return o.Sink.Opened(h, at)
}

// read reads the answer to its end. opened is called once the head was read.
func (c *line) read(conn net.Conn, opened func()) error {
	sink := &headFirst{c.sink, opened}
	buf := portableBuffers.Get().(*[]byte)
	defer portableBuffers.Put(buf)
	late := false // the bytes waited because of Hold
	for {
		n, err := conn.Read(*buf)
		late = c.wait() || late && n == len(*buf)
		if n > 0 {
			at := Arrival{At: c.client.opts.Now(), Shared: n == len(*buf) && !late, Held: late}
			ferr := c.feed((*buf)[:n], at, sink)
			switch {
			case ferr == errWhole:
				return io.EOF
			case ferr != nil:
				return ferr
			}
		}
		switch {
		case err == io.EOF:
			return c.end()
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
	}
}

// dial opens a connection, without the handshake of TLS.
func (p *portable) dial(ctx context.Context) (net.Conn, error) {
	to, err := p.opts.destination(ctx)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if p.opts.Dial != nil {
		conn, err = p.opts.Dial(ctx, "tcp", to)
	} else {
		d := net.Dialer{}
		if ips := p.opts.LocalIPs; len(ips) > 0 {
			d.LocalAddr = &net.TCPAddr{IP: ips[int(p.nextIP.Add(1)-1)%len(ips)]}
		}
		conn, err = p.opts.Guard.Dial(&d)(ctx, "tcp", to)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = os.ErrDeadlineExceeded
		}
		return nil, fmt.Errorf("connect to %s: %w", p.opts.Addr, err)
	}
	p.opts.Count.Opened()
	conn = &counted{Conn: conn, count: p.opts.Count}
	if p.opts.TLS == nil {
		return conn, nil
	}
	t := p.opts.TLS.Clone()
	if t.ServerName == "" {
		t.ServerName, _, _ = net.SplitHostPort(p.opts.Addr)
	}
	return tls.Client(conn, t), nil
}

// Close implements Client.
func (p *portable) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.work.Wait()
	return nil
}

// counted counts the bytes of a connection below TLS.
type counted struct {
	net.Conn
	count Counter
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.count.Taken(n)
	}
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.count.Sent(n)
	}
	return n, err
}
