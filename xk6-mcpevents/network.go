package mcpevents

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/wire"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/netext"
)

// dialTimeout bounds the opening of a connection.
const dialTimeout = 30 * time.Second

// network defines how a VU connects, by k6's options for names, addresses and TLS.
// The zero value uses the system's defaults.
type network struct {
	tls     *tls.Config // nil = Go's defaults; not to be changed
	resolve func(ctx context.Context, addr string) (netip.AddrPort, error)
	local   net.Addr // where connections come from; nil = the system's choice
}

// networkOf returns the network of a VU. It must be called on the VU's event
// loop.
func networkOf(state *lib.State, guard *dialguard.Guard) (network, error) {
	var n network
	if state.TLSConfig != nil {
		n.tls = state.TLSConfig.Clone()
		n.tls.NextProtos = nil // k6's own clients leave theirs there
	}
	if state.Dialer == nil { // in tests of modules
		return n, nil
	}
	resolver := state.GetAddrResolver()
	if resolver == nil {
		return n, errors.New(
			"this k6 does not say where connections lead, so its options hosts, dns, blacklistIPs and blockHostnames " +
				"would not hold: build the extension with the k6 of its go.mod",
		)
	}
	n.resolve = func(ctx context.Context, addr string) (netip.AddrPort, error) {
		ip, port, err := resolver.ResolveAddr(addr)
		if err != nil {
			return netip.AddrPort{}, err
		}
		to, ok := netip.AddrFromSlice(ip)
		if !ok || port < 1 || port > 65535 {
			return netip.AddrPort{}, fmt.Errorf("k6 leads to %s, port %d, which is no address", ip, port)
		}
		if err := pin(ctx, guard, addr, to); err != nil {
			return netip.AddrPort{}, err
		}
		return netip.AddrPortFrom(to.Unmap(), uint16(port)), nil
	}
	if d, ok := state.Dialer.(*netext.Dialer); ok {
		n.local = d.LocalAddr
	}
	return n, nil
}

// pin fixes a name to the address that it had at its first use: k6 resolves names
// again while it runs (dns.ttl), and another address must not receive the tokens.
func pin(ctx context.Context, guard *dialguard.Guard, addr string, to netip.Addr) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // k6's own options decide about addresses
	}
	return guard.Pin(ctx, host, to)
}

// locals returns the source addresses for an endpoint.
func (n *network) locals() []netip.Addr {
	if a, ok := n.local.(*net.TCPAddr); ok {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			return []netip.Addr{ip.Unmap()}
		}
	}
	return nil
}

// dial opens a connection.
func (n *network) dial(ctx context.Context, proto, addr string) (net.Conn, error) {
	if n.resolve != nil {
		to, err := n.resolve(ctx, addr)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", addr, err)
		}
		addr = to.String()
	}
	d := net.Dialer{LocalAddr: n.local, Timeout: dialTimeout}
	return d.DialContext(ctx, proto, addr)
}

// totalsOf returns the bytes so far of the connections that t counts.
func totalsOf(t *wire.Traffic) func() (sent, received int64) {
	return func() (sent, received int64) { return t.Up(), t.Down() }
}

// meter makes samples of k6's data_sent and data_received from growing totals. If
// several groups share a meter, each byte is counted for the first group that asks.
type meter struct {
	totals func() (sent, received int64)
	last   atomic.Pointer[origin] // of the last sample, or of the first use

	mu             sync.Mutex
	sent, received int64 // already in samples
}

// sample adds the new bytes to a batch of o's.
func (m *meter) sample(b *batch, o *origin) {
	m.last.Store(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	sent, received := m.totals()
	b.count(o.state.BuiltinMetrics.DataSent, sent-m.sent)
	b.count(o.state.BuiltinMetrics.DataReceived, received-m.received)
	m.sent, m.received = sent, received
}

// send sends the new bytes as o.
func (m *meter) send(o *origin) {
	b := o.batch()
	m.sample(b, o)
	o.send(b)
}

// rest sends the remaining bytes, as the last origin.
func (m *meter) rest() {
	if o := m.last.Load(); o != nil {
		m.send(o)
	}
}
