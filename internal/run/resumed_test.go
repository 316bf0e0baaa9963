package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/results"
)

// resumedAfter is how long a poller has to be away to be taken for one that resumes.
const resumedAfter = time.Second

// forgetful stands before a server. It accepts every cursor, and begins at now where a
// subscription is opened with one.
func forgetful(t *testing.T, target string) string {
	to, err := url.Parse(target)
	must(t, err)
	var mu sync.Mutex
	polled := map[string]time.Time{} // by arguments
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.URL.Path = to.Path }, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m map[string]any
		if err := json.Unmarshal(body, &m); err == nil {
			params, _ := m["params"].(map[string]any)
			again := m["method"] == "events/stream" || m["method"] == "events/subscribe"
			if m["method"] == "events/poll" {
				key := fmt.Sprint(params["arguments"])
				mu.Lock()
				again = time.Since(polled[key]) > resumedAfter
				polled[key] = time.Now()
				mu.Unlock()
			}
			if again {
				params["cursor"] = nil
				body, _ = json.Marshal(m)
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestResumedBesideWitness opens subscriptions again with the cursors that they had. Behind
// a proxy that takes the cursors away they get nothing of what was published meanwhile,
// which the witness got, and each that was open long enough is counted. Without it, none is.
func TestResumedBesideWitness(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprint(forgets), func(t *testing.T) {
			t.Parallel()
			s := runtest.StartTarget(t, refserver.Options{
				Tokens: []string{"t", "w"}, NextPoll: 50 * time.Millisecond, AllowPrivateCallbacks: true, CallbackInsecure: true,
			})
			at := s.URL()
			if forgets {
				at = forgetful(t, at)
			}
			w := witness.Push(t.Context(), witness.Options{URL: s.URL(), Token: "w", Event: "chat.message"})
			<-w.Ready()
			out := runs(t, Options{Profile: parseProfile(t, `name: test
target: {url: "`+at+`", tokens: [t]}
lanes:
  - {name: push, mode: push, subscriptions: 1, event: chat.message, churn: {rate: 1/s, pause: 1200ms}, events: {resume: true}}
  - name: poll
    mode: poll
    subscriptions: 1
    event: chat.message
    churn: {rate: 1/s, pause: 1200ms}
    events: {resume: true}
    poll: {minInterval: 20ms}
  - {name: hook, mode: webhook, subscriptions: 1, event: chat.message, churn: {rate: 1/s, pause: 1200ms}, events: {resume: true}}
upstream: {admin: "`+s.AdminURL()+`", payload: {channel: c, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0s, measure: 10s, drain: 500ms}
`)})
			if published := out.Result.Upstream.Accepted; caughtUp(w, published) != published {
				t.Fatalf("the witness got %d of %d events", w.Distinct(), published)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			for _, l := range out.Result.Lanes {
				resumed, n := int64(l.Figures["resumed"]), l.Gaps.NotReplayed
				t.Logf("%s: %d resumed, %d in vain, %d replayed", l.Name, resumed, n, l.Detail.Replayed)
				if resumed == 0 || !forgets && n != 0 || forgets && (n == 0 || n > resumed || l.Detail.Replayed != 0) {
					t.Errorf("%s: %d of %d resumed in vain, %d events replayed", l.Name, n, resumed, l.Detail.Replayed)
				}
				warned := slices.ContainsFunc(out.Result.Warnings, func(w results.Warning) bool { return w.Code == "not-replayed" && w.Lane == l.Name })
				if warned != forgets {
					t.Errorf("%s: warned %t", l.Name, warned)
				}
			}
		})
	}
}
