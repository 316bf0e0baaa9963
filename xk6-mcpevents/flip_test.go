package mcpevents

import (
	"errors"
	"net"
	"testing"

	"github.com/eventmeter/eventmeter/internal/dialguard"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/netext"
)

// flipping is a resolver of k6 whose name leads elsewhere after the first
// answer, as names may with dns.ttl.
type flipping struct{ asked int }

func (f *flipping) LookupIP(string) (net.IP, error) {
	if f.asked++; f.asked == 1 {
		return net.IPv4(127, 0, 0, 1), nil
	}
	return net.IPv4(192, 0, 2, 1), nil
}

// A name stays where it led when the test first used it, for every VU.
func TestNamesStayWhereTheyLed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	hub := newHub()
	state := &lib.State{Dialer: netext.NewDialer(net.Dialer{}, &flipping{})}
	for vu := range 3 {
		n, err := networkOf(state, hub.guard)
		must(t, err)
		conn, err := n.dial(t.Context(), "tcp", "localhost:"+port)
		if vu == 0 {
			must(t, err)
			conn.Close()
			continue
		}
		if !errors.Is(err, dialguard.ErrRefused) {
			t.Errorf("VU %d: %v, want a refusal", vu, err)
		}
		if _, err := n.resolve(t.Context(), "localhost:"+port); !errors.Is(err, dialguard.ErrRefused) {
			t.Errorf("VU %d, for endpoints: %v, want a refusal", vu, err)
		}
	}
}
