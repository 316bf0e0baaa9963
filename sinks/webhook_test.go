package sinks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"go.uber.org/goleak"
)

// hookFunc makes a Hook of a function.
type hookFunc func(*Inbound) Reply

func (f hookFunc) Receive(in *Inbound) Reply { return f(in) }

func TestReceiver(t *testing.T) {
	type turned struct {
		hook   bool
		status int
	}
	var mu sync.Mutex
	var last turned
	r := NewReceiver(ReceiverOptions{
		Clock: eventmeter.NewClock(), BodyLimit: 10_000,
		Turned: func(h Hook, status int, at eventmeter.Instant, size int) {
			mu.Lock()
			defer mu.Unlock()
			last = turned{h != nil, status}
		},
	})
	r.Add("/a", hookFunc(func(in *Inbound) Reply {
		if in.At == 0 || in.Size <= len(in.Body) {
			t.Errorf("at %d, %d bytes", in.At, in.Size)
		}
		return Reply{Status: 201, Body: bytes.ToUpper(in.Body)}
	}))
	old := r.Issue("/")
	r.Add(old, hookFunc(func(*Inbound) Reply { return Reply{} }))
	r.Retire(old)
	r.Retire("/never")
	for _, c := range []struct {
		method, path, body string
		unknown            bool // length is not announced
		status             int
		answer             string
		turned             turned
	}{
		{"POST", "/a", "hello", false, 201, "HELLO", turned{}},
		{"POST", "/a", strings.Repeat("x", 10_000), false, 201, strings.Repeat("X", 10_000), turned{}},
		{"POST", "/a", strings.Repeat("x", 10_000), true, 201, strings.Repeat("X", 10_000), turned{}},
		{"POST", "/a", strings.Repeat("x", 10_001), false, 413, "", turned{true, 413}},
		{"POST", "/a", strings.Repeat("x", 10_001), true, 413, "", turned{true, 413}},
		{"GET", "/a", "", false, 405, "", turned{true, 405}},
		{"POST", "/b", "", false, 404, "", turned{false, 404}},
		{"POST", "/never", "", false, 404, "", turned{false, 404}},
		{"POST", old, "", false, 503, "", turned{false, 503}},
	} {
		last = turned{}
		var body io.Reader = strings.NewReader(c.body)
		if c.unknown {
			body = io.MultiReader(body)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(c.method, c.path, body))
		if w.Code != c.status || w.Body.String() != c.answer || last != c.turned {
			t.Errorf("%s %s (%d bytes): %d %.20q, turned %+v", c.method, c.path, len(c.body), w.Code, w.Body, last)
		}
	}
}

func TestListener(t *testing.T) {
	defer goleak.VerifyNone(t)
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	r.Add("/a", hookFunc(func(in *Inbound) Reply { return Reply{Body: in.Body, Delay: time.Millisecond} }))
	l, err := Listen(ListenerOptions{Handler: r, Callback: "https://load-1.example:8443"})
	must(t, err)
	if u := l.URL("/a"); u != "https://load-1.example:8443/a" {
		t.Errorf("URL %s", u)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(l.CertPEM())
	for _, proto := range []int{1, 2} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "load-1.example"}, ForceAttemptHTTP2: proto == 2}
		c := &http.Client{Transport: tr}
		resp, err := c.Post("https://"+l.port.Addr().String()+"/a", "application/json", strings.NewReader("hi"))
		must(t, err)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "hi" || resp.ProtoMajor != proto {
			t.Errorf("HTTP/%d: %q", resp.ProtoMajor, b)
		}
		tr.CloseIdleConnections()
	}
	if a, b := l.TakeAccepted(), l.TakeAccepted(); l.Accepted() != 2 || a != 2 || b != 0 {
		t.Errorf("%d accepted, %d and %d charged", l.Accepted(), a, b)
	}
	silent, err := tls.Dial("tcp", l.port.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	must(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("closing with a connection that never spoke: %v", err)
	}
}

func TestListenErrors(t *testing.T) {
	for _, o := range []ListenerOptions{
		{Callback: "http://x"}, {Callback: "https://x/path"}, {Callback: "https://"}, {Callback: "::"}, {Listen: "256.0.0.1:1"},
	} {
		if l, err := Listen(o); err == nil {
			t.Errorf("%+v was taken", o)
			l.Close(t.Context())
		}
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

type rewound struct{ *strings.Reader }

func (rewound) Close() error { return nil }

func BenchmarkReceiver(b *testing.B) {
	r := NewReceiver(ReceiverOptions{Clock: eventmeter.NewClock()})
	r.Add("/a", hookFunc(func(*Inbound) Reply { return Reply{} }))
	body := rewound{strings.NewReader(strings.Repeat("x", 350))}
	req := httptest.NewRequest(http.MethodPost, "/a", body)
	req.ContentLength = 350
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Seek(0, io.SeekStart)
		r.ServeHTTP(w, req)
	}
}
