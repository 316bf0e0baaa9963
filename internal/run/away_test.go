package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// awayServer is an MCP server with push streams that replay from a cursor, written for these
// tests. Once away events were published it ends the stream of each client, with the field retry
// if that is not 0, and answers its next request for a stream with Retry-After if refuse is not 0.
// Later streams end after piece events if that is not 0. Publishing is a POST to /publish.
type awayServer struct {
	away   int
	retry  time.Duration
	refuse int // seconds
	piece  int

	mu      sync.Mutex
	log     []string
	changed chan struct{} // closed at each publication
	ended   map[bool]bool // of the witness, and of the run
	refused map[bool]bool
}

func (s *awayServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/publish" {
		s.mu.Lock()
		s.log = append(s.log, string(body))
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Cursor *string }
	}
	_ = json.Unmarshal(body, &m)
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case "server/discover":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
			`"capabilities":{"events":{}}}}`, m.ID)
	case "events/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[{"name":"log.line","delivery":["push"]}]}}`, m.ID)
	case "events/stream":
		s.stream(w, r, m.Params.Cursor, strings.Contains(string(body), `"witness"`))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

func (s *awayServer) stream(w http.ResponseWriter, r *http.Request, cursor *string, of bool) {
	s.mu.Lock()
	at := len(s.log)
	if cursor != nil {
		at, _ = strconv.Atoi(*cursor)
	}
	if s.ended[of] && s.refuse > 0 && !s.refused[of] {
		s.refused[of] = true
		s.mu.Unlock()
		w.Header().Set("Retry-After", strconv.Itoa(s.refuse))
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(method, params string) {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\",\"params\":{%s}}\n\n", method, params)
		w.(http.Flusher).Flush()
	}
	from := at
	send("active", fmt.Sprintf(`"cursor":"%d","truncated":false`, at))
	for {
		s.mu.Lock()
		log, changed, over := s.log, s.changed, !s.ended[of] && len(s.log) >= s.away
		s.ended[of] = s.ended[of] || over
		s.mu.Unlock()
		if over {
			if s.retry > 0 {
				fmt.Fprintf(w, "retry: %d\n\n", s.retry.Milliseconds())
			}
			return
		}
		for ; at < len(log); at++ {
			if s.piece > 0 && cursor != nil && at-from == s.piece {
				return
			}
			send("event", fmt.Sprintf(`"eventId":"e%d","name":"log.line","timestamp":"2026-11-20T10:00:00Z","cursor":"%d","data":%s`,
				at, at+1, log[at]))
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// A stream that waits to be opened again when the drain timeout ends gets what it missed
// first. What nobody could ask for when the bound cuts the drain is excused. Neither is loss
// of the target.
func TestDrainWaitsForStreams(t *testing.T) {
	for _, c := range []struct {
		name     string
		server   *awayServer
		backoff  string
		patience time.Duration
	}{
		{name: "retry", server: &awayServer{retry: 1800 * time.Millisecond}},
		{name: "Retry-After", server: &awayServer{refuse: 2}},
		{name: "backoff", server: &awayServer{}, backoff: ", push: {backoff: {min: 1800ms, max: 2s}}"},
		{name: "lost while it catches up", server: &awayServer{piece: 12}, backoff: ", push: {backoff: {min: 1800ms, max: 2s}}"},
		{name: "retry, cut", server: &awayServer{retry: time.Hour}, patience: 300 * time.Millisecond},
		{name: "Retry-After, cut", server: &awayServer{refuse: 3600}, patience: 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.server
			s.away, s.changed, s.ended, s.refused = 10, make(chan struct{}), map[bool]bool{}, map[bool]bool{}
			srv := httptest.NewServer(s)
			t.Cleanup(srv.Close)
			p, err := profiles.Parse("test", []byte(fmt.Sprintf(`name: test
target: {url: "%s/mcp"}
lanes: [{name: push, mode: push, subscriptions: 1, event: log.line%s}]
upstream: {kind: http, http: {url: "%s/publish", body: '{"text":"{{.Probe}}"}'}}
schedule: {rate: 40/s}
phases: {warmup: 0, measure: 1s, drain: 200ms}
`, srv.URL, c.backoff, srv.URL)), nil, systems.Table)
			must(t, err)
			seen := witness.Push(t.Context(), witness.Options{URL: srv.URL + "/mcp", Event: "log.line", Reopen: true})
			defer func() { _ = seen.Close() }() // its streams are lost
			<-seen.Ready()
			r := runs(t, Options{Profile: p, patience: c.patience}).Result
			l := r.Lanes[0]
			if c.patience == 0 {
				if n := caughtUp(seen, l.Delivered); n != l.Delivered {
					t.Errorf("%d delivered, the witness saw %d", l.Delivered, n)
				}
			}
			switch {
			case l.LostSilent+l.LostAnnounced != 0 || l.Expected != l.Delivered:
				t.Errorf("%d delivered of %d expected, %d silent loss", l.Delivered, l.Expected, l.LostSilent)
			case c.patience == 0 && (l.Delivered != r.Upstream.Accepted || l.Detail.Excused != 0):
				t.Errorf("%d delivered, %d excused of %d accepted", l.Delivered, l.Detail.Excused, r.Upstream.Accepted)
			case c.patience > 0 && (l.Detail.Excused < 10 || l.Delivered+l.Detail.Excused != r.Upstream.Accepted):
				t.Errorf("%d delivered, %d excused of %d accepted", l.Delivered, l.Detail.Excused, r.Upstream.Accepted)
			}
			cut := slices.ContainsFunc(r.Warnings, func(w results.Warning) bool { return w.Code == "drain-cut" })
			if cut != (c.patience > 0) {
				t.Errorf("%+v", r.Warnings)
			}
		})
	}
}
