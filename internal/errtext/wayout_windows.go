package errtext

import (
	"errors"

	"golang.org/x/sys/windows"
)

const portRange = "netsh int ipv4 set dynamicport tcp"

// isPortless reports whether no local port was free for a connection.
func isPortless(err error) bool {
	return errors.Is(err, windows.WSAEADDRNOTAVAIL) || errors.Is(err, windows.WSAENOBUFS)
}
