package refserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// scriptedFeed gives one answer after the other, and then 304 for ever.
type scriptedFeed struct {
	*httptest.Server
	asked chan string
}

func newScriptedFeed(t *testing.T, answers ...func(http.ResponseWriter)) *scriptedFeed {
	f := &scriptedFeed{asked: make(chan string, 64)}
	n := 0
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case f.asked <- r.URL.Query().Get("since") + " " + r.Header.Get("If-None-Match"):
		default:
		}
		if n++; n <= len(answers) { // the server sends one request at a time
			answers[n-1](w)
			return
		}
		w.WriteHeader(http.StatusNotModified)
	}))
	t.Cleanup(f.Close)
	return f
}

func says(status int, tag, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", tag)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestFeedIsPolledAndPublished(t *testing.T) {
	f := newScriptedFeed(
		t,
		says(200, `"1"`, `{"changes":[{"event":"tick","data":{"n":1}},{"event":"nonsense","data":{}}],"cursor":"c1","hasMore":true}`),
		says(
			200,
			`"2"`,
			`{"changes":[{"id":"x","event":"tick","time":"2026-01-01T00:00:00Z","data":{"n":2}}],"cursor":"c2","hasMore":false}`,
		),
		says(200, `"3"`, `{"changes":[],"cursor":"c2","hasMore":false}`),
		says(304, `"3"`, ``),
		says(500, ``, `oops`),
		says(200, ``, `not JSON`),
		says(200, ``, `{"changes":[]}`),
		says(410, ``, `{"error":"gone"}`),
		says(200, `"4"`, `{"changes":[{"event":"tick","data":{"n":3}}],"cursor":"d1","hasMore":false}`),
	)
	s := startServer(t, Options{Feed: f.URL + "/changes?key=k", FeedEvery: time.Millisecond})
	want := []string{" ", "c1 ", "c2 ", `c2 "3"`, `c2 "3"`, `c2 "3"`, `c2 "3"`, `c2 "3"`, " ", "d1 "}
	for i, w := range want {
		if got := <-f.asked; got != w {
			t.Errorf("request %d: %q, want %q", i+1, got, w)
		}
	}
	if got := s.Stats().Events; got != 3 {
		t.Errorf("%d events were published, want 3", got)
	}
}

func TestFeedAddress(t *testing.T) {
	for _, bad := range []string{"x", "ftp://127.0.0.1/", "http://"} {
		if _, err := New(Options{Feed: bad}); err == nil || !strings.Contains(err.Error(), "want an address like") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
