package streamclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
)

// connect makes one connection and serves it to its end.
func (p *h2Client) connect(turn int) {
	ctx, cancel := context.WithTimeout(p.life, p.opts.ConnectTimeout)
	raw, nc, err := p.open(ctx, turn)
	cancel()
	if err != nil {
		p.unready(err)
		return
	}
	if p.opts.Count != nil {
		p.opts.Count.Opened()
	}
	c := newH2Conn(p, raw, nc)
	p.mu.Lock()
	closed := p.closed
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	if closed {
		c.fail(ErrClosed)
	}
	c.serve()
	p.mu.Lock()
	delete(p.conns, c)
	p.roomy = slices.DeleteFunc(p.roomy, func(o *h2Conn) bool { return o == c })
	p.mu.Unlock()
}

// open returns raw, the TCP connection, and nc, the one to read and write: a TLS
// connection over raw, or raw itself.
func (p *h2Client) open(ctx context.Context, turn int) (raw, nc net.Conn, err error) {
	dial := p.opts.Dial
	if dial == nil {
		d := &net.Dialer{}
		if n := len(p.opts.LocalIPs); n > 0 {
			d.LocalAddr = &net.TCPAddr{IP: p.opts.LocalIPs[turn%n]}
		}
		dial = p.opts.Guard.Dial(d)
	}
	to, err := p.opts.destination(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err = dial(ctx, "tcp", to)
	if err != nil || p.opts.TLS == nil {
		return raw, raw, err
	}
	if p.opts.Count != nil {
		raw = &h2Counted{Conn: raw, count: p.opts.Count}
	}
	config := p.opts.TLS.Clone()
	config.NextProtos = []string{"h2"}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12) // RFC 9113, section 9.2
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(p.opts.Addr) // NewHTTP2 has checked it
	}
	t := tls.Client(raw, config)
	if err := t.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, nil, err
	}
	if got := t.ConnectionState().NegotiatedProtocol; got != "h2" {
		raw.Close()
		return nil, nil, fmt.Errorf("the server does not offer HTTP/2 over TLS (it chose %q)", got)
	}
	return raw, t, nil
}

// h2Counted counts the bytes of a connection below TLS.
type h2Counted struct {
	net.Conn
	count Counter
}

func (c *h2Counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.count.Taken(n)
	return n, err
}

func (c *h2Counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.count.Sent(n)
	return n, err
}
