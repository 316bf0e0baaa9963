package sinks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestListenerCountsFailedConnections meets a listener in every way that does
// not come to a request, and in some that do.
func TestListenerCountsFailedConnections(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	l, err := Listen(ListenerOptions{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Failed: func(reason string) { told <- reason },
	})
	must(t, err)
	addr := l.port.Addr().String()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.CertPEM())
	trusting := &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}}

	for _, c := range []struct {
		name string
		meet func() error
		want string
	}{
		{"an unknown authority", func() error {
			_, err := tls.Dial("tcp", addr, &tls.Config{})
			return refusal(err)
		}, "bad certificate"},
		{"another name", func() error {
			_, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, ServerName: "elsewhere.example"})
			return refusal(err)
		}, "bad certificate"},
		{"an old version", func() error {
			_, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
			return refusal(err)
		}, "tls: client offered only unsupported versions"},
		{"plain HTTP", func() error {
			resp, err := http.Post("http://"+addr+"/h/1", "application/json", strings.NewReader("{}"))
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}, plainHTTP},
		{"not HTTP either", func() error { return sayAndClose(addr, "\x00\x00\x00\x00\x00\x00\x00\x00") }, notTLS},
		{"nothing at all", func() error { return sayAndClose(addr, "") }, gaveUp},
		{"a client that looks at the certificate after the handshake", func() error {
			conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots})
			if err != nil {
				return err
			}
			return conn.Close()
		}, gaveUpAfter},
		{"the same over HTTP/2", func() error {
			conn, err := tls.Dial("tcp", addr, trusting)
			if err != nil {
				return err
			}
			return conn.Close()
		}, gaveUpAfter},
	} {
		if err := c.meet(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := <-told; !strings.Contains(got, c.want) {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}

	// Good requests, and a connection in reserve that we close ourselves.
	for _, protocols := range [][]string{{"http/1.1"}, {"h2"}} {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, NextProtos: protocols},
			ForceAttemptHTTP2: protocols[0] == "h2",
		}
		resp, err := (&http.Client{Transport: transport}).Get(l.URL("/"))
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		transport.CloseIdleConnections()
	}
	// Nor does one fail that a sender who trusts the certificate does not need.
	spare, err := tls.Dial("tcp", addr, trusting)
	must(t, err)
	spare.Close()
	for open := 1; open > 0; runtime.Gosched() {
		l.mu.Lock()
		open = len(l.fresh)
		l.mu.Unlock()
	}
	reserve, err := tls.Dial("tcp", addr, trusting)
	must(t, err)
	defer reserve.Close()
	must(t, l.Close(context.Background()))
	select {
	case reason := <-told:
		t.Errorf("told of a connection that did not fail: %s", reason)
	default:
	}
}

// refusal makes an error of a handshake that should have failed.
func refusal(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func sayAndClose(addr, text string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	return conn.Close()
}

// TestListenerInPlainHTTP checks that a callback on loopback may be http, and
// elsewhere not.
func TestListenerInPlainHTTP(t *testing.T) {
	t.Parallel()
	l, err := Listen(
		ListenerOptions{
			Callback: "http://127.0.0.1:0",
			Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here")) }),
		},
	)
	must(t, err)
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if want := "http://" + l.port.Addr().String() + "/h/1"; l.URL("/h/1") != want || l.Secure() {
		t.Errorf("called at %s, want %s", l.URL("/h/1"), want)
	}
	resp, err := http.Get(l.URL("/"))
	must(t, err)
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if body, err := io.ReadAll(resp.Body); string(body) != "here" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	for _, o := range []ListenerOptions{
		{Callback: "http://192.0.2.1:80"}, {Callback: "http://example.com"}, {Callback: "ftp://127.0.0.1"}, {Callback: "http://127.0.0.1:0/path"},
		{Callback: "http://127.0.0.1:0", Listen: "0.0.0.0:0"},
	} {
		if l, err := Listen(o); err == nil {
			t.Errorf("%+v: taken", o)
			_ = l.Close(context.Background())
		}
	}
}

// TestSharedListenerTellsOneLane checks that a connection that failed at a
// shared listener counts once, whoever is there.
func TestSharedListenerTellsOneLane(t *testing.T) {
	t.Parallel()
	s, err := ListenShared(ListenerOptions{})
	must(t, err)
	told := make(chan string, 100)
	for _, prefix := range []string{"/mcp/1", "/mcp/2"} {
		if _, err := Listen(
			ListenerOptions{Shared: s, Prefix: prefix, Handler: http.NotFoundHandler(), Failed: func(reason string) { told <- reason }},
		); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := tls.Dial("tcp", s.own.port.Addr().String(), &tls.Config{}); err == nil {
			t.Fatal("the certificate is trusted")
		}
		if reason := <-told; !strings.Contains(reason, "bad certificate") {
			t.Errorf("told %q", reason)
		}
	}
	must(t, s.Close(context.Background()))
	if len(told) > 0 {
		t.Errorf("told once more: %s", <-told)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
