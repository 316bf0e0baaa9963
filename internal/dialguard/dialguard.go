// Package dialguard keeps connections of a run to the addresses that were allowed at its start:
// loopback, and those that the allowed hosts had when their names were resolved. A name is resolved
// once. A later answer cannot redirect the load or a token.
package dialguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrRefused is wrapped by every refusal of a [Guard].
var ErrRefused = errors.New("the address was not allowed at the start of the run")

// Lookup resolves a host name.
type Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

// Guard knows the addresses that may be dialled. It is safe for concurrent use. A nil
// Guard lets everything pass and resolves names anew each time.
type Guard struct {
	lookup Lookup

	mu      sync.Mutex
	names   map[string]*name
	allowed map[netip.Addr]bool
}

// name is a host that is being or has been resolved.
type name struct {
	done  chan struct{} // closed when the fields below are set
	addrs []netip.Addr
	err   error
}

// New returns a guard that allows loopback only. lookup resolves names; nil is the
// system's resolver.
func New(lookup Lookup) *Guard {
	if lookup == nil {
		lookup = system
	}
	return &Guard{lookup: lookup, names: make(map[string]*name), allowed: make(map[netip.Addr]bool)}
}

func system(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil && strings.EqualFold(host, "localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return addrs, err
}

// Lookup returns the addresses of a host, which may be an address itself. It asks
// for a name until there is an answer; later calls give the same addresses. It allows
// nothing.
func (g *Guard) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	if g == nil {
		return system(ctx, host)
	}
	key := strings.ToLower(strings.TrimSuffix(host, "."))
	g.mu.Lock()
	n := g.names[key]
	if n != nil {
		g.mu.Unlock()
		select {
		case <-n.done:
			return n.addrs, n.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n = &name{done: make(chan struct{})}
	g.names[key] = n
	g.mu.Unlock()
	addrs, err := g.lookup(ctx, host)
	for _, a := range addrs {
		n.addrs = append(n.addrs, a.Unmap())
	}
	if n.err = err; err == nil && len(addrs) == 0 {
		n.err = fmt.Errorf("%s has no address", host)
	}
	if n.err != nil { // the next caller resolves again
		g.mu.Lock()
		delete(g.names, key)
		g.mu.Unlock()
	}
	close(n.done)
	return n.addrs, n.err
}

// Allow resolves a host and allows connections to its addresses.
func (g *Guard) Allow(ctx context.Context, host string) error {
	addrs, err := g.Lookup(ctx, host)
	if g == nil || err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range addrs {
		g.allowed[a.WithZone("")] = true
	}
	return nil
}

// Check returns an error that wraps [ErrRefused] unless the address is loopback or
// was allowed.
func (g *Guard) Check(ip netip.Addr) error {
	if g == nil {
		return nil
	}
	ip = ip.Unmap()
	if ip.IsLoopback() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.allowed[ip.WithZone("")] {
		return nil
	}
	return fmt.Errorf(
		"connection to %s refused: %w; if you may put load on it, name it with --allow-host and begin a new run",
		ip,
		ErrRefused,
	)
}

// Pin checks the address of a host that is resolved by another resolver than the guard's. It allows
// the address of the first call for the host and those that the guard's own lookup gives then, and
// no others afterwards.
func (g *Guard) Pin(ctx context.Context, host string, ip netip.Addr) error {
	if g == nil {
		return nil
	}
	ip = ip.Unmap()
	key := "pin " + strings.ToLower(strings.TrimSuffix(host, "."))
	g.mu.Lock()
	n := g.names[key]
	g.mu.Unlock()
	if n == nil {
		ctx, cancel := context.WithTimeout(ctx, pinTimeout)
		defer cancel()
		// The other resolver may know names that this one does not.
		addrs, _ := g.Lookup(ctx, host)
		g.mu.Lock()
		if n = g.names[key]; n == nil {
			n = &name{addrs: append(slices.Clone(addrs), ip)}
			g.names[key] = n
		}
		g.mu.Unlock()
	}
	if slices.Contains(n.addrs, ip) {
		return nil
	}
	return fmt.Errorf("connection to %s at %s refused: %w: the name had another address then", host, ip, ErrRefused)
}

// pinTimeout bounds the guard's own lookup in Pin.
const pinTimeout = 2 * time.Second

// Control is for [net.Dialer]: it sees the address that is about to be dialled.
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, ErrRefused)
	}
	return g.Check(to.Addr())
}

// Dial returns a dial function that connects to the addresses of a name as they
// were when it was first resolved, in turn until one answers, and checks each one. d is
// used for each connection and must not be changed afterwards.
func (g *Guard) Dial(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if g == nil {
		return d.DialContext
	}
	own := *d
	own.Control = g.Control
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return own.DialContext(ctx, network, addr)
		}
		addrs, err := g.Lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		addrs = fitting(addrs, d.LocalAddr)
		for i, a := range addrs {
			conn, dialErr := own.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
			if dialErr == nil {
				return conn, nil
			}
			if i == 0 {
				err = dialErr
			}
			if ctx.Err() != nil {
				break
			}
		}
		return nil, err
	}
}

// Client returns an HTTP client for an address that g let through: it follows no
// redirect and uses no proxy of the environment, which g did not see. Each request
// has a connection of its own, so that none is left open.
func (g *Guard) Client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: g.Dial(&net.Dialer{})},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fitting are the addresses that can be reached from a local one: those of its
// family, or all if there are none.
func fitting(addrs []netip.Addr, local net.Addr) []netip.Addr {
	from, ok := local.(*net.TCPAddr)
	if !ok || from == nil {
		return addrs
	}
	own := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (from.IP.To4() != nil) })
	if len(own) == 0 {
		return addrs
	}
	return own
}
