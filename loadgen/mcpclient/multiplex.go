package mcpclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// multiplexer spreads exchanges over as few HTTP/2 connections as the server's
// stream limit allows. http.Transport would open a connection for each of a
// hundred requests that begin together, as those of a load test do, and the run
// would not show multiplexing at all.
type multiplexer struct {
	t       *http.Transport
	scheme  string
	address string
	life    context.Context
	end     context.CancelFunc
	work    sync.WaitGroup

	mu     sync.Mutex
	conns  []*http.ClientConn
	dial   *dialing // nil = none under way
	closed bool
}

// dialing is a connection that is being opened, for all requests that wait for it.
type dialing struct {
	done chan struct{}
	err  error
}

const (
	// dialTime bounds the opening of a connection.
	dialTime = 30 * time.Second
	// settingsTime is how long a new connection waits for SETTINGS that raise the
	// stream limit above 100, the limit that is assumed before.
	settingsTime = 100 * time.Millisecond
)

func newMultiplexer(t *http.Transport, scheme, address string) *multiplexer {
	m := &multiplexer{t: t, scheme: scheme, address: address}
	m.life, m.end = context.WithCancel(context.Background())
	return m
}

// RoundTrip sends a request on a connection with a free stream.
func (m *multiplexer) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		c, d := m.reserve()
		if c != nil {
			return c.RoundTrip(req)
		}
		if d == nil {
			return nil, net.ErrClosed
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// reserve reserves a stream on a connection, or returns the connection to wait for;
// neither if the multiplexer is closed.
func (m *multiplexer) reserve() (*http.ClientConn, *dialing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil
	}
	m.conns = slices.DeleteFunc(m.conns, func(c *http.ClientConn) bool { return c.Err() != nil })
	for _, c := range m.conns {
		if c.Available() > 0 && c.Reserve() == nil {
			return c, nil
		}
	}
	if m.dial == nil {
		d := &dialing{done: make(chan struct{})}
		m.dial = d
		m.work.Go(func() {
			defer crash.Guard()
			m.open(d)
		})
	}
	return nil, m.dial
}

// open makes one connection.
func (m *multiplexer) open(d *dialing) {
	ctx, cancel := context.WithTimeout(m.life, dialTime)
	defer cancel()
	c, err := m.t.NewClientConn(ctx, m.scheme, m.address)
	if err == nil {
		err = settle(ctx, c)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		d.err = fmt.Errorf("connecting to %s: %w", m.address, err)
	default:
		m.conns = append(m.conns, c)
	}
	m.dial = nil
	close(d.done)
}

// settle waits a moment for the server's settings.
func settle(ctx context.Context, c *http.ClientConn) error {
	raised := make(chan struct{}, 1)
	before := c.Available()
	c.SetStateHook(func(*http.ClientConn) {
		select {
		case raised <- struct{}{}:
		default:
		}
	})
	defer c.SetStateHook(nil)
	if c.Available() <= before { // else it was raised before the hook was set
		t := time.NewTimer(settingsTime)
		defer t.Stop()
		select {
		case <-raised:
		case <-t.C:
		case <-ctx.Done():
			_ = c.Close()
			return ctx.Err()
		}
	}
	if c.Available() == 0 && c.Err() == nil {
		_ = c.Close()
		return fmt.Errorf("the server allows no streams")
	}
	return c.Err()
}

// close closes all connections, after the one that is being opened is done.
func (m *multiplexer) close() {
	m.end()
	m.work.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.conns = nil
}
