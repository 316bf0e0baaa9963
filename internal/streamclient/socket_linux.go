//go:build linux && (amd64 || arm64)

package streamclient

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	// What fails here costs a little delay and no more.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if p.opts.KernelTimestamps {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	from, ok := p.local(to.Addr().Is6())
	if !ok {
		return nil
	}
	// The port is chosen when the other end is known: then one that is in use
	// towards another server will do.
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

// connected returns what became of a connection that was begun.
func connected(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = unix.Errno(n)
	}
	return os.NewSyscallError("connect", err)
}

// receiver reads sockets into one buffer, with the kernel's receive times. It
// keeps what a call needs, so that reading allocates nothing.
type receiver struct {
	buf []byte
	msg unix.Msghdr
	iov unix.Iovec
	oob [8]uint64 // as bytes, and aligned as the kernel's structs are
}

// init gives r a buffer of that size, in place of another.
func (r *receiver) init(size int) {
	r.buf = make([]byte, size)
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(size)
	r.msg.Iov = &r.iov
	r.msg.SetIovlen(1)
}

// recv reads once. stamp is the kernel's time of the last segment in it, 0 if
// there is none. The socket does not block, so the scheduler need not be told.
func (r *receiver) recv(fd int32, stamped bool) (n int, stamp int64, errno unix.Errno) {
	if !stamped {
		got, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)))
		return int(got), 0, e
	}
	r.msg.Control = (*byte)(unsafe.Pointer(&r.oob))
	r.msg.SetControllen(int(unsafe.Sizeof(r.oob)))
	got, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)), 0)
	if e != 0 {
		return 0, 0, e
	}
	return int(got), r.stamp(), 0
}

// stamp reads the control message of SO_TIMESTAMPNS.
func (r *receiver) stamp() int64 {
	head := unix.CmsgLen(0)
	if int(r.msg.Controllen) < head+int(unsafe.Sizeof(unix.Timespec{})) {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.oob))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(&r.oob), head))
	return ts.Nano()
}
