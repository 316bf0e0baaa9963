package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
)

var (
	_ upstream.Upstream = (*upstream.Inject)(nil)
	_ upstream.Upstream = (*upstream.HTTP)(nil)
)

func payload(dst []byte, source int, seq uint32, probe string) []byte {
	return fmt.Appendf(dst, `{"channel":"c-%d","seq":%d,"text":%q}`, source, seq, probe)
}

var emission = upstream.Emission{Stamp: eventmeter.Stamp{Run: 7, Source: 3, Seq: 9}, Number: 12}

// inMemory serves a handler in a synctest bubble, so that how long an answer takes is
// up to the test, and returns options for clients that reach it at any address.
func inMemory(t *testing.T, handler http.Handler) upstream.ClientOptions {
	t.Helper()
	conns, done := make(chan net.Conn), make(chan struct{})
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(pipes{conns, done})
	}()
	t.Cleanup(func() {
		close(done)
		<-served
		_ = server.Close()
	})
	return upstream.ClientOptions{Timeout: 200 * time.Millisecond, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// pipes is a listener whose connections are made in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (pipes) Close() error { return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// patient are the options of clients on a busy machine.
var patient = upstream.ClientOptions{Timeout: time.Minute}

func newInject(t *testing.T, admin string, o upstream.ClientOptions) *upstream.Inject {
	t.Helper()
	u, err := upstream.NewInject(upstream.InjectOptions{Admin: admin, Event: "chat.message", Payload: payload, ClientOptions: o})
	must(t, err)
	t.Cleanup(func() { _ = u.Close() })
	return u
}

func newHTTP(t *testing.T, url, method string, o upstream.ClientOptions) *upstream.HTTP {
	t.Helper()
	u, err := upstream.NewHTTP(upstream.HTTPOptions{
		Method:        method,
		ClientOptions: o,
		Request: func(source int, seq uint32, probe string) (string, http.Header, []byte) {
			header := http.Header{"X-Source": {fmt.Sprint(source)}, "Idempotency-Key": {probe}}
			return fmt.Sprintf("%s/hooks/%d?id=%s", url, seq, probe), header, []byte("body " + probe)
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// TestOutcomes holds both kinds against every way in which a target can
// answer, or fail to.
func TestOutcomes(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    eventmeter.Outcome
	}{
		"200":           {status(200), eventmeter.Accepted},
		"202":           {status(202), eventmeter.Accepted},
		"204":           {status(204), eventmeter.Accepted},
		"302":           {status(302), eventmeter.Refused},
		"400":           {status(400), eventmeter.Refused},
		"404":           {status(404), eventmeter.Refused},
		"429":           {status(429), eventmeter.Refused},
		"500":           {status(500), eventmeter.Uncertain},
		"503":           {status(503), eventmeter.Uncertain},
		"timeout":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, eventmeter.Uncertain},
		"cut off":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, eventmeter.Uncertain},
		"not HTTP":      {hijack("SSH-2.0\r\n\r\n"), eventmeter.Uncertain},
		"cut in answer": {hijack("HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\n{"), eventmeter.Accepted},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, eventmeter.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hits atomic.Int64
				o := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					hits.Add(1)
					_, _ = io.Copy(io.Discard, r.Body)
					c.handler(w, r)
				}))
				const url = "http://target.test"
				all := []upstream.Upstream{
					newInject(t, url, o),
					newHTTP(t, url, "POST", o),
					newHTTP(t, url, "GET", o),
					newHTTP(t, url, "PUT", o),
				}
				for i, u := range all {
					// Twice, so that the second finds a connection that is open,
					// or just was.
					for range 2 {
						if got := u.Fire(context.Background(), emission); got != c.want {
							t.Errorf("%T: %v, want %v", u, got, c.want)
						}
					}
					if got, want := hits.Load(), int64(2*i+2); got != want {
						t.Errorf("%T sent %d requests, want %d", u, got, want)
					}
					_ = u.Close()
				}
			})
		})
	}
}

func hijack(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(answer))
		_ = conn.Close()
	}
}

// A connection that dies between two emissions, after the request was read, must
// not make the transport send the emission a second time by itself.
func TestNoHiddenRetry(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			var hits atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if hits.Add(1) > 1 {
					panic(http.ErrAbortHandler)
				}
			}))
			defer server.Close()
			u := newHTTP(t, server.URL, method, patient)
			first, second := u.Fire(context.Background(), emission), u.Fire(context.Background(), emission)
			if first != eventmeter.Accepted || second != eventmeter.Uncertain || hits.Load() != 2 {
				t.Errorf("%v, %v, %d requests", first, second, hits.Load())
			}
			_ = u.Close()
		})
	}
}

func TestNeverReached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		url string
	}{
		"refused":   {context.Background(), closed},
		"cancelled": {cancelled, plain.URL},
		"not TLS":   {context.Background(), strings.Replace(plain.URL, "http:", "https:", 1)},
	} {
		for _, u := range []upstream.Upstream{newInject(t, c.url, patient), newHTTP(t, c.url, "POST", patient),
			newHTTP(t, c.url, "GET", patient)} {
			if got := u.Fire(c.ctx, emission); got != eventmeter.Refused {
				t.Errorf("%s: %T: %v", name, u, got)
			}
			_ = u.Close()
		}
	}
	for _, bad := range []string{"", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port", "\x7f"} {
		if got := newHTTP(t, bad, "POST", patient).Fire(context.Background(), emission); got != eventmeter.Refused {
			t.Errorf("%q: %v", bad, got)
		}
		if _, err := upstream.NewInject(upstream.InjectOptions{Admin: bad, Event: "e", Payload: payload}); err == nil {
			t.Errorf("inject at %q", bad)
		}
	}
}

func TestInjectSends(t *testing.T) {
	var got struct {
		Name string
		Data struct {
			Channel string
			Seq     int
			Text    string
		}
	}
	var request string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	u := newInject(t, server.URL, patient)
	if o := u.Fire(context.Background(), emission); o != eventmeter.Accepted {
		t.Fatal(o)
	}
	_ = u.Close()
	if request != "POST /inject application/json" {
		t.Errorf("request %s", request)
	}
	if got.Name != "chat.message" || got.Data.Channel != "c-3" || got.Data.Seq != 9 || got.Data.Text != emission.Stamp.String() {
		t.Errorf("%+v", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := upstream.NewHTTP(upstream.HTTPOptions{}); err == nil {
		t.Error("no Request")
	}
	bad := upstream.HTTPOptions{Method: "A B", Request: func(int, uint32, string) (string, http.Header, []byte) { return "", nil, nil }}
	if _, err := upstream.NewHTTP(bad); err == nil {
		t.Error("bad method")
	}
	if _, err := upstream.NewInject(upstream.InjectOptions{Admin: "http://127.0.0.1:1"}); err == nil {
		t.Error("no Event")
	}
}

func BenchmarkInject(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	u, err := upstream.NewInject(upstream.InjectOptions{Admin: server.URL, Event: "e", Payload: payload})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if u.Fire(context.Background(), emission) != eventmeter.Accepted {
			b.Fatal("not accepted")
		}
	}
	_ = u.Close()
}
