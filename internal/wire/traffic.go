package wire

import (
	"context"
	"net"
	"sync/atomic"
)

// Traffic counts the bytes of a group of connections. The zero value is ready;
// it is safe for concurrent use and must not be copied.
type Traffic struct {
	up, down, opened atomic.Int64
	charged          atomic.Int64 // connections handed out by TakeOpened
}

// Up is the number of bytes written so far.
func (t *Traffic) Up() int64 { return t.up.Load() }

// Down is the number of bytes read so far.
func (t *Traffic) Down() int64 { return t.down.Load() }

// Opened is the number of connections opened so far.
func (t *Traffic) Opened() int64 { return t.opened.Load() }

// TakeOpened returns how many connections were opened since the last call, so
// that each one is charged to one call.
func (t *Traffic) TakeOpened() int {
	now := t.opened.Load()
	for {
		was := t.charged.Load()
		if was >= now {
			return 0
		}
		if t.charged.CompareAndSwap(was, now) {
			return int(now - was)
		}
	}
}

// CountOpened counts a connection that was not opened by Dial. CountUp and CountDown
// count its bytes.
func (t *Traffic) CountOpened() { t.opened.Add(1) }

// CountUp counts n bytes written on a connection that was not opened by Dial, or to a pipe
// that several groups share.
func (t *Traffic) CountUp(n int) { t.up.Add(int64(n)) }

// CountDown counts n bytes read there.
func (t *Traffic) CountDown(n int) { t.down.Add(int64(n)) }

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Dial wraps dial so that t counts its connections.
func (t *Traffic) Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t.opened.Add(1)
		return &countedConn{Conn: c, t: t}, nil
	}
}

// Listener wraps l so that t counts the bytes of its connections.
func (t *Traffic) Listener(l net.Listener) net.Listener { return &countedListener{l, t} }

type countedListener struct {
	net.Listener
	t *Traffic
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{c, l.t}, nil
}

type countedConn struct {
	net.Conn
	t *Traffic
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.t.down.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.t.up.Add(int64(n))
	return n, err
}
