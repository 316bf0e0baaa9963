//go:build !windows

package errtext

import (
	"errors"
	"runtime"
	"syscall"
)

var portRange = map[string]string{
	"linux": "net.ipv4.ip_local_port_range", "darwin": "net.inet.ip.portrange.first",
}[runtime.GOOS]

// isPortless reports whether no local port was free for a connection.
func isPortless(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }
