package streamclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// oracle is net/http's server, plain or with TLS.
func oracle(t *testing.T, secure bool, config *http.HTTP2Config, handle http.HandlerFunc) (*httptest.Server, Options) {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.Config.HTTP2 = config
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP2(secure)
	s.Config.Protocols.SetUnencryptedHTTP2(!secure)
	o := Options{Addr: s.Listener.Addr().String()}
	if secure {
		s.EnableHTTP2 = true
		s.StartTLS()
		o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
		o.TLS.ServerName = "example.com"
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s, o
}

func startH2(t *testing.T, o Options, change func(*h2Limits)) *h2Client {
	t.Helper()
	l := h2Defaults
	if change != nil {
		change(&l)
	}
	p := newH2(o, l)
	t.Cleanup(func() { p.Close() })
	return p
}

// both runs a test over TLS and in plain text.
func both(t *testing.T, f func(t *testing.T, secure bool)) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "h2c", true: "tls"}[secure], func(t *testing.T) { f(t, secure) })
	}
}

func post(body string) Request {
	return Request{
		Method: "POST",
		Path:   "/mcp?x=1",
		Header: http.Header{"Content-Type": {"application/json"}, "X-Two": {"a", "b"}},
		Body:   []byte(body),
	}
}

// TestH2Destination: connections lead where Resolve says, and the server is
// asked for Host.
func TestH2Destination(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		_, o := oracle(t, secure, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })
		at, err := netip.ParseAddrPort(o.Addr)
		must(t, err)
		refused := errors.New("not there")
		for _, c := range []struct {
			host, want string
			fails      error
		}{{"example.test", "example.test", nil}, {"", "nobody.invalid:99", nil}, {"example.test", "", refused}} {
			o.Addr, o.Host = "nobody.invalid:99", c.host
			o.Resolve = func(context.Context, string) (netip.AddrPort, error) { return at, c.fails }
			s := newHeard()
			startH2(t, o, nil).Open(t.Context(), post("hello"), s)
			err := s.over()
			if c.fails != nil {
				if !errors.Is(err, c.fails) {
					t.Error(err)
				}
				continue
			}
			if err != io.EOF || string(s.body) != c.want {
				t.Errorf("%v, the server was asked for %q, want %q", err, s.body, c.want)
			}
		}
	})
}

func TestH2Exchange(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		_, o := oracle(t, secure, nil, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().
				Set("X-Seen", fmt.Sprintf("%s %s %s %s %v %d", r.Method, r.RequestURI, r.Proto, body, r.Header["X-Two"], r.ContentLength))
			w.Header().Set("Trailer", "X-End")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(201)
			io.WriteString(w, "one ")
			http.NewResponseController(w).Flush()
			io.WriteString(w, "two")
			w.Header().Set("X-End", "yes")
		})
		count := &tally{}
		o.Count = count
		p := startH2(t, o, nil)
		s := newHeard()
		p.Open(t.Context(), post("hello"), s)
		if err := s.over(); err != io.EOF {
			t.Fatalf("ended with %v", err)
		}
		h := s.heads[0]
		if want := "POST /mcp?x=1 HTTP/2.0 hello [a b] 5"; h.Header.Get("X-Seen") != want || h.Status != 201 || h.Proto != "HTTP/2.0" {
			t.Errorf("head %+v, want %q", h, want)
		}
		if len(s.heads) != 1 || string(s.body) != "one two" {
			t.Errorf("%d heads, body %q", len(s.heads), s.body)
		}
		want := int64(len("HTTP/1.1 201 Created\r\n\r\n"))
		for k, vs := range h.Header {
			for _, v := range vs {
				want += int64(len(k + ": " + v + "\r\n"))
			}
		}
		if h.Size != want {
			t.Errorf("size %d, want %d", h.Size, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if count.opened.Load() != 1 || count.up.Load() < 24+27+13 || count.down.Load() == 0 {
			t.Errorf("counted %d %d %d", count.opened.Load(), count.up.Load(), count.down.Load())
		}
	})
}

type tally struct{ opened, up, down atomic.Int64 }

func (c *tally) Opened()     { c.opened.Add(1) }
func (c *tally) Sent(n int)  { c.up.Add(int64(n)) }
func (c *tally) Taken(n int) { c.down.Add(int64(n)) }

// events answers with a stream of n numbered events once release is closed.
func events(release <-chan struct{}, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		for i := range n {
			fmt.Fprintf(w, "data: %s %d\n\n", body, i)
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestH2ManyStreams(t *testing.T) {
	const many = 600
	for _, limit := range []struct{ server, client, most int }{{3, 0, 3}, {250, 0, 250}, {250, 3, 3}, {250, 1, 1}, {3, 250, 3}} {
		t.Run(fmt.Sprintf("server %d, client %d", limit.server, limit.client), func(t *testing.T) {
			n, most := many, limit.most
			if most <= 3 {
				n = 50
			}
			release := make(chan struct{})
			_, o := oracle(t, false, &http.HTTP2Config{MaxConcurrentStreams: limit.server}, events(release, 3))
			o.StreamsPerConnection = limit.client
			count := &tally{}
			o.Count = count
			p := startH2(t, o, nil)
			sinks := make([]*heard, n)
			streams := make([]Stream, n)
			for i := range sinks {
				sinks[i] = newHeard()
				streams[i] = p.Open(t.Context(), post(strconv.Itoa(i)), sinks[i])
			}
			for _, s := range sinks {
				s.opened(t)
			}
			if got, want := count.opened.Load(), int64((n+most-1)/most); got < want || got > want+4 {
				t.Errorf("%d connections for %d streams of %d each", got, n, most)
			}
			close(release)
			for i, s := range sinks {
				want := fmt.Sprintf("data: %[1]d 0\n\ndata: %[1]d 1\n\ndata: %[1]d 2\n\n", i)
				s.until(t, "all events", func() bool { return len(s.body) >= len(want) })
				if string(s.body) != want {
					t.Fatalf("stream %d: %q", i, s.body)
				}
			}
			for i := range n / 2 { // half of them early
				streams[i].Close()
				streams[i].Close()
			}
			for i := range n / 2 {
				if err := sinks[i].over(); err != ErrClosed {
					t.Fatalf("closed with %v", err)
				}
			}
			for i := range n / 2 { // their places are free again
				sinks[i] = newHeard()
				p.Open(t.Context(), post("again"), sinks[i])
			}
			for _, s := range sinks {
				s.opened(t)
			}
			p.Close()
			for _, s := range sinks {
				if err := s.over(); err != ErrClosed {
					t.Fatalf("closed with %v", err)
				}
			}
		})
	}
}

func TestH2LargeBodiesAndSmallWindows(t *testing.T) {
	both(t, func(t *testing.T, secure bool) {
		big := strings.Repeat("0123456789abcdef", 20<<10) // 320 KiB
		_, o := oracle(t, secure, &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 20 << 10, MaxReadFrameSize: 16 << 10,
		}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			w.Header().Set("X-Long", strings.Repeat("y", 40<<10)) // CONTINUATION
			w.Write(body)
		})
		p := startH2(t, o, func(l *h2Limits) { l.window, l.connWindow = 30_000, 70_000 })
		sinks := make([]*heard, 8)
		for i := range sinks {
			sinks[i] = newHeard()
			r := post(big)
			r.Header = http.Header{"X-Long": {strings.Repeat("z", 40<<10)}}
			p.Open(t.Context(), r, sinks[i])
		}
		for _, s := range sinks {
			if err := s.over(); err != io.EOF || string(s.body) != big {
				t.Fatalf("ended with %v after %d bytes", err, len(s.body))
			}
		}
	})
}

func TestH2Resets(t *testing.T) {
	_, o := oracle(t, false, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/early":
			w.WriteHeader(403) // without reading the body
		case "/stay":
			http.NewResponseController(w).Flush()
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	p := startH2(t, o, nil)
	open := func(path, body string, s *heard) {
		p.Open(t.Context(), Request{Method: "POST", Path: path, Body: []byte(body)}, s)
	}
	s := newHeard()
	open("/abort", "", s)
	var reset *ResetError
	if err := s.over(); !errors.As(err, &reset) || reset.Code != http2.ErrCodeInternal {
		t.Errorf("aborted: %v", err)
	}
	s = newHeard()
	open("/early", strings.Repeat("x", 4<<20), s)
	if err := s.over(); err != io.EOF || s.heads[0].Status != 403 {
		t.Errorf("early answer: %v", err)
	}
	s = newHeard()
	s.refuse = errors.New("enough")
	open("/stay", "", s)
	if err := s.over(); err != s.refuse {
		t.Errorf("the sink's error: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s = newHeard()
	p.Open(ctx, Request{Method: "GET", Path: "/stay"}, s)
	s.until(t, "a byte", func() bool { return len(s.body) == 1 })
	cancel(errors.New("too late"))
	p.Close()
	if err := s.over(); err != ErrClosed {
		t.Errorf("the context of an open stream closed it: %v", err)
	}
	s = newHeard()
	p.Open(t.Context(), Request{Method: "GET", Path: "/"}, s)
	if err := s.over(); err != ErrClosed {
		t.Errorf("open on a closed client: %v", err)
	}
}

func TestH2ContextBeforeAnswer(t *testing.T) {
	_, o := oracle(t, false, nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p := startH2(t, o, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	s := newHeard()
	p.Open(ctx, post(""), s)
	why := errors.New("no time")
	cancel(why)
	if err := s.over(); err != why {
		t.Errorf("ended with %v", err)
	}
}

func TestH2Shutdown(t *testing.T) {
	release := make(chan struct{})
	server, o := oracle(t, false, nil, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-release
		io.WriteString(w, "last words")
	})
	p := startH2(t, o, nil)
	s := newHeard()
	p.Open(t.Context(), post("x"), s)
	s.opened(t)
	down := make(chan error, 1)
	go func() { down <- server.Config.Shutdown(context.Background()) }()
	for { // until GOAWAY is there, and a new connection is refused
		late := newHeard()
		p.Open(t.Context(), post("x"), late).Close()
		if err := late.over(); err != ErrClosed && !errors.Is(err, ErrRefusedStream) {
			break
		}
		p.mu.Lock()
		n := 0
		for c := range p.conns {
			c.mu.Lock()
			if !c.draining {
				n++
			}
			c.mu.Unlock()
		}
		p.mu.Unlock()
		if n == 0 {
			break
		}
		runtime.Gosched()
	}
	close(release)
	if err := s.over(); err != io.EOF || string(s.body) != "last words" {
		t.Errorf("a stream below the last id: %v, %q", err, s.body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	late := newHeard()
	p.Open(t.Context(), post("x"), late)
	if err := late.over(); err == nil || !strings.Contains(err.Error(), "connecting to "+o.Addr) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestH2NotSpoken(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler()) // HTTP/1.1 only
	defer s.Close()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Addr: s.Listener.Addr().String(), TLS: config}, "no application protocol"},
		{Options{Addr: plain.Listener.Addr().String()}, "it answered in HTTP/1"},
	} {
		p := startH2(t, c.o, nil)
		h := newHeard()
		p.Open(t.Context(), post("x"), h)
		if err := h.over(); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		p.Close()
	}
	if _, err := NewHTTP2(Options{Addr: "nowhere"}); err == nil {
		t.Error("an address without a port was taken")
	}
}
