package mcpclient

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// NewTransport returns a transport for version, which is "1.1" (also ""), "2" (needs an
// https URL) or "h2c" (needs an http URL), and a function that closes its connections.
// traffic counts them and their bytes. many saves memory where thousands of exchanges
// are open at once, each with little data.
func (e *Endpoint) NewTransport(version string, traffic *wire.Traffic, many bool) (http.RoundTripper, func(), error) {
	if e.pipe != nil {
		return noTransport{}, func() {}, nil
	}
	t := &http.Transport{
		DialContext:         traffic.Dial(e.dialer()),
		TLSClientConfig:     e.tlsConfig(),
		TLSHandshakeTimeout: 20 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		// Every idle connection is kept: each poller of a lane comes back, and with
		// closed connections the run would measure handshakes instead.
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 1 << 20,
		// Of one answer's head, interim answers included.
		MaxResponseHeaderBytes: maxHead,
		// Decompression would hide the size of what came and delay frames.
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	if many {
		t.ReadBufferSize, t.WriteBufferSize = 2<<10, 1<<10
	}
	switch version {
	case "", "1.1":
		t.Protocols.SetHTTP1(true)
		return t, t.CloseIdleConnections, nil
	case "2":
		if e.url.Scheme != "https" {
			return nil, nil, fmt.Errorf("http 2 at %s: needs an https URL: use h2c for plain text", e.opts.URL)
		}
		t.Protocols.SetHTTP2(true)
	case "h2c":
		if e.url.Scheme != "http" {
			return nil, nil, fmt.Errorf("h2c at %s: needs an http URL: use http 2 for TLS", e.opts.URL)
		}
		t.Protocols.SetUnencryptedHTTP2(true)
	default:
		return nil, nil, fmt.Errorf("http version %q is not known: use 1.1, 2 or h2c", version)
	}
	// Lanes watch each stream for heartbeats. PINGs keep a stream that is opened
	// again off a connection that is dead. net/http buffers what a stream receives
	// before it is read, so those buffers are bounded.
	t.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 16 << 20,
	}
	m := newMultiplexer(t, e.url.Scheme, e.socket())
	return m, m.close, nil
}

// PollTransport is NewTransport for pollers. They make only short exchanges, most of
// whose cost is that of the client, so it returns a cheaper transport where possible.
func (e *Endpoint) PollTransport(version string, traffic *wire.Traffic) (http.RoundTripper, func(), error) {
	if e.pipe == nil && (version == "" || version == "1.1") {
		if t := newDirect(e.url, e.dialer(), e.socket(), traffic); t != nil {
			return t, t.close, nil
		}
	}
	return e.NewTransport(version, traffic, false)
}

// maxHead bounds the head of an answer, in bytes.
const maxHead = 64 << 10

// Pause returns how long a stream asked its clients to wait before they open it
// again (the field retry, which MCP says clients must respect), and was if it did
// not say.
func Pause(p *wire.EventParser, was time.Duration) time.Duration {
	ms, ok := p.Retry()
	if !ok {
		return was
	}
	return time.Duration(min(ms, maxPause.Milliseconds())) * time.Millisecond
}

// RequestSize returns the size of a request in HTTP/1.1, in bytes. body is the length
// of its body; less than 0 = none.
func RequestSize(method, uri string, h http.Header, body int64) int64 {
	return int64(len(method)+len(uri)+len("  HTTP/1.1\r\n\r\n")) + headerFields(h) + max(body, 0)
}

// ResponseSize returns the size of an answer's head in HTTP/1.1, in bytes.
func ResponseSize(r *http.Response) int64 {
	return int64(len("HTTP/1.1 \r\n\r\n")+len(r.Status)) + headerFields(r.Header)
}

func headerFields(h http.Header) (n int64) {
	for k, vs := range h {
		for _, v := range vs {
			n += int64(len(k) + len(v) + len(": \r\n"))
		}
	}
	return n
}

// noTransport is the transport of endpoints that are programs.
type noTransport struct{}

func (noTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("a target that is a program takes no HTTP requests")
}
