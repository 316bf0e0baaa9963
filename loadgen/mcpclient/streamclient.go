package mcpclient

import (
	"net"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// StreamClient returns a client for thousands of open streams. version is one of those
// of [Endpoint.NewTransport]. With stamps, the times of arrivals are the kernel's where
// possible. traffic counts bytes and connections.
func (e *Endpoint) StreamClient(
	version string,
	clock *eventmeter.Clock,
	stamps bool,
	perConnection int,
	traffic *wire.Traffic,
) (streamclient.Client, error) {
	o := streamclient.Options{
		Addr: e.socket(), Host: e.host,
		Now:                  func() int64 { return int64(clock.Now()) },
		Count:                counts{traffic},
		Budget:               e.opts.Budget,
		KernelTimestamps:     stamps,
		StreamsPerConnection: perConnection,
		Resolve:              e.opts.Resolve,
		Guard:                e.opts.Guard,
	}
	if o.Host == "" {
		o.Host = e.url.Host
	}
	for _, a := range e.opts.LocalAddrs {
		o.LocalIPs = append(o.LocalIPs, a.AsSlice())
	}
	if e.url.Scheme == "https" {
		o.TLS = e.tlsConfig()
		o.TLS.NextProtos = []string{"http/1.1"}
	}
	if version != "" && version != "1.1" { // NewTransport has checked that it fits the URL
		if o.TLS != nil {
			o.TLS.NextProtos = []string{"h2"}
		}
		return streamclient.NewHTTP2(o)
	}
	return streamclient.New(o)
}

// socket returns the host and the port of the URL, or the default port of its scheme.
func (e *Endpoint) socket() string {
	port := e.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[e.url.Scheme]
	}
	return net.JoinHostPort(e.url.Hostname(), port)
}

// counts is a streamclient.Counter that adds to a Traffic.
type counts struct{ t *wire.Traffic }

func (c counts) Opened() { c.t.CountOpened() }

func (c counts) Sent(n int) { c.t.CountUp(n) }

func (c counts) Taken(n int) { c.t.CountDown(n) }
