//go:build unix

package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// scripted is a server that gives one and the same answer to every request, and
// hangs up after it if asked to.
type scripted struct {
	net.Listener
	answer   string
	hangUp   bool
	accepted atomic.Int64
	served   sync.WaitGroup

	mu    sync.Mutex
	heard []string // the requests
}

func script(t *testing.T, answer string, hangUp bool) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &scripted{Listener: l, answer: answer, hangUp: hangUp}
	s.served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.served.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.served.Wait()
	})
	return s
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.heard = append(s.heard, req.Method+" "+req.RequestURI+" "+req.Host+" "+req.Header.Get("X-One")+" "+string(body))
		s.mu.Unlock()
		if _, err := io.WriteString(c, s.answer); err != nil || s.hangUp {
			return
		}
	}
}

// roundTrip posts body and says what came of it.
func roundTrip(ctx context.Context, t http.RoundTripper, at string, body string) string {
	u, err := url.Parse("http://" + at + "/mcp?a=b")
	if err != nil {
		return err.Error()
	}
	c := Caller{Transport: t, URL: u}
	resp, err := t.RoundTrip(c.NewPost(ctx, http.Header{"X-One": {"1"}}, []byte(body)))
	if err != nil {
		return TransportError(ctx, err).Kind
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	out := resp.Status + " " + resp.Header.Get("X-Two") + " " + string(got)
	if err != nil {
		out += " " + TransportError(ctx, err).Kind
	}
	return out
}

// TestDirectIsATransport holds the direct transport to net/http: what three
// requests come to, what the server heard, and over how many connections.
func TestDirectIsATransport(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		answer string
		hangUp bool
	}{
		"length":              {"HTTP/1.1 200 OK\r\nX-Two: 2\r\nContent-Length: 5\r\n\r\nhello", false},
		"empty":               {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", false},
		"no content":          {"HTTP/1.1 204 No Content\r\n\r\n", false},
		"chunks":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Last: z\r\n\r\n", false},
		"long":                {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long, false},
		"interim":             {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		"error":               {"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno", false},
		"close is said":       {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true},
		"until it hangs up":   {"HTTP/1.1 200 OK\r\n\r\nas long as it is", true},
		"HTTP/1.0":            {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true},
		"cut in the body":     {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", true},
		"cut in a chunk":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30\r\nabc", true},
		"cut in the head":     {"HTTP/1.1 200 OK\r\nContent-", true},
		"no answer":           {"", true},
		"no HTTP":             {"what?\r\n\r\n", true},
		"a length of letters": {"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(make func(at string, traffic *wire.Traffic) (http.RoundTripper, func())) (out []string) {
				s := script(t, tt.answer, tt.hangUp)
				at := s.Addr().String()
				var traffic wire.Traffic
				rt, hangUp := make(at, &traffic)
				defer hangUp()
				for _, body := range []string{"one", "two", long} {
					out = append(out, roundTrip(t.Context(), rt, at, body))
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, h := range s.heard {
					out = append(out, strings.ReplaceAll(h, at, "host"))
				}
				if n := s.accepted.Load(); traffic.Opened() != n {
					t.Errorf("%d connections were counted, there were %d", traffic.Opened(), n)
				}
				if traffic.Up() == 0 || traffic.Down() < int64(len(tt.answer)) {
					t.Errorf("%d bytes up and %d down were counted", traffic.Up(), traffic.Down())
				}
				return append(out, strings.Repeat("+", int(traffic.Opened())))
			}
			var d net.Dialer
			want := play(func(_ string, traffic *wire.Traffic) (http.RoundTripper, func()) {
				t := &http.Transport{DialContext: traffic.Dial(d.DialContext), DisableCompression: true}
				return t, t.CloseIdleConnections
			})
			got := play(func(at string, traffic *wire.Traffic) (http.RoundTripper, func()) {
				t := newDirect(&url.URL{Scheme: "http", Host: at}, d.DialContext, at, traffic)
				return t, t.close
			})
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				t.Errorf("directly:\n%.600s\nby net/http:\n%.600s", g, w)
			}
		})
	}
}

func directTo(t *testing.T, at string, traffic *wire.Traffic) *directTransport {
	t.Helper()
	var d net.Dialer
	direct := newDirect(&url.URL{Scheme: "http", Host: at}, d.DialContext, at, traffic)
	t.Cleanup(direct.close)
	return direct
}

const directOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// TestDirectConnections: one connection serves as long as it can, and what was
// hung up, or has something on it that nobody asked for, is not used again.
func TestDirectConnections(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		hangUp bool
		want   int64
	}{
		"kept":          {directOK, false, 1},
		"hung up":       {directOK, true, 3},
		"unasked bytes": {directOK + "HTTP/1.1 408 Request Timeout\r\n\r\n", false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, tt.answer, tt.hangUp)
			var traffic wire.Traffic
			direct := directTo(t, s.Addr().String(), &traffic)
			for range 3 {
				if got := roundTrip(t.Context(), direct, s.Addr().String(), "x"); got != "200 OK  ok" {
					t.Fatal(got)
				}
				direct.mu.Lock()
				idle := append([]*directConn(nil), direct.idle...)
				direct.mu.Unlock()
				for _, c := range idle { // the end of the connection is on its way
					for tt.hangUp && c.quiet() {
						runtime.Gosched()
					}
				}
			}
			if n := traffic.Opened(); n != tt.want {
				t.Errorf("%d connections, want %d", n, tt.want)
			}
		})
	}
}

// TestDirectGivesUp: a context that ends, before and within the answer, and an
// answer that is not read to its end.
func TestDirectGivesUp(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"before the head": "",
		"in the head":     "HTTP/1.1 200 OK\r\nConte",
		"in the body":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, answer, false)
			var traffic wire.Traffic
			direct := directTo(t, s.Addr().String(), &traffic)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan string)
			go func() { done <- roundTrip(ctx, direct, s.Addr().String(), "x") }()
			for traffic.Down() < int64(len(answer)) || traffic.Up() == 0 {
				runtime.Gosched()
			}
			cancel()
			if got := <-done; !strings.HasSuffix(got, "canceled") {
				t.Errorf("it came to %q", got)
			}
			direct.mu.Lock()
			defer direct.mu.Unlock()
			if len(direct.idle) != 0 {
				t.Error("the connection is kept")
			}
		})
	}
	t.Run("at the first byte", func(t *testing.T) {
		t.Parallel()
		s := script(t, directOK, false)
		var traffic wire.Traffic
		direct := directTo(t, s.Addr().String(), &traffic)
		c := Caller{Transport: direct, URL: &url.URL{Scheme: "http", Host: s.Addr().String(), Path: "/"}}
		for range 2 {
			resp, err := direct.RoundTrip(c.NewPost(t.Context(), http.Header{}, []byte("x")))
			must(t, err)
			if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("after the end: %d, %v", n, err)
			}
		}
		if n := traffic.Opened(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	t.Run("it was over before", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		direct := directTo(t, "127.0.0.1:1", &wire.Traffic{})
		if got := roundTrip(ctx, direct, "127.0.0.1:1", "x"); got != "canceled" {
			t.Error(got)
		}
	})
}

// TestDirectHeads: heads that have no end, and interim answers without number.
func TestDirectHeads(t *testing.T) {
	t.Parallel()
	s := script(t, strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", directInterim+1)+directOK, true)
	if got := roundTrip(t.Context(), directTo(t, s.Addr().String(), &wire.Traffic{}), s.Addr().String(), "x"); got != "transport" {
		t.Errorf("too many interim answers: %q", got)
	}
	c := &directConn{left: 3, traffic: &wire.Traffic{}}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c.Conn = near
	go func() { _, _ = far.Write([]byte("abc")) }()
	if got, err := io.ReadAll(c); !bytes.Equal(got, []byte("abc")) || !errors.Is(err, errLongHead) {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestDirectRefused: an address where nobody listens, and names that net/http
// has to translate.
func TestDirectRefused(t *testing.T) {
	t.Parallel()
	s := script(t, "", false)
	at := s.Addr().String()
	_ = s.Close()
	if got := roundTrip(t.Context(), directTo(t, at, &wire.Traffic{}), at, "x"); got != "connection refused" {
		t.Error(got)
	}
	for _, u := range []url.URL{{Scheme: "https", Host: "a"}, {Scheme: "http", Host: "ä.example"}, {Scheme: "http", Host: "[fe80::1%25lo]"}} {
		if newDirect(&u, nil, "", nil) != nil {
			t.Errorf("%v is done directly", &u)
		}
	}
}
