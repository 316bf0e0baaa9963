//go:build !unix

package baseline

import "net"

// socket is written to without waiting for long.
type socket struct{ nc net.Conn }

func newSocket(nc net.Conn) socket { return socket{nc: nc} }

func (s *socket) try(b []byte) (n int, err error) { return tryByDeadline(s.nc, b) }
