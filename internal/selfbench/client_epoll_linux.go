package selfbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter"
)

// haveEpoll is true where the epoll baseline exists.
const haveEpoll = true

// epoll is the baseline of streams over HTTP/1.1 on Linux: bare sockets, and for
// each processor an epoll instance with one buffer, which is searched for the
// prefix of probe ids. Nothing is kept between reads, so a prefix that is split
// between two reads is missed. Frames are written whole, so none is split.
type epoll struct {
	base
	loops     []*epollLoop
	confirmed atomic.Int64 // streams whose confirmation was seen
	work      sync.WaitGroup
	over      atomic.Bool
}

type epollLoop struct {
	fd, wake int
	conns    []int
}

func newEpoll(s spec, _ *eventmeter.Clock) (client, error) {
	e := &epoll{base: base{spec: s}}
	for range runtime.GOMAXPROCS(0) {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		l := &epollLoop{fd: fd, wake: wake}
		if err := l.watch(wake); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		e.loops = append(e.loops, l)
		e.work.Go(func() { e.run(l) })
	}
	return e, nil
}

// open opens one stream after the other, so its rate is no baseline of opening.
func (e *epoll) open(ctx context.Context) error {
	u, err := url.Parse(e.spec.URL)
	if err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp4", u.Host)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	from := locals(e.spec.Local)
	for i := range e.spec.Streams {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.dial(i, to, from); err != nil {
			return fmt.Errorf("epoll: stream %d: %w", i, err)
		}
	}
	return e.confirm(ctx, &e.confirmed)
}

// dial opens stream i.
func (e *epoll) dial(i int, to unix.Sockaddr, from []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l := e.loops[i%len(e.loops)]
	l.conns = append(l.conns, fd)
	if len(from) > 0 {
		// The kernel must choose the port in connect, or ports would run out.
		_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from[i%len(from)].As4()}); err != nil {
			return err
		}
	}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	if _, err := unix.Write(fd, streamRequest(e.spec, i)); err != nil {
		return err
	}
	return errors.Join(unix.SetNonblock(fd, true), l.watch(fd))
}

// watch adds a file to the loop.
func (l *epollLoop) watch(fd int) error {
	return unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (e *epoll) run(l *epollLoop) {
	buf := make([]byte, 64<<10)
	events := make([]unix.EpollEvent, 512)
	for !e.over.Load() {
		n, err := unix.EpollWait(l.fd, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if int(ev.Fd) == l.wake {
				continue
			}
			got, err := unix.Read(int(ev.Fd), buf)
			if got <= 0 {
				if !errors.Is(err, unix.EAGAIN) { // the stream has ended
					_ = unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, int(ev.Fd), nil)
				}
				continue
			}
			if seen := bytes.Count(buf[:got], probe); seen > 0 {
				e.seen.Add(int64(seen))
			} else if bytes.Contains(buf[:got], activeMethod) {
				e.confirmed.Add(1)
			}
		}
	}
}

func (e *epoll) close(context.Context) error {
	e.over.Store(true)
	for _, l := range e.loops {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd accepts it
	}
	e.work.Wait()
	for _, l := range e.loops {
		for _, fd := range append(l.conns, l.wake, l.fd) {
			_ = unix.Close(fd) // nothing is written any more
		}
	}
	return nil
}
