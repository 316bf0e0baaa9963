package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/witness"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// group is how many emissions overlap: the server below answers none of them
// before it has all of them.
const group = 4

// overlapping is a server that keeps an order of its own among emissions that
// overlap, and leaves some out, with and without saying so.
type overlapping struct {
	mu      sync.Mutex
	pending map[uint32][]published // by number of the group
	fired   []eventmeter.Stamp
	streams map[chan string]bool
	places  []string // probe ids, in the server's order: cursor n is behind the nth
}

type published struct {
	stamp eventmeter.Stamp
	data  json.RawMessage
	done  chan struct{}
}

func newOverlapping(t *testing.T) (s *overlapping, url string) {
	s = &overlapping{pending: map[uint32][]published{}, streams: map[chan string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *overlapping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Data   json.RawMessage
	}
	if json.Unmarshal(body, &m) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	say := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case r.URL.Path == "/inject":
		stamp, _ := eventmeter.FindStamp(body)
		p := published{stamp, m.Data, make(chan struct{})}
		s.publish(p)
		select {
		case <-p.done:
			w.WriteHeader(http.StatusAccepted)
		case <-r.Context().Done():
		}
	case m.Method == "server/discover":
		say(
			`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"events":{}},` +
				`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"overlapping","version":"1"}}}`,
		)
	case m.Method == "events/list":
		say(
			`{"events":[{"name":"e","description":"e","delivery":["push"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"}}]}`,
		)
	case m.Method == "events/stream":
		s.stream(w, r)
	default:
		http.Error(w, "not known", http.StatusNotFound)
	}
}

func (s *overlapping) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := make(chan string, 1000)
	s.mu.Lock()
	s.streams[out] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, out)
		s.mu.Unlock()
	}()
	out <- `{"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":null}}`
	for {
		select {
		case text := <-out:
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// publish keeps an emission until its group is whole, and then delivers what it
// does not leave out, the newest first.
func (s *overlapping) publish(p published) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fired = append(s.fired, p.stamp)
	number := (p.stamp.Seq - 1) / group
	all := append(s.pending[number], p)
	s.pending[number] = all
	if len(all) < group {
		return
	}
	slices.SortFunc(all, func(a, b published) int { return cmp.Compare(b.stamp.Seq, a.stamp.Seq) })
	for i, p := range all {
		// Some are left out, and a gap is announced at the place of some of them.
		var skip, gap bool
		switch number % 7 {
		case 1: // one, silently
			skip = i == 1
		case 2: // two, and one of them is announced
			skip, gap = i == 1 || i == 3, i == 1
		case 3: // all, announced once
			skip, gap = true, i == 2
		case 5: // one, announced too late …
			skip = i == 3
		case 6: // … beside what happened later
			gap = i == 1
		}
		if gap {
			s.tell(
				fmt.Sprintf(
					`{"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":"%d","truncated":true}}`,
					len(s.places),
				),
			)
		}
		s.places = append(s.places, p.stamp.String())
		if !skip {
			s.tell(
				fmt.Sprintf(
					`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"%d","name":"e",`+
						`"timestamp":"2026-01-01T00:00:00Z","data":%s,"cursor":"%d"}}`,
					p.stamp.Seq,
					p.data,
					len(s.places),
				),
			)
		}
	}
	// The heartbeat's cursor is behind all of the group, come or not.
	s.tell(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{"cursor":"%d"}}`, len(s.places)))
	for _, p := range all {
		close(p.done)
	}
}

func (s *overlapping) tell(text string) {
	for out := range s.streams {
		out <- text
	}
}

// judge says what a client that knows no more than the order of arrival, and
// which emissions overlapped, can say of what is missing.
func judge(fired []eventmeter.Stamp, log []string) (silent, announced, unknown, falseAlarms int64) {
	come := map[string]int{}
	for i, id := range log {
		if id != witness.Gap {
			come[id] = i
		}
	}
	of := func(s eventmeter.Stamp) uint32 { return (s.Seq - 1) / group }
	backed := map[int]bool{}
	for _, x := range fired {
		if _, ok := come[x.String()]; ok {
			continue
		}
		// x lies after everything of the groups before, and before everything of
		// those after.
		after, before, beside := -1, len(log), false
		for _, y := range fired {
			at, ok := come[y.String()]
			switch {
			case !ok:
			case of(y) < of(x):
				after = max(after, at)
			case of(y) > of(x):
				before = min(before, at)
			default:
				beside = true
			}
		}
		gap := false
		for i := after + 1; i < before; i++ {
			if log[i] == witness.Gap {
				gap, backed[i] = true, true
			}
		}
		switch {
		case !gap:
			silent++
		case beside:
			unknown++
		default:
			announced++
		}
	}
	for i, id := range log {
		if id == witness.Gap && !backed[i] {
			falseAlarms++
		}
	}
	return silent, announced, unknown, falseAlarms
}

// TestAnnouncedBesideWitness runs against a server that leaves events out while
// emissions overlap, with a witness beside the run that keeps the order of what
// it gets. No loss is called silent, or announced, that is not by that order.
func TestAnnouncedBesideWitness(t *testing.T) {
	t.Parallel()
	s, url := newOverlapping(t)
	w := witness.Push(t.Context(), witness.Options{URL: url, Event: "e"})
	<-w.Ready()
	const subs = 3
	// Groups are so far apart that they do not overlap on a busy machine.
	p, err := profiles.Parse("test", []byte(fmt.Sprintf(`name: test
target: {url: "%s"}
lanes:
  - {name: push, mode: push, subscriptions: %d, event: e}
phases: {warmup: 0s, measure: 7500ms, drain: 2s}
schedule: {kind: burst, burst: %d, every: 500ms}
upstream: {admin: "%s", workers: 16, payload: {text: "{{.Probe}}"}}
`, url, subs, group, url)), nil, systems.Table)
	must(t, err)
	out := runs(t, Options{Profile: p})
	l := out.Result.Lanes[0]
	caughtUp(w, l.Delivered/subs)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	silent, announced, unknown, alarms := judge(s.fired, w.Log())
	if silent == 0 || announced == 0 || unknown == 0 || alarms == 0 {
		t.Fatalf(
			"the witness saw %d silent, %d announced and %d of unknown order, %d false alarms: the server did not what it should",
			silent,
			announced,
			unknown,
			alarms,
		)
	}
	// Each loss that is silent stands alone, and is claimed by the heartbeat of
	// the next group whose last event came.
	got := [...]int64{l.Expected, l.Delivered, l.LostSilent, l.LostAnnounced, l.LostOrderUnknown, l.Gaps.FalseAlarms, l.Gaps.Overclaimed}
	want := [...]int64{int64(len(s.fired)), int64(w.Distinct()), silent, announced, unknown, alarms, silent}
	for i := range want {
		want[i] *= subs
	}
	if got != want {
		t.Errorf("expected, delivered, silent, announced, unknown, false alarms, overclaimed:\n got %v\nwant %v", got, want)
	}
	// Nothing of what overlapped was in the order of its numbers.
	if l.OutOfOrder != 0 {
		t.Errorf("%d out of order among emissions that overlap", l.OutOfOrder)
	}
	if !slices.ContainsFunc(out.Result.Warnings, func(w results.Warning) bool { return w.Code == "order-unknown" }) {
		t.Errorf("no warning that the order is unknown: %+v", out.Result.Warnings)
	}
}
