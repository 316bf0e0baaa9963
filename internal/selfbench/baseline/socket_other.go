//go:build !unix

package baseline

import (
	"errors"
	"net"
	"os"
	"time"
)

// socket is written to without waiting for long.
type socket struct{ nc net.Conn }

func newSocket(nc net.Conn) (socket, error) { return socket{nc: nc}, nil }

// try writes what the socket accepts within a millisecond, the shortest wait that
// works here.
func (s *socket) try(b []byte) (int, error) {
	if err := s.nc.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return 0, err
	}
	n, err := s.nc.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}
