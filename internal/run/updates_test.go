package run

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// plainServer is an MCP server as most are today: it tells subscribers that a
// resource changed, by its URI, and sends no payload. It shares no code with
// the generator, and counts what it writes. POST /change/NAME changes the
// resource event://NAME.
type plainServer struct {
	modern bool
	every  int           // 1: an update for each change; 2: one for two changes (coalesced)
	mute   bool          // after the tenth change nobody is told any more
	late   time.Duration // until a HEAD request is answered

	mu       sync.Mutex
	sessions map[string]*plainSession
	changes  map[string]int
	written  int
}

type plainSession struct {
	uris map[string]bool
	meta string // what each update says beside its URI
	out  chan string
}

func (s *plainServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if len(r.URL.Path) > len("/change/") {
		s.change("event://" + r.URL.Path[len("/change/"):])
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			URI           string
			Notifications struct{ ResourceSubscriptions []string }
		}
	}
	_ = json.Unmarshal(body, &m)
	id := r.Header.Get("Mcp-Session-Id")
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}
	switch {
	case r.Method == http.MethodHead:
		select {
		case <-time.After(s.late):
		case <-r.Context().Done():
		}
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodGet:
		s.mu.Lock()
		session := s.sessions[id]
		s.mu.Unlock()
		s.stream(w, r, session)
	case m.Method == "server/discover" && s.modern:
		answer(
			`"result":{"resultType":"complete","supportedVersions":["2026-07-28"],` +
				`"capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"plain","version":"1"}}`,
		)
	case m.Method == "initialize" && !s.modern:
		s.mu.Lock()
		id = strconv.Itoa(len(s.sessions))
		s.sessions[id] = &plainSession{uris: map[string]bool{}, out: make(chan string, 10_000)}
		s.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
		answer(
			`"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"plain","version":"1"}}`,
		)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "resources/subscribe":
		s.mu.Lock()
		s.sessions[id].uris[m.Params.URI] = true
		s.mu.Unlock()
		answer(`"result":{}`)
	case m.Method == "resources/unsubscribe":
		answer(`"result":{}`)
	case m.Method == "events/list":
		answer(`"result":{"events":[]}`)
	case m.Method == "subscriptions/listen":
		session := &plainSession{uris: map[string]bool{}, out: make(chan string, 10_000),
			meta: fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, m.ID)}
		for _, uri := range m.Params.Notifications.ResourceSubscriptions {
			session.uris[uri] = true
		}
		list, _ := json.Marshal(m.Params.Notifications.ResourceSubscriptions)
		session.out <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",`+
			`"params":{"notifications":{"resourceSubscriptions":%s}%s}}`, list, session.meta)
		s.mu.Lock()
		s.sessions[string(m.ID)] = session
		s.mu.Unlock()
		s.stream(w, r, session)
	default:
		answer(`"error":{"code":-32601,"message":"no such method"}`)
	}
}

func (s *plainServer) stream(w http.ResponseWriter, r *http.Request, session *plainSession) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.Flush()
	for {
		select {
		case text := <-session.out:
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = out.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *plainServer) change(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes[uri]++
	if s.changes[uri]%s.every != 0 || s.mute && s.changes[uri] > 10 {
		return
	}
	for _, session := range s.sessions {
		if session.uris[uri] {
			session.out <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q%s}}`, uri, session.meta)
			s.written++
		}
	}
}

// runPlain fires 20 events a second for two seconds at each of two resources,
// after a warm-up of a tenth of a second. Each of 4 subscriptions hears one.
func runPlain(t *testing.T, s *plainServer) (results.Lane, *results.Result) {
	t.Helper()
	s.sessions, s.changes = map[string]*plainSession{}, map[string]int{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	era := "legacy"
	if s.modern {
		era = "modern"
	}
	p, err := profiles.Parse("test", []byte(`name: plain
target: {url: "`+server.URL+`/mcp", era: `+era+`}
lanes:
  - {name: all, system: sep-1803, mode: push, subscriptions: 4, event: "event://r{n}",
      arguments: {n: "{{mod .Index 2}}"}, sources: "{{mod .Index 2}}"}
upstream: {kind: http, sources: 2, http: {url: "`+server.URL+`/change/r{{.Source}}", body: "{{.Probe}}"}}
schedule: {kind: constant, rate: 40/s}
phases: {warmup: 100ms, measure: 2s, drain: 1s}
`), nil, systems.Table)
	must(t, err)
	out := runs(t, Options{Profile: p})
	return out.Result.Lanes[0], out.Result
}

// A server that sends {uri} and no payload announces every change, and nothing
// is lost. No update names its event, so none is owed by its id: the lane says
// how many updates it observed, which must be what the server wrote.
func TestUpdatesWithoutPayload(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%t", modern), func(t *testing.T) {
			t.Parallel()
			s := &plainServer{modern: modern, every: 1}
			l, r := runPlain(t, s)
			if l.LostSilent+l.LostAnnounced+l.Expected+l.Delivered != 0 {
				t.Errorf(
					"%d expected, %d delivered, %d lost silently: no event can be told from another",
					l.Expected,
					l.Delivered,
					l.LostSilent,
				)
			}
			if got := l.Figures["updatesObserved"]; got == 0 || got != float64(s.written) {
				t.Errorf("%v updates observed, and the server wrote %d", got, s.written)
			}
			if want := 2 * r.Upstream.Accepted; l.Detail.Unidentified != want || want == 0 {
				t.Errorf("%d unidentified, want %d", l.Detail.Unidentified, want)
			}
			// One event of a resource at a time, 50 ms and more apart: where the
			// machine keeps up, each update names its event.
			if got := l.Figures["updatesIdentified"]; got < 1 || got > float64(s.written) {
				t.Errorf("%v updates identified of %d", got, s.written)
			}
			if got := l.Timings["updateLatency"]; got.Count == 0 || got.Count > 2*r.Upstream.Accepted || got.Min < 0 ||
				l.Timings["updateLatencySent"].Count != got.Count {
				t.Errorf("latency of updates: %+v", got)
			}
			if !warned(r, "observed-updates", fmt.Sprintf("%d updates named a resource and no event", s.written)) ||
				warned(r, "other-traffic", "") {
				t.Errorf("warnings: %v", r.Warnings)
			}
		})
	}
}

// Where one update stands for two changes, nothing is lost either, and no
// latency is made up.
func TestUpdatesThatCoalesce(t *testing.T) {
	t.Parallel()
	s := &plainServer{every: 2}
	l, _ := runPlain(t, s)
	// The last change of a resource may have no update after it.
	if l.LostSilent > 4 || l.LostSilent != l.Expected || l.Figures["updatesObserved"] != float64(s.written) ||
		l.Figures["updatesIdentified"] != 0 ||
		l.Timings["updateLatency"].Count != 0 {
		t.Errorf("%d lost silently, figures %v, written %d", l.LostSilent, l.Figures, s.written)
	}
}

// What no update came after is lost for certain.
func TestUpdatesThatStop(t *testing.T) {
	t.Parallel()
	s := &plainServer{every: 1, mute: true}
	l, r := runPlain(t, s)
	// Of each resource at least the changes after the eleventh are lost: an
	// update on its way may cover the eleventh.
	var changes int
	for _, n := range s.changes {
		changes += n
	}
	least, most := int64(2*(changes-2*11)), int64(2*(changes-2*10))
	if l.LostSilent < least || l.LostSilent > most || l.Expected != l.LostSilent ||
		l.Detail.Unidentified+l.LostSilent != 2*r.Upstream.Accepted {
		t.Errorf(
			"%d lost silently, want %d to %d; %d expected, %d unidentified, %d accepted",
			l.LostSilent,
			least,
			most,
			l.Expected,
			l.Detail.Unidentified,
			r.Upstream.Accepted,
		)
	}
	if got := l.Figures["updatesObserved"]; got != float64(s.written) || s.written != 2*2*10 {
		t.Errorf("%v observed, %d written", got, s.written)
	}
}

// A target that is slow to say that it is there has lost something, and is not gone.
func TestASlowTargetIsNotGone(t *testing.T) {
	t.Parallel()
	if l, r := runPlain(t, &plainServer{every: 1, mute: true, late: returnWithin + 500*time.Millisecond}); l.LostSilent == 0 || r.Partial {
		t.Errorf("%d lost silently, partial %v (%s)", l.LostSilent, r.Partial, r.Reason)
	}
}
