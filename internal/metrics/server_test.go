package metrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestServerIsScrapedAndEnds(t *testing.T) {
	r, _, _ := follow(t, history(t))
	s, err := Serve("127.0.0.1:0", r, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, kind := scrape(t, s.URL(), "")
	if !strings.Contains(text, "eventmeter_deliveries_total"+ofLane+"} 2\n") || !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("a scrape has %s and brings\n%s", kind, text)
	}
	// Native histograms are in no text.
	if _, kind := scrape(
		t,
		s.URL(),
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	); !strings.HasPrefix(
		kind,
		"application/vnd.google.protobuf",
	) {
		t.Errorf("protobuf was asked for, and %s came", kind)
	}
	// What was scraped before the end does not count.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Linger(ctx, time.Hour) {
		t.Error("a scrape before the end ends the wait")
	}
	scrape(t, s.URL(), "")
	if !s.Linger(t.Context(), time.Hour) {
		t.Error("a scrape at the end does not end the wait")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp, err := http.Get(s.URL()); err == nil {
		resp.Body.Close()
		t.Error("it answers when it is closed")
	}
	http.DefaultClient.CloseIdleConnections()
}

func scrape(t *testing.T, url, accept string) (text, kind string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a scrape: %s, %v", resp.Status, err)
	}
	return string(all), resp.Header.Get("Content-Type")
}

func TestLingerEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{scraped: make(chan struct{})}
		began := time.Now()
		if s.Linger(t.Context(), 15*time.Second) || time.Since(began) != 15*time.Second {
			t.Errorf("nobody scrapes, and it waits for %v", time.Since(began))
		}
	})
}

func TestServerRefusals(t *testing.T) {
	r, _, _ := follow(t, history(t))
	s, err := Serve("127.0.0.1:0", r, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), "/metrics")
	for addr, want := range map[string]string{
		taken:     "listen for scrapes of metrics: listen tcp " + taken + ": bind: address already in use; choose another port",
		"9464":    `metrics address "9464": address 9464: missing port in address; want :9464 or host:port`,
		":nosuch": "listen for scrapes of metrics",
	} {
		if s, err := Serve(addr, r, ServerOptions{}); err == nil {
			_ = s.Close()
			t.Errorf("%s is taken", addr)
		} else if !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), "Only one usage of each socket address") {
			t.Errorf("%s: %v, want %s", addr, err, want)
		}
	}
}

// Profiles are served only where they are asked for, and never the command line,
// which may hold a token.
func TestServerProfiles(t *testing.T) {
	r, _, _ := follow(t, history(t))
	for _, asked := range []bool{false, true} {
		s, err := Serve("127.0.0.1:0", r, ServerOptions{Profiles: asked})
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(s.URL(), "/metrics")
		for path, want := range map[string]bool{
			"/debug/pprof/heap": asked, "/debug/pprof/goroutine": asked,
			"/debug/pprof/profile?seconds=1": asked, "/debug/pprof/cmdline": false,
		} {
			resp, err := http.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil {
				t.Fatal(err)
			}
			// A profile is gzip-compressed protobuf.
			if got := resp.StatusCode == http.StatusOK && bytes.HasPrefix(body, []byte{0x1f, 0x8b}); got != want {
				t.Errorf("asked %v: %s: %s, %d bytes; want a profile: %v", asked, path, resp.Status, len(body), want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
