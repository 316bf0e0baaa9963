package streamclient

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
)

// resolved is how long the addresses of a name are used before it is looked up again.
const resolved = time.Minute

// resolver resolves the name of one server when it is first needed.
type resolver struct {
	name string
	port uint16
	ask  func(ctx context.Context, addr string) (netip.AddrPort, error) // called for each connection; nil = the system's resolver
	// guard, if not nil, resolves the name. Its addresses are used for ever.
	guard *dialguard.Guard

	mu    sync.Mutex
	addrs []netip.AddrPort
	until time.Time // zero = for ever
}

// newResolver returns a resolver for addr, which has the form host:port.
func newResolver(addr string) (*resolver, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w: use host:port", addr, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("address %q: port %q is not a number from 1 to 65535", addr, port)
	}
	r := &resolver{name: host, port: uint16(n)}
	if ip, err := netip.ParseAddr(host); err == nil {
		r.addrs = []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), r.port)}
	}
	return r, nil
}

// known returns the addresses if they need no lookup.
func (r *resolver) known() []netip.AddrPort {
	if r.ask != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.until.IsZero() && time.Now().After(r.until) {
		return nil
	}
	return r.addrs
}

// lookup resolves the name. The system's resolver merges simultaneous lookups.
func (r *resolver) lookup(ctx context.Context) ([]netip.AddrPort, error) {
	if known := r.known(); known != nil {
		return known, nil
	}
	if r.ask != nil {
		to, err := r.ask(ctx, net.JoinHostPort(r.name, strconv.Itoa(int(r.port))))
		if err != nil {
			return nil, err
		}
		return []netip.AddrPort{to}, nil
	}
	ips, err := r.guard.Lookup(ctx, r.name)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), r.port))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.addrs = addrs; r.guard == nil {
		r.until = time.Now().Add(resolved)
	}
	return addrs, nil
}
