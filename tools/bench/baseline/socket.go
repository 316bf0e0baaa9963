//go:build unix

package baseline

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is written to without waiting.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn
}

func newSocket(nc net.Conn) (socket, error) {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return socket{}, errors.ErrUnsupported
	}
	raw, err := c.SyscallConn()
	return socket{nc: nc, raw: raw}, err
}

// try writes what the socket accepts at once.
func (s *socket) try(b []byte) (n int, err error) {
	closed := s.raw.Write(func(fd uintptr) bool {
		n, err = unix.Write(int(fd), b)
		return true
	})
	if closed != nil {
		return 0, closed
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return max(n, 0), err
}
