package refserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/budget"
)

// bounded opens a server with TLS whose bounds are small.
func bounded(t *testing.T, connections int, bodies int64) *Server {
	s, err := New(Options{TLS: true})
	must(t, err)
	s.maxConnections, s.bodies = connections, budget.New(bodies)
	must(t, s.Start(t.Context()))
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

// The bodies of all open requests have one bound, whatever listener and transport they come by. A body that does not
// fit is answered 503; when another request is over, it fits.
func TestBodiesHaveOneBound(t *testing.T) {
	const size = 100 << 10 // counts twice
	s := bounded(t, 100, 350<<10)
	protocols := func(h1, h2, h2c bool) *http.Transport {
		p := new(http.Protocols)
		p.SetHTTP1(h1)
		p.SetHTTP2(h2)
		p.SetUnencryptedHTTP2(h2c)
		tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	ways := map[string]struct {
		url string
		by  *http.Transport
	}{
		"HTTP/1.1": {s.URL(), protocols(true, false, false)},
		"h2c":      {s.URL(), protocols(false, false, true)},
		"TLS":      {s.TLSURL(), protocols(true, false, false)},
		"HTTP/2":   {s.TLSURL(), protocols(false, true, false)},
		"admin":    {s.AdminURL() + "/inject", protocols(true, false, false)},
	}
	post := func(ctx context.Context, way string, body io.Reader) (int, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, ways[way].url, body)
		must(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		resp, err := ways[way].by.RoundTrip(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(text)
	}
	whole := strings.Repeat(" ", size) + "{}"
	wait := func(used int64) {
		deadline := time.Now().Add(10 * time.Second)
		for s.bodies.Used() != used {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes are in use, want %d", s.bodies.Used(), used)
			}
			runtime.Gosched()
		}
	}
	const held = 2 * (size - budget.Allowance)
	for first := range ways {
		for second := range ways {
			open, fill := io.Pipe()
			ended := make(chan struct{})
			go func() { defer close(ended); post(t.Context(), first, open) }()
			if _, err := io.WriteString(fill, whole[:size]); err != nil {
				t.Fatal(err)
			}
			wait(held)
			if status, text := post(t.Context(), second, strings.NewReader(whole)); status != http.StatusServiceUnavailable ||
				strings.Count(text, "\n") != 1 || !strings.Contains(text, "bodies") {
				t.Errorf("%s beside %s: %d %q, want 503 and one line", second, first, status, text)
			}
			if status, text := post(t.Context(), second, strings.NewReader("{}")); status == http.StatusServiceUnavailable {
				t.Errorf("a small body: %d %q", status, text)
			}
			fill.Close()
			<-ended
			wait(0)
			if status, text := post(t.Context(), second, strings.NewReader(whole)); status == http.StatusServiceUnavailable {
				t.Errorf("after the first request: %d %q", status, text)
			}
		}
	}
}

// A stream keeps its body in memory until it ends.
func TestBodyOfAStreamCounts(t *testing.T) {
	s := bounded(t, 100, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(
		strings.Repeat(" ", 100<<10)+`{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"tick"}}`))
	must(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	if n := s.bodies.Used(); n < 200<<10-3*budget.Allowance {
		t.Errorf("a stream with a body of 100 KiB holds %d bytes", n)
	}
}

// A connection beyond the bound of its listener is closed at once. Those that are open go on, and another may come
// when one of them ends.
func TestConnectionsAreBounded(t *testing.T) {
	s := bounded(t, 2, 0)
	for name, l := range map[string]*listener{"MCP": s.mcp, "TLS": s.secure, "admin": s.control} {
		dial := func() net.Conn {
			conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", l.Addr().String())
			must(t, err)
			must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
			return conn
		}
		served := func(conn net.Conn) bool { // a request in the clear is answered by TLS, too: 400
			if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				return false
			}
			_, err := io.ReadFull(conn, make([]byte, len("HTTP/1.")))
			return err == nil
		}
		first, second := dial(), dial()
		third := dial()
		if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a third connection: %v, want it closed", name, err)
		}
		third.Close()
		if !served(first) {
			t.Errorf("%s: the first connection is not served", name)
		}
		second.Close()
		for again := dial(); !served(again); again = dial() {
			again.Close()
			if t.Context().Err() != nil {
				t.Fatalf("%s: no connection after one has ended", name)
			}
		}
		first.Close()
	}
}

// The head of a request is bounded.
func TestHeadsAreBounded(t *testing.T) {
	s := bounded(t, 2, 0)
	status, text := send(t, http.MethodGet, s.URL(), "", http.Header{"X": {strings.Repeat("x", 80<<10)}}, "")
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of 80 KiB: %d %s", status, text)
	}
}
