//go:build !linux

package streamclient

import "net"

// h2Stamped returns nil: only Linux has the kernel's receive times.
func h2Stamped(net.Conn, func() int64) func([]byte) (int, Arrival, error) { return nil }
