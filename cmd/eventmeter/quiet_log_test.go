package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNothingElsePrints: net/http writes what a target sends unasked to the standard logger.
func TestNothingElsePrints(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		const answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
		if _, err := conn.Write([]byte(answer + "UNASKED " + r.Header.Get("Authorization") + "\r\n")); err != nil {
			t.Error(err)
		}
		_, _ = conn.Read(make([]byte, 1)) // until the client hangs up
	}))
	defer srv.Close()
	for _, args := range [][]string{
		{"discover", "--target", srv.URL, "--token", "topsecret"},
		{"run", "--profile", "smoke", "--quiet", "--target", srv.URL, "--token", "topsecret", "--upstream-url", srv.URL},
	} {
		stdout, stderr, code := execute(t, args...)
		if code != exitTarget || strings.Contains(stdout+stderr, "UNASKED") || strings.Contains(stdout+stderr, "topsecret") ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d\n%s%s", args[0], code, stdout, stderr)
		}
	}
}
