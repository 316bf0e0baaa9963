//go:build linux && (amd64 || arm64)

package streamclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// New returns a client that suits the options: loops over bare sockets for plain
// text, a goroutine for each connection otherwise.
func New(o Options) (Client, error) {
	if o.TLS != nil || o.Dial != nil {
		return NewPortable(o)
	}
	return newLoops(o)
}

// Stamps tells whether a client of these options can have the kernel's receive
// times.
func Stamps(o Options) bool { return o.TLS == nil && o.Dial == nil }

func newLoops(o Options) (*loops, error) {
	to, err := newResolver(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	to.ask, to.guard = o.Resolve, o.Guard
	p := &loops{opts: withDefaults(o), to: to}
	p.local4, p.local6 = families(o.LocalIPs)
	p.life, p.end = context.WithCancel(context.Background())
	n := o.Shards
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	for range n {
		l, err := newLoop(p)
		if err != nil {
			_ = p.Close() // the error of newLoop matters more
			return nil, fmt.Errorf("client: %w", err)
		}
		p.shards = append(p.shards, l)
		p.work.Go(crash.Guarded(l.run))
	}
	return p, nil
}

// Open implements Client.
func (p *loops) Open(ctx context.Context, r Request, s Sink) Stream {
	l := p.shards[int(p.next.Add(1)-1)%len(p.shards)]
	c := &conn{loop: l, sink: s, fd: -1, slot: -1, opening: &opening{req: r, deadline: time.Now().Add(p.opts.ConnectTimeout)}}
	c.bodiless, c.hold = r.Method == http.MethodHead, budget.Of(p.opts.Budget)
	if ctx.Done() != nil {
		// Set before the loop has the stream. Afterwards only the loop changes it.
		c.opening.stop = context.AfterFunc(ctx, func() {
			defer crash.Guard()
			l.post(task{c: c, err: ctx.Err()})
		})
	}
	if addrs := p.to.known(); addrs != nil {
		c.opening.addrs = addrs
		l.begin(c)
		return c
	}
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed {
		l.add(c)
		return c
	}
	p.work.Go(func() {
		defer crash.Guard()
		ctx, cancel := context.WithTimeout(p.life, p.opts.ConnectTimeout)
		defer cancel()
		addrs, err := p.to.lookup(ctx)
		if err != nil {
			c.opening.err = fmt.Errorf("look up %s: %w", p.to.name, err)
			l.add(c)
			return
		}
		c.opening.addrs = addrs
		l.begin(c)
	})
	return c
}

// begin makes the first attempt to connect, on the goroutine of the caller,
// and hands the stream to the loop.
func (l *loop) begin(c *conn) {
	l.attempt(c)
	l.add(c)
}

// attempt begins to connect to the next address. It skips addresses that fail at
// once. If none is left, it sets the opening's error.
func (l *loop) attempt(c *conn) {
	o := c.opening
	for len(o.addrs) > 0 {
		to := o.addrs[0]
		o.addrs = o.addrs[1:]
		fd, err := l.client.socket(to)
		if err == nil {
			c.fd, o.to, o.err = int32(fd), to, nil
			return
		}
		o.err = err
	}
	if o.err == nil {
		o.err = errors.New("the name has no address")
	}
}

// Close implements Client.
func (p *loops) Close() error {
	p.closing.Lock()
	p.closed = true
	p.closing.Unlock()
	p.end()
	for _, l := range p.shards {
		l.close()
	}
	p.work.Wait()
	return nil
}

// socket opens a socket that does not block and begins to connect it.
func (p *loops) socket(to netip.AddrPort) (int, error) {
	if err := p.opts.Guard.Check(to.Addr()); err != nil {
		return -1, err
	}
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a socket to %s: %w", to, os.NewSyscallError("socket", err))
	}
	if err := p.prepare(fd, to); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %s: %w", to, os.NewSyscallError("connect", err))
	}
	return fd, nil
}

// prepare sets what must be set before the connection is made.
func (p *loops) prepare(fd int, to netip.AddrPort) error {
	// A failure is not an error: it costs a little delay, or the kernel's times.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if p.opts.KernelTimestamps {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	from, ok := p.local(to.Addr().Is6())
	if !ok {
		return nil
	}
	// With this option connect chooses the port, when the other end is known, and
	// can take a port that is in use towards another server.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))); err != nil {
		return fmt.Errorf("connect from %s: %w", from, os.NewSyscallError("bind", err))
	}
	return nil
}

// local returns the next source address of a family; false if there is none.
func (p *loops) local(is6 bool) (netip.Addr, bool) {
	ips := p.local4
	if is6 {
		ips = p.local6
	}
	if len(ips) == 0 {
		return netip.Addr{}, false
	}
	return ips[int(p.nextIP.Add(1)-1)%len(ips)], true
}

// families splits source addresses by family.
func families(ips []net.IP) (v4, v6 []netip.Addr) {
	for _, ip := range ips {
		a, ok := netip.AddrFromSlice(ip)
		switch a = a.Unmap(); {
		case !ok:
		case a.Is4():
			v4 = append(v4, a)
		default:
			v6 = append(v6, a)
		}
	}
	return v4, v6
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	sa := &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	if zone := a.Addr().Zone(); zone != "" {
		if i, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(i.Index)
		}
	}
	return sa
}

// connected returns the error of a connect that was under way, nil if it succeeded.
func connected(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = unix.Errno(n)
	}
	return os.NewSyscallError("connect", err)
}
