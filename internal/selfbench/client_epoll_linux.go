package selfbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/eventmeter/eventmeter"
)

// haveEpoll says that this system has the epoll min interval.
const haveEpoll = true

// epoll is the min interval of streams over HTTP/1.1 with all means of Linux: bare
// sockets, an epoll instance for each processor, one buffer for each of those,
// which is searched for prefixes of probe ids. Nothing is kept between reads:
// a prefix that is cut by the end of a read is missed, which a frame that
// arrives whole never is.
type epoll struct {
	bare
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
	e := &epoll{bare: bare{spec: s}}
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
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
		e.loops = append(e.loops, l)
		e.work.Go(func() { e.run(l) })
	}
	return e, nil
}

// open opens one stream after the other, so the rate at which it opens is no
// min interval of anything.
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
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("epoll: stream %d: %w", i, err)
		}
		l := e.loops[i%len(e.loops)]
		l.conns = append(l.conns, fd)
		if len(from) > 0 {
			// The port is chosen when it connects, or ports would run out.
			_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from[i%len(from)].As4()}); err != nil {
				return fmt.Errorf("epoll: stream %d: %w", i, err)
			}
		}
		if err := unix.Connect(fd, to); err != nil {
			return fmt.Errorf("epoll: stream %d: %w", i, err)
		}
		if _, err := unix.Write(fd, streamRequest(e.spec, i)); err != nil {
			return fmt.Errorf("epoll: stream %d: %w", i, err)
		}
		if err := errors.Join(unix.SetNonblock(fd, true), unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})); err != nil {
			return fmt.Errorf("epoll: stream %d: %w", i, err)
		}
	}
	for e.confirmed.Load() < int64(e.spec.Streams) {
		if wait(ctx, pollStep); ctx.Err() != nil {
			return fmt.Errorf("epoll: %d of %d streams were confirmed: %w", e.confirmed.Load(), e.spec.Streams, ctx.Err())
		}
	}
	return nil
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
			if got <= 0 && !errors.Is(err, unix.EAGAIN) { // over
				_ = unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, int(ev.Fd), nil)
				continue
			}
			if got <= 0 {
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
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a counter takes it
	}
	e.work.Wait()
	for _, l := range e.loops {
		for _, fd := range append(l.conns, l.wake, l.fd) {
			_ = unix.Close(fd) // the process ends
		}
	}
	return nil
}
