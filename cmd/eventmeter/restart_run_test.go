package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/results"
)

// restarted is a server that is killed, and started again over the same state. The run
// knows it by an address that stays the same, where requests wait while there is none, and
// publishes through /publish, one event at a time. The first event from lost on is taken and
// not delivered; the kill follows.
type restarted struct {
	t     *testing.T
	opts  embedded.Options
	lost  uint32
	subs  int64
	front *httptest.Server

	mu      sync.Mutex
	taken   int64 // events that the first process took and delivers
	again   bool
	process *exec.Cmd

	up    sync.RWMutex // held while there is no server
	ready embedded.Ready
}

func newRestarted(t *testing.T, subs int64, lost uint32, opts embedded.Options) *restarted {
	t.Helper()
	s := &restarted{t: t, opts: opts, lost: lost, subs: subs}
	s.opts.State = filepath.Join(t.TempDir(), "state.json")
	first := s.opts
	var err error
	if first.Faults, err = faults.Parse(fmt.Sprintf("drop(every=1, from=%d)", lost)); err != nil {
		t.Fatal(err)
	}
	s.start(first)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(s.backend()) }, FlushInterval: -1}
	mux := http.NewServeMux()
	mux.HandleFunc("/publish", s.publish)
	mux.Handle("/", proxy)
	s.front = httptest.NewServer(mux)
	t.Cleanup(s.front.Close)
	return s
}

func (s *restarted) start(opts embedded.Options) {
	s.up.Lock()
	defer s.up.Unlock()
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
	s.ready, s.process = serveTargetWith(s.t, opts)
}

// now is where the process that runs is.
func (s *restarted) now() embedded.Ready {
	s.up.RLock()
	defer s.up.RUnlock()
	return s.ready
}

func (s *restarted) backend() *url.URL {
	u, err := url.Parse(s.now().URL)
	if err != nil {
		s.t.Error(err)
		return &url.URL{}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}
}

// publish passes an event on to the process that runs.
func (s *restarted) publish(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	stamp, ok := eventmeter.FindStamp(body)
	if err != nil || !ok {
		http.Error(w, "no probe", http.StatusBadRequest)
		return
	}
	last := !s.again && stamp.Seq >= s.lost
	if last {
		s.settle(r)
	}
	resp, err := http.Post(s.now().Admin+"/inject", "application/json", strings.NewReader(string(body)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	resp.Body.Close()
	switch {
	case last:
		s.again = true
		s.start(s.opts)
	case !s.again:
		s.taken++
	}
	w.WriteHeader(resp.StatusCode)
}

// settle waits until everything that was taken has been delivered to everyone.
func (s *restarted) settle(r *http.Request) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.stats().Deliveries.Webhook < s.taken*s.subs {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// restartedStats are the counts of the process that runs.
type restartedStats struct {
	Deliveries                      struct{ Webhook int64 }
	Verifications, Gaps, Subscribed int64
	Resumable                       struct{ Started int64 }
}

func (s *restarted) stats() (out restartedStats) {
	if err := json.Unmarshal([]byte(getText(s.t, s.now().Admin+"/stats")), &out); err != nil {
		s.t.Error(err)
	}
	return out
}

// TestWebhooksSurviveARestart runs webhooks without an expiry against a server that is
// killed and started again over its state. Nobody subscribes again or proves a callback
// again; what was published before the kill and not delivered is lost, and announced, in no order; all
// that comes after is delivered.
func TestWebhooksSurviveARestart(t *testing.T) {
	t.Parallel()
	const subs = 4
	s := newRestarted(t, subs, 5, embedded.Options{AllowPrivateCallbacks: true, CallbackInsecure: true})
	r, stderr := runOver(t, fmt.Sprintf(`name: restart
target: {url: "%[1]s/mcp", tokens: [a, b]}
lanes:
  - {name: hooks, mode: webhook, subscriptions: %[2]d, event: chat.message, webhook: {ttl: none}}
upstream: {kind: http, workers: 1, http: {url: "%[1]s/publish", body: '{"name":"chat.message","data":{"channel":"c","text":"{{.Probe}}"}}'}}
schedule: {kind: constant, rate: 5/s}
phases: {warmup: 0s, measure: 8s, drain: 5s}
`, s.front.URL, subs))
	l, u := r.Lanes[0], r.Upstream
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.again || u.Accepted != u.Published || u.Accepted <= s.taken+1 {
		t.Fatalf(
			"restarted %t, %d of %d events accepted, %d before the kill: that says nothing\n%s",
			s.again,
			u.Accepted,
			u.Published,
			s.taken+1,
			stderr,
		)
	}
	got := [...]int64{
		l.Expected,
		l.Delivered,
		l.LostOrderUnknown,
		l.LostSilent,
		l.LostAnnounced,
		l.Gaps.FalseAlarms,
		l.Unexpected,
		l.Overhead.Causes["subscribe"].Requests,
		l.Overhead.Causes["verification"].Requests,
	}
	want := [...]int64{u.Accepted * subs, (u.Accepted - 1) * subs, subs, 0, 0, 0, 0, subs, subs}
	if got != want {
		t.Errorf(
			"expected, delivered, unknown, silent, announced, false alarms, unexpected, subscribes, challenges:\n got %v\nwant %v\n%s",
			got,
			want,
			stderr,
		)
	}
	if stats := s.stats(); stats.Gaps != subs || stats.Verifications != 0 || stats.Subscribed != 0 ||
		stats.Deliveries.Webhook != (u.Accepted-s.taken-1)*subs {
		t.Errorf("the second process: %+v", stats)
	}
}

// runOver runs a profile to its end.
func runOver(t *testing.T, profile string) (r *results.Result, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "restart.yaml")
	must(t, os.WriteFile(file, []byte(profile), 0o600))
	stdout, stderr, code := execute(t, "run", "--quiet", "--format=json", "--profile", file)
	if code != exitOK && code != exitBottleneck { // a busy machine drops events
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	r, err := results.Read(strings.NewReader(stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	return r, stderr
}

// TestRequestsSurviveARestart kills a server while it works on requests of SEP-975. Their
// work is done again over the state, clients resume with their tokens, and every message
// comes.
func TestRequestsSurviveARestart(t *testing.T) {
	t.Parallel()
	const subs, steps, logs = 4, 30, 6
	s := newRestarted(t, subs, 1, embedded.Options{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for s.stats().Resumable.Started < subs {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
		}
		s.start(s.opts)
	}()
	r, stderr := runOver(t, fmt.Sprintf(`name: restart
target: {url: "%s/mcp", tokens: [a, b]}
lanes:
  - {name: requests, system: sep-975, mode: push, subscriptions: %d, sep975: {steps: %d, step: 250ms, logEvery: 5, disconnect: none}}
upstream: {kind: none}
phases: {warmup: 0s, measure: 2s, drain: 60s}
`, s.front.URL, subs, steps))
	<-killed
	f := r.Lanes[0].Figures
	n := f["requestsBegun"]
	if n < subs || f["breaks"] == 0 {
		t.Fatalf("%v requests, %v of their connections broke: that says nothing\n%s", n, f["breaks"], stderr)
	}
	got := [...]float64{
		f["requestsCompleted"],
		f["requestsFailed"],
		f["messagesExpected"],
		f["messagesDelivered"],
		f["messagesLost"],
		f["policiesEarly"],
		f["resultsWrong"],
		f["unbalanced"],
	}
	if want := [...]float64{n, 0, n * (steps + logs + 1), n * (steps + logs + 1), 0, 0, 0, 0}; got != want {
		t.Errorf("completed, failed, expected, delivered, lost, refused, wrong, unbalanced:\n got %v\nwant %v\n%s", got, want, stderr)
	}
}
