package sinks

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestSharedListener(t *testing.T) {
	s, err := ListenShared(ListenerOptions{})
	must(t, err)
	defer s.Close(t.Context())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CertPEM())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	ask := func(method, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL(path), strings.NewReader("x"))
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return string(b)
	}
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, text+" "+r.URL.Path) })
	}
	a, err := Listen(ListenerOptions{Shared: s, Prefix: "/mcp/1", Handler: says("a")})
	must(t, err)
	b, err := Listen(ListenerOptions{Shared: s, Prefix: "/mcp/12", Handler: says("b")})
	must(t, err)
	if a.URL("/mcp/1/h/x") != s.URL("/mcp/1/h/x") || string(a.CertPEM()) != string(s.CertPEM()) {
		t.Error("a lane gives another address or certificate than the listener")
	}
	for path, want := range map[string]string{
		"/mcp/1/h/x": "a /mcp/1/h/x", "/mcp/12/h/x": "b /mcp/12/h/x", "/mcp/1": "a /mcp/1", "/mcp/2/h/x": "404 Not Found", "/": "404 Not Found",
	} {
		if got := ask(http.MethodPost, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := a.TakeAccepted() + b.TakeAccepted(); got != 1 {
		t.Errorf("%d connections were charged, want 1", got)
	}
	for _, prefix := range []string{"/mcp/1", "/mcp", "", "/a/b/c", "x/y"} {
		if _, err := Listen(ListenerOptions{Shared: s, Prefix: prefix}); err == nil {
			t.Errorf("prefix %q was taken", prefix)
		}
	}
	must(t, a.Close(t.Context()))
	if got := ask(http.MethodPost, "/mcp/1/h/x"); got != "404 Not Found" {
		t.Errorf("after it left: %q", got)
	}
	if got := ask(http.MethodGet, "/.well-known/x"); got != "b /.well-known/x" {
		t.Errorf("a document of the origin: %q", got)
	}
	if _, err := Listen(ListenerOptions{Shared: s, Prefix: "/mcp/1", Handler: says("again")}); err != nil {
		t.Error(err)
	}
}
