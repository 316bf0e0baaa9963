package run

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

// pollServer is an MCP server that only polls know, written for these tests. It
// keeps one log of all channels. An answer covers page entries of the log and
// leaves out those of other channels, so many answers are empty, say hasMore
// and have another cursor. Publishing is a POST to /publish.
type pollServer struct {
	page int
	next time.Duration // nextPollMs; 0 = none is sent
	// opening is how long a poll without a cursor waits for its answer.
	opening time.Duration
	// holding, if not 0, is after how many polls without a cursor all others are
	// never answered.
	holding int
	// endless says hasMore in every answer, with a cursor that always moves,
	// and gives no event.
	endless bool

	mu     sync.Mutex
	log    []logged
	polls  int
	moves  int
	opened int
	asked  map[string]int // polls by channel, until something is published
	paced  bool           // every channel was polled twice before
}

type logged struct {
	channel string
	text    string
}

func (s *pollServer) start(t *testing.T) *httptest.Server {
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

func (s *pollServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/publish" {
		var m struct{ Channel, Text string }
		if json.Unmarshal(body, &m) != nil || m.Text == "" {
			http.Error(w, "channel and text are needed", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		if s.log == nil {
			s.paced = len(s.asked) > 0 && !slices.Contains(slices.Collect(maps.Values(s.asked)), 1)
		}
		s.log = append(s.log, logged{m.Channel, m.Text})
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Cursor    *string
			Arguments struct{ Channel string }
		}
	}
	_ = json.Unmarshal(body, &m)
	w.Header().Set("Content-Type", "application/json")
	switch m.Method {
	case "server/discover":
		fmt.Fprintf(
			w,
			`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],`+
				`"capabilities":{"events":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"log","version":"1"}}}}`,
			m.ID,
		)
	case "events/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"events":[{"name":"log.line","delivery":["poll"]}]}}`, m.ID)
	case "events/poll":
		if m.Params.Cursor == nil && s.holds() {
			<-r.Context().Done()
			return
		}
		if m.Params.Cursor == nil && s.opening > 0 {
			select {
			case <-time.After(s.opening):
			case <-r.Context().Done():
				return
			}
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, s.poll(m.Params.Cursor, m.Params.Arguments.Channel))
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

// holds counts a poll without a cursor, and tells whether it is never answered.
func (s *pollServer) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return s.holding > 0 && s.opened > s.holding
}

// poll is the result of one events/poll.
func (s *pollServer) poll(cursor *string, channel string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	if s.log == nil {
		s.asked[channel]++
	}
	if s.endless && cursor != nil {
		s.moves++
		return fmt.Sprintf(`{"events":[],"cursor":"m%d","hasMore":true}`, s.moves)
	}
	from, to := len(s.log), len(s.log)
	if cursor != nil {
		from, _ = strconv.Atoi(*cursor)
		to = min(from+s.page, len(s.log))
	}
	var events []string
	for i, e := range s.log[from:to] {
		if e.channel == channel {
			text, _ := json.Marshal(e.text)
			events = append(
				events,
				fmt.Sprintf(`{"eventId":"e%d","name":"log.line","timestamp":"2026-11-20T10:00:00Z","data":{"text":%s}}`, from+i, text),
			)
		}
	}
	next := ""
	if s.next > 0 {
		next = fmt.Sprintf(`,"nextPollMs":%d`, s.next.Milliseconds())
	}
	return fmt.Sprintf(`{"events":[%s],"cursor":"%d","hasMore":%t%s}`, strings.Join(events, ","), to, to < len(s.log), next)
}

// pollProfile has channels lanes of one subscription each, so that the figures
// of a lane are those of one subscription. rest is lane settings, schedule and
// phases.
func pollProfile(t *testing.T, url string, channels int, lane, rest string) *profiles.Profile {
	t.Helper()
	var lanes strings.Builder
	for i := range channels {
		fmt.Fprintf(
			&lanes,
			"  - {name: lane-%d, mode: poll, subscriptions: 1, event: log.line, arguments: {channel: channel-%d}, sources: \"%d\"%s}\n",
			i,
			i,
			i,
			lane,
		)
	}
	p, err := profiles.Parse("test", []byte(fmt.Sprintf(`name: test
target: {url: "%s/mcp"}
lanes:
%supstream: {kind: http, sources: %d, http: {url: "%s/publish", body: '{"channel":"channel-{{.Source}}","text":"{{.Probe}}"}'}}
%s`, url, lanes.String(), channels, url, rest)), nil, systems.Table)
	must(t, err)
	return p
}

// witnesses opens a witness for each channel.
func witnesses(t *testing.T, url string, channels int) []*witness.Witness {
	t.Helper()
	var all []*witness.Witness
	for i := range channels {
		w := witness.Poll(
			t.Context(),
			witness.Options{URL: url + "/mcp", Event: "log.line", Arguments: map[string]any{"channel": fmt.Sprintf("channel-%d", i)}},
		)
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, w)
	}
	for _, w := range all {
		select {
		case <-w.Ready():
		case <-t.Context().Done():
			t.Fatal("a witness was never ready")
		}
	}
	return all
}

// agree requires that each lane has what its witness saw, and that nothing is
// lost. It waits for the witnesses, who poll at the pace of the server.
func agree(t *testing.T, r *results.Result, seen []*witness.Witness) {
	t.Helper()
	if r.Upstream.Accepted == 0 || r.Upstream.Accepted != r.Upstream.Published {
		t.Errorf("%d of %d accepted", r.Upstream.Accepted, r.Upstream.Published)
	}
	var all int64
	for i, l := range r.Lanes {
		if n := caughtUp(
			seen[i],
			l.Delivered+l.LostSilent,
		); l.Delivered != n || l.Expected != n || l.LostSilent+l.LostAnnounced != 0 ||
			n == 0 {
			t.Errorf(
				"%s: the witness saw %d; delivered %d of %d, %d silent loss, %d excused",
				l.Name,
				n,
				l.Delivered,
				l.Expected,
				l.LostSilent,
				l.Detail.Excused,
			)
		}
		all += l.Expected
	}
	if all != r.Upstream.Accepted {
		t.Errorf("%d expected of %d accepted", all, r.Upstream.Accepted)
	}
}

// caughtUp waits until a witness, whose connection is its own, has seen that many
// events, and returns how many it has seen.
func caughtUp(seen *witness.Witness, events int64) int64 {
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for int64(seen.Distinct()) < events {
		select {
		case <-tick.C:
		case <-deadline.C:
			return int64(seen.Distinct())
		}
	}
	return int64(seen.Distinct())
}

// A poller follows hasMore through pages in which nothing is for it.
func TestPollThroughFilteredPages(t *testing.T) {
	t.Parallel() // it mostly waits
	const channels = 6
	s := &pollServer{page: 2, next: 200 * time.Millisecond}
	srv := s.start(t)
	seen := witnesses(t, srv.URL, channels)
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, channels, ", poll: {minInterval: 200ms}",
		"schedule: {kind: burst, burst: 30, every: 250ms}\nphases: {warmup: 0, measure: 1s, drain: 1s}\n")})
	agree(t, out.Result, seen)
	for _, l := range out.Result.Lanes {
		if l.Detail.Malformed != 0 {
			t.Errorf("%s: %v", l.Name, l.Detail.MalformedBy)
		}
	}
}

// A target whose cursor never stops is asked again, but not as fast as it can
// answer for ever. What its pollers never got to is not known to be lost.
func TestPollOfACursorThatNeverStops(t *testing.T) {
	const most = 1100 // 1,000 at once, then one a second
	s := &pollServer{page: 2, endless: true}
	srv := s.start(t)
	out := runs(t, Options{patience: time.Millisecond, Profile: pollProfile(t, srv.URL, 1, ", poll: {minInterval: 100ms}",
		"schedule: {rate: 20/s}\nphases: {ready: 300ms, warmup: 0, measure: 1s, drain: 500ms}\n")})
	l := out.Result.Lanes[0]
	s.mu.Lock()
	polls := s.polls
	s.mu.Unlock()
	if polls > most {
		t.Errorf("%d polls", polls)
	}
	if l.Delivered != 0 || l.LostSilent != 0 || l.Detail.Excused != out.Result.Upstream.Accepted {
		t.Errorf(
			"delivered %d, %d silent loss, %d excused of %d",
			l.Delivered,
			l.LostSilent,
			l.Detail.Excused,
			out.Result.Upstream.Accepted,
		)
	}
	if !warned(out.Result, "drain-cut", "1 of 1 pollers") {
		t.Errorf("%+v", out.Result.Warnings)
	}
}

// Nothing is published before every poller has its pace: its second poll is later than the target asks.
func TestPollersHaveTheirPaceFirst(t *testing.T) {
	t.Parallel() // it mostly waits
	s := &pollServer{page: 1000, next: 300 * time.Millisecond}
	srv := s.start(t)
	phases := "schedule: {rate: 40/s}\nphases: {ready: %s, warmup: 0, measure: 500ms, drain: 200ms}\n"
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, 8, "", fmt.Sprintf(phases, "15s"))})
	if !s.paced || warned(out.Result, "poll-pace", "") {
		t.Errorf("published before some had polled twice; %+v", out.Result.Warnings)
	}
	slow := &pollServer{page: 1000, next: time.Hour}
	out = runs(t, Options{patience: time.Millisecond,
		Profile: pollProfile(t, slow.start(t).URL, 1, "", fmt.Sprintf(phases, "500ms"))})
	if !warned(out.Result, "poll-pace", "1 of 1 pollers had not polled twice after phases.ready (500ms)") {
		t.Errorf("%+v", out.Result.Warnings)
	}
}

// The drain lasts until every poller has polled once more, however short it is.
func TestDrainWaitsForTheNextPoll(t *testing.T) {
	t.Parallel() // it mostly waits
	const channels = 4
	s := &pollServer{page: 1000, next: 1500 * time.Millisecond}
	srv := s.start(t)
	seen := witnesses(t, srv.URL, channels)
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, channels, "",
		"schedule: {kind: burst, burst: 20, every: 100ms}\nphases: {warmup: 0, measure: 600ms, drain: 200ms}\n")})
	agree(t, out.Result, seen)
	if slices.ContainsFunc(out.Result.Warnings, func(w results.Warning) bool { return w.Code == "drain-cut" }) {
		t.Errorf("%+v", out.Result.Warnings)
	}
}

// What nobody could have polled when the bound cut the drain is not lost, and
// the result says so.
func TestDrainCutBeforeTheNextPoll(t *testing.T) {
	const channels = 2
	s := &pollServer{page: 1000, next: time.Hour}
	srv := s.start(t)
	out := runs(t, Options{patience: 300 * time.Millisecond, Profile: pollProfile(t, srv.URL, channels, "",
		"schedule: {rate: 40/s}\nphases: {ready: 300ms, warmup: 0, measure: 500ms, drain: 200ms}\n")})
	var excused int64
	for _, l := range out.Result.Lanes {
		if l.LostSilent != 0 || l.Expected != 0 || l.Detail.Excused == 0 {
			t.Errorf("%s: %d silent loss, %d expected, %d excused", l.Name, l.LostSilent, l.Expected, l.Detail.Excused)
		}
		excused += l.Detail.Excused
	}
	if excused != out.Result.Upstream.Accepted || !warned(out.Result, "drain-cut", "1 of 1 pollers had not polled to the end") {
		t.Errorf("%d excused of %d accepted; %+v", excused, out.Result.Upstream.Accepted, out.Result.Warnings)
	}
}

// A poller that churn ends has not lost what it could not have polled yet.
func TestChurnEndsAPollerBetweenPolls(t *testing.T) {
	t.Parallel()
	const channels = 2
	s := &pollServer{page: 1000, next: 1200 * time.Millisecond}
	srv := s.start(t)
	seen := witnesses(t, srv.URL, channels)
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, channels, ", churn: {rate: 0.4/s, pause: 50ms}, poll: {minInterval: 100ms}",
		"schedule: {rate: 40/s}\nphases: {warmup: 0, measure: 5s, drain: 400ms}\n")})
	var got, excused int64
	for i, l := range out.Result.Lanes {
		if n := caughtUp(
			seen[i],
			l.Delivered+l.LostSilent,
		); l.LostSilent+l.LostAnnounced != 0 || l.Expected != l.Delivered || l.Delivered == 0 ||
			l.Delivered > n {
			t.Errorf("%s: %d of %d, %d silent loss; the witness saw %d", l.Name, l.Delivered, l.Expected, l.LostSilent, n)
		}
		got += l.Delivered
		excused += l.Detail.Excused
	}
	if excused == 0 || got+excused > out.Result.Upstream.Accepted {
		t.Errorf("%d delivered, %d excused of %d accepted", got, excused, out.Result.Upstream.Accepted)
	}
}

// Calls of churn that are under way when firing ends get their answers: the
// generator does not cancel them and count them as failed.
func TestChurnIsWaitedForAtTheEnd(t *testing.T) {
	s := &pollServer{page: 1000, opening: 400 * time.Millisecond}
	srv := s.start(t)
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, 4, ", churn: {rate: 10/s, pause: 1ms}, poll: {minInterval: 100ms}",
		"schedule: {rate: 40/s}\nphases: {warmup: 0, measure: 1s, drain: 400ms}\n")})
	for _, w := range out.Result.Warnings {
		if w.Code == "churn" {
			t.Errorf("%s: %s", w.Lane, w.Text)
		}
	}
	for _, l := range out.Result.Lanes {
		if len(l.Failures) > 0 {
			t.Errorf("%s: calls failed: %v", l.Name, l.Failures)
		}
	}
}

// A target that never answers a call of churn does not hold up the end of a run.
func TestChurnIsNotWaitedForForEver(t *testing.T) {
	s := &pollServer{page: 1000, holding: 4}
	srv := s.start(t)
	out := runs(t, Options{Profile: pollProfile(t, srv.URL, 4, ", churn: {rate: 10/s, pause: 1ms}, poll: {minInterval: 100ms}",
		"schedule: {rate: 40/s}\nphases: {ready: 1s, warmup: 0, measure: 1s, drain: 400ms}\n")})
	if !slices.ContainsFunc(out.Result.Warnings, func(w results.Warning) bool { return w.Code == "churn" }) {
		t.Errorf("no warning of churn: %+v", out.Result.Warnings)
	}
}

// The interval of polls is a figure: how long it was, and who set it.
func TestPollIntervalIsAFigure(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, tt := range map[string]struct {
		next         time.Duration
		paced, other string
	}{
		"server":      {150 * time.Millisecond, "pollsPacedByServer", "pollsPacedByMinInterval"},
		"minInterval": {20 * time.Millisecond, "pollsPacedByMinInterval", "pollsPacedByServer"},
		"nobody":      {0, "pollsPacedByMinInterval", "pollsPacedByServer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &pollServer{page: 1, next: tt.next}
			srv := s.start(t)
			out := runs(t, Options{Profile: pollProfile(t, srv.URL, 2, ", poll: {minInterval: 100ms}",
				"schedule: {kind: burst, burst: 8, every: 200ms}\nphases: {warmup: 0, measure: 800ms, drain: 2s}\n")})
			for _, l := range out.Result.Lanes {
				q := l.Timings["pollInterval"]
				paced, other := l.Figures[tt.paced], l.Figures[tt.other]
				if q.Count == 0 || float64(q.Count) != paced || other != 0 || q.P50.Duration() < max(tt.next, 100*time.Millisecond) {
					t.Errorf("%s: %d waits, half of them under %v, %v by the %s, %v not", l.Name, q.Count, q.P50, paced, name, other)
				}
				// Pages are followed at once: they are polls, and no waits.
				if polls := l.Overhead.Causes["emptyPoll"].Requests + l.Overhead.Causes["events"].Requests; polls <= q.Count {
					t.Errorf("%s: %d polls after the first, %d waits", l.Name, polls, q.Count)
				}
			}
		})
	}
}
