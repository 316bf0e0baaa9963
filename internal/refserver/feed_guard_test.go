package refserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/dialguard"
)

// feedHosts are a feed at 127.0.0.1 and another server at 127.0.0.2, on the
// same port.
func feedHosts(t *testing.T, right, other http.HandlerFunc) (port string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("it needs two loopback addresses")
	}
	serve := func(l net.Listener, h http.Handler) {
		s := httptest.NewUnstartedServer(h)
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	}
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		_, port, _ = net.SplitHostPort(l.Addr().String())
		second, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err != nil {
			l.Close()
			continue
		}
		serve(l, right)
		serve(second, other)
		return port
	}
	t.Fatal("there is no port that both addresses have free")
	return ""
}

// A feed's name is resolved once: no request follows a later change of its
// address.
func TestFeedNameIsResolvedOnce(t *testing.T) {
	asked, stolen := make(chan struct{}, 64), new(atomic.Int64)
	port := feedHosts(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // the next poll needs a new connection
		fmt.Fprint(w, `{"changes":[],"cursor":"c","hasMore":false}`)
		select {
		case asked <- struct{}{}:
		default:
		}
	}, func(http.ResponseWriter, *http.Request) { stolen.Add(1); asked <- struct{}{} })
	var lookups atomic.Int64
	s, err := New(Options{Feed: "http://flip.test:" + port + "/changes", FeedEvery: time.Millisecond})
	must(t, err)
	s.feedGuard = dialguard.New(func(context.Context, string) ([]netip.Addr, error) {
		if lookups.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
	})
	must(t, s.Start(t.Context()))
	defer closeServer(t, s)
	for range 5 {
		<-asked
	}
	if stolen.Load() != 0 || lookups.Load() != 1 {
		t.Errorf("%d requests to the other host, %d look-ups: want 0 and 1", stolen.Load(), lookups.Load())
	}
}

// Redirects of a feed are not followed, not even to loopback.
func TestFeedFollowsNoRedirect(t *testing.T) {
	asked, stolen := make(chan struct{}, 64), new(atomic.Int64)
	var port string
	port = feedHosts(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Redirect(w, r, "http://127.0.0.2:"+port+"/changes", http.StatusTemporaryRedirect)
	}, func(http.ResponseWriter, *http.Request) { stolen.Add(1) })
	log := new(lockedText)
	s := startServer(
		t,
		Options{
			Feed:      "http://127.0.0.1:" + port + "/changes",
			FeedEvery: time.Millisecond,
			Logger:    slog.New(slog.NewTextHandler(log, nil)),
		},
	)
	for range 5 {
		<-asked
	}
	closeServer(t, s)
	if stolen.Load() != 0 || !strings.Contains(log.String(), "HTTP 307") {
		t.Errorf("%d requests to the other host; the log:\n%s", stolen.Load(), log)
	}
}

// A feed on another host must be allowed by name, and is checked at each
// connection.
func TestFeedElsewhere(t *testing.T) {
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "near.test" {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}
	for _, c := range []struct {
		url     string
		allowed []string
		ok      bool
	}{
		{"http://127.0.0.1:9/", nil, true}, {"http://[::1]:9/", nil, true}, {"http://near.test:9/", nil, true},
		{"http://192.0.2.1:9/", nil, false}, {"http://far.test:9/", nil, false}, {"http://far.test:9/", []string{"192.0.2.1"}, false},
		{"http://far.test:9/", []string{"FAR.test"}, true}, {"http://192.0.2.1:9/", []string{"192.0.2.1:9"}, true},
	} {
		s, err := New(Options{Feed: c.url, AllowHosts: c.allowed})
		must(t, err)
		s.feedGuard = dialguard.New(lookup)
		err = s.allowFeed(t.Context())
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "is not this machine") {
			t.Errorf("%s with %v: %v", c.url, c.allowed, err)
		}
		if err := s.feedGuard.Check(netip.MustParseAddr("192.0.2.1")); (err == nil) != (c.ok && len(c.allowed) > 0) {
			t.Errorf("%s with %v, at the connection: %v", c.url, c.allowed, err)
		}
	}
}

// lockedText is a buffer that is safe for a logger to write to.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
