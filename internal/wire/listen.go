package wire

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Listen is [net.Listen] for TCP. Where this machine has no 127.0.0.1, such as a container with IPv6 alone, [::1] takes
// its place. ctx bounds only the opening.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		if host, port, _ := net.SplitHostPort(address); host == "127.0.0.1" {
			if l, other := c.Listen(ctx, "tcp", net.JoinHostPort("::1", port)); other == nil {
				return l, nil
			}
		}
	}
	return l, err
}
