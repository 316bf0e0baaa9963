package dialguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// flipping answers with loopback first and with an address that nobody allowed
// ever after.
func flipping(asked *int) Lookup {
	return func(context.Context, string) ([]netip.Addr, error) {
		*asked++
		if *asked == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}
}

func TestCheck(t *testing.T) {
	g := New(func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "gone.test" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}, nil
	})
	if err := g.Allow(t.Context(), "load.test"); err != nil {
		t.Fatal(err)
	}
	if err := g.Allow(t.Context(), "198.51.100.1"); err != nil {
		t.Fatal(err)
	}
	if err := g.Allow(t.Context(), "gone.test"); err == nil {
		t.Error("a host that cannot be resolved was allowed")
	}
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "2001:db8::7": true, "198.51.100.1": true,
		"192.0.2.8": false, "2001:db8::8": false, "0.0.0.0": false, "169.254.169.254": false, "10.0.0.1": false,
	} {
		err := g.Check(netip.MustParseAddr(address))
		if (err == nil) != want || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want allowed %v", address, err, want)
		}
	}
}

// A name is resolved once, whatever its resolver says later; an address is
// checked at each connection.
func TestDial(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	asked := 0
	g := New(flipping(&asked))
	dial := g.Dial(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}})
	for range 5 {
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort("Flip.test", port))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if _, err := g.Lookup(t.Context(), "flip.test."); err != nil || asked != 1 {
		t.Errorf("the resolver was asked %d times (%v), want once", asked, err)
	}
	if _, err := dial(t.Context(), "tcp", "192.0.2.1:80"); !errors.Is(err, ErrRefused) {
		t.Errorf("an address that nobody allowed: %v", err)
	}
	other := New(func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, nil
	})
	if _, err := other.Dial(&net.Dialer{})(t.Context(), "tcp", "other.test:80"); !errors.Is(err, ErrRefused) {
		t.Errorf("a name that was never allowed: %v", err)
	}
}

// Another resolver's answers are held to the first one, and to what the guard
// found out itself at that time.
func TestPin(t *testing.T) {
	asked := 0
	g := New(func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")}, nil
	})
	for i, c := range []struct {
		host, ip string
		want     bool
	}{
		{"k6.test", "127.0.0.1", true}, {"k6.test", "192.0.2.8", true}, {"K6.test.", "127.0.0.1", true},
		{"k6.test", "192.0.2.9", false}, {"k6.test", "127.0.0.2", false}, {"other.test", "192.0.2.9", true},
	} {
		if err := g.Pin(
			t.Context(),
			c.host,
			netip.MustParseAddr(c.ip),
		); (err == nil) != c.want ||
			err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%d: %s at %s: %v", i, c.host, c.ip, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for two names", asked)
	}
}

// A caller who gives up does not decide about the name.
func TestLookupIsNotCancelledForOthers(t *testing.T) {
	calls := 0
	g := New(func(ctx context.Context, _ string) ([]netip.Addr, error) {
		if calls++; calls == 1 {
			return nil, ctx.Err()
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Lookup(ctx, "a.test"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if addrs, err := g.Lookup(t.Context(), "a.test"); err != nil || len(addrs) != 1 {
		t.Errorf("%v %v", addrs, err)
	}
}
