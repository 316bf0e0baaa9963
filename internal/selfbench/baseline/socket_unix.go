//go:build unix

package baseline

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is written to without ever waiting.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn // nil when there is none, as with TLS
}

func newSocket(nc net.Conn) socket {
	s := socket{nc: nc}
	if c, ok := nc.(syscall.Conn); ok {
		s.raw, _ = c.SyscallConn() // without one, deadlines do it
	}
	return s
}

// try writes what goes at once.
func (s *socket) try(b []byte) (n int, err error) {
	if s.raw == nil {
		return tryByDeadline(s.nc, b)
	}
	gone := s.raw.Write(func(fd uintptr) bool {
		n, err = unix.Write(int(fd), b)
		return true
	})
	if gone != nil {
		return 0, gone
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}
