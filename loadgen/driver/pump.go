package driver

import (
	"net"

	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// newPump returns what carries a lane's streams.
func (e *Endpoint) newPump(opts Options, traffic *wire.Traffic) (streamclient.Client, error) {
	o := streamclient.Options{
		Addr: net.JoinHostPort(e.url.Hostname(), e.port()), Host: e.host,
		Now:              func() int64 { return int64(opts.Clock.Now()) },
		Count:            counts{traffic},
		Budget:           e.opts.Budget,
		KernelTimestamps: opts.Push.KernelTimestamps,
		Resolve:          e.opts.Resolve,
		Guard:            e.opts.Guard,
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
	if opts.HTTP != "" && opts.HTTP != "1.1" { // that it fits the URL was checked with the transport
		if o.TLS != nil {
			o.TLS.NextProtos = []string{"h2"}
		}
		return streamclient.NewHTTP2(o)
	}
	return streamclient.New(o)
}

// port is the URL's, or that of its scheme.
func (e *Endpoint) port() string {
	switch p := e.url.Port(); {
	case p != "":
		return p
	case e.url.Scheme == "https":
		return "443"
	}
	return "80"
}

// counts has a pump's traffic counted as the transport's is.
type counts struct{ t *wire.Traffic }

func (c counts) Opened()     { c.t.CountOpened() }
func (c counts) Sent(n int)  { c.t.CountUp(n) }
func (c counts) Taken(n int) { c.t.CountDown(n) }
