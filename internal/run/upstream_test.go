package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// asProgram makes the test binary the program of upstream.kind exec: it tells
// the admin listener of that address of every line.
const asProgram = "EVENTMETER_TEST_ADMIN"

// asRole makes the test binary another program of the tests, by name.
const asRole = "EVENTMETER_TEST_ROLE"

var roles = map[string]func(){}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(asRole)]; role != nil {
		role()
		return
	}
	admin := os.Getenv(asProgram)
	if admin == "" {
		os.Exit(m.Run())
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		resp, err := http.Post(admin+"/inject", "application/json", strings.NewReader(`{"name":"chat.message","data":`+lines.Text()+`}`))
		if err == nil && resp.StatusCode == http.StatusAccepted {
			fmt.Println(lines.Text())
			resp.Body.Close()
		}
	}
}

// profileOf is a short profile with an upstream and a schedule of its own.
func profileOf(t *testing.T, url, rest string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("test", []byte(`name: test
target: {url: "`+url+`"}
lanes:
  - {name: all, mode: push, subscriptions: 3, event: chat.message}
  - {name: one, mode: push, subscriptions: 2, event: chat.message, arguments: {channel: channel-1}, sources: "1"}
phases: {warmup: 100ms, measure: 500ms, drain: 5s}
`+rest), nil, systems.Table)
	must(t, err)
	return p
}

const steady = "schedule: {kind: constant, rate: 40/s}\n"

// runs runs a profile and requires a whole result.
func runs(t *testing.T, o Options) *Outcome {
	t.Helper()
	out, err := Run(t.Context(), o)
	must(t, err)
	if out.Result.Partial {
		t.Errorf("partial: %s", out.Result.Reason)
	}
	for _, reason := range out.Result.Generator.Reasons {
		if strings.Contains(reason, "bug in eventmeter") {
			t.Error(reason)
		}
	}
	return out
}

// clean requires that everybody got everything that was fired, once. Scheduled
// that a busy test machine dropped were never fired.
func clean(t *testing.T, r *results.Result) {
	t.Helper()
	u := r.Upstream
	if u.Scheduled == 0 || u.Accepted != u.Published || u.Published == 0 {
		t.Errorf(
			"%d events, %d published, %d accepted, %d refused, %d uncertain",
			u.Scheduled,
			u.Published,
			u.Accepted,
			u.Refused,
			u.Uncertain,
		)
	}
	for _, l := range r.Lanes {
		if l.Delivered != l.Expected || l.Expected == 0 ||
			l.Duplicates.SameEvent+l.Duplicates.SameEmission+l.Unexpected+l.Detail.Unprobed != 0 {
			t.Errorf(
				"%s: %d of %d, %+v, %d unexpected, %d unprobed",
				l.Name,
				l.Delivered,
				l.Expected,
				l.Duplicates,
				l.Unexpected,
				l.Detail.Unprobed,
			)
		}
	}
	if r.Lanes[0].Expected != 3*u.Accepted {
		t.Errorf("%d expected of %d accepted", r.Lanes[0].Expected, u.Accepted)
	}
}

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

const chat = `payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}`

func TestFeedUpstream(t *testing.T) {
	at := freePort(t)
	s := runtest.StartTarget(t, refserver.Options{Feed: "http://" + at + "/changes", FeedEvery: 20 * time.Millisecond})
	out := runs(
		t,
		Options{Profile: profileOf(t, s.URL(), steady+"upstream: {kind: feed, sources: 2, feed: {listen: '"+at+"'}, "+chat+"}\n")},
	)
	clean(t, out.Result)
	u := out.Result.Upstream
	f := u.Figures
	if f["feedUnfetched"] != 0 || f["feedRepeated"] != 0 || f["feedServed"] != float64(u.Published+u.Warmup) || f["feedGone"] != 0 ||
		f["feedRequests"] != f["feedEmpty"]+f["feedWithChanges"]+f["feedNotModified"] || u.Timings["feedLag"].Count != u.Published {
		t.Errorf("%v, lag of %d", f, u.Timings["feedLag"].Count)
	}
	if p50 := u.Timings["feedLag"].P50; p50 >= out.Result.Lanes[0].Latency.FromSent.Max {
		t.Errorf(
			"half of the changes took %v to be fetched, and no client waited longer than %v",
			p50,
			out.Result.Lanes[0].Latency.FromSent.Max,
		)
	}
}

func TestToolUpstream(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			s := runtest.StartTarget(t, refserver.Options{})
			p := profileOf(t, s.URL(), steady+"upstream: {kind: tool, sources: 2, tool: {name: post_message}, "+chat+"}\n")
			p.Target.Era = era
			out := runs(t, Options{Profile: p})
			clean(t, out.Result)
			if f := out.Result.Upstream.Figures; f["toolErrors"]+f["toolRefusals"]+f["toolUnanswered"] != 0 {
				t.Errorf("%v", f)
			}
			// A tool that is not there, and arguments that it does not take.
			for what, rest := range map[string]string{"no such tool": "tool: {name: shout}, " + chat,
				"bad arguments": `tool: {name: post_message}, payload: {channel: 7, text: "{{.Probe}}"}`} {
				p := profileOf(t, s.URL(), steady+"upstream: {kind: tool, sources: 2, "+rest+"}\n")
				p.Target.Era, p.Phases.Drain = era, 0
				u := nothingAccepted(t, p).Upstream
				if u.Refused != u.Published || u.Published == 0 ||
					u.Figures["toolErrors"]+u.Figures["toolRefusals"] != float64(u.Published+u.Warmup) {
					t.Errorf("%s: %+v", what, u)
				}
			}
		})
	}
}

func TestExecUpstream(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it needs a shell")
	}
	self, err := os.Executable()
	must(t, err)
	s := runtest.StartTarget(t, refserver.Options{})
	command := fmt.Sprintf(`command: [sh, -c, '%s=%s exec "$0"', %q]`, asProgram, s.AdminURL(), self)
	out := runs(
		t,
		Options{Profile: profileOf(t, s.URL(), steady+"upstream: {kind: exec, sources: 2, exec: {"+command+", ack: true}, "+chat+"}\n")},
	)
	clean(t, out.Result)
	// A program that ends takes nothing more, and the result says why.
	p := profileOf(
		t,
		s.URL(),
		steady+"upstream: {kind: exec, sources: 2, exec: {command: [sh, -c, 'echo out of paper >&2; exit 4']}, "+chat+"}\n",
	)
	p.Phases.Drain = 0
	if r := nothingAccepted(t, p); !warned(r, "upstream-ended", "exit status 4: out of paper") {
		t.Errorf("%+v, %+v", r.Upstream, r.Warnings)
	}
	p = profileOf(t, s.URL(), steady+"upstream: {kind: exec, sources: 2, exec: {command: [/nonexistent]}, "+chat+"}\n")
	if _, err := Run(t.Context(), Options{Profile: p}); err == nil || !strings.Contains(err.Error(), "is upstream.exec.command right?") {
		t.Error(err)
	}
}

// nothingAccepted runs a profile none of whose events is taken, which is never a
// success.
func nothingAccepted(t *testing.T, p *profiles.Profile) *results.Result {
	t.Helper()
	out, err := Run(t.Context(), Options{Profile: p})
	if out == nil {
		t.Fatal(err)
	}
	if r := out.Result; !errors.Is(err, ErrTarget) || !r.Partial || !strings.Contains(r.Reason, "was accepted") ||
		r.Upstream.Accepted != 0 {
		t.Errorf("%v, partial %v (%s), %+v", err, r.Partial, r.Reason, r.Upstream)
	}
	return out.Result
}

func warned(r *results.Result, code, text string) bool {
	for _, w := range r.Warnings {
		if w.Code == code && strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}

// What one run fires is recorded, and replayed twice as fast it is the same.
func TestRecordAndReplay(t *testing.T) {
	s := runtest.StartTarget(t, refserver.Options{})
	var trace bytes.Buffer
	out := runs(
		t,
		Options{
			Record: &trace,
			Profile: profileOf(
				t,
				s.URL(),
				"schedule: {kind: poisson, rate: 40/s, seed: 3}\nupstream: {kind: inject, admin: '"+s.AdminURL()+"', sources: 2, "+chat+"}\n",
			),
		},
	)
	clean(t, out.Result)
	entries, err := upstream.ReadTrace(bytes.NewReader(trace.Bytes()))
	must(t, err)
	u := out.Result.Upstream
	if int64(len(entries)) != u.Published+u.Warmup || out.Traced != int64(len(entries)) || out.TraceErr != nil {
		t.Errorf("%d entries of %d published, %d traced, %v", len(entries), u.Published+u.Warmup, out.Traced, out.TraceErr)
	}
	if last := entries[len(entries)-1]; last.At > 600*time.Millisecond+time.Second || last.Event != "chat.message" {
		t.Errorf("last entry %+v", last)
	}
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	must(t, os.WriteFile(file, trace.Bytes(), 0o600))
	replay := fmt.Sprintf("upstream: {kind: replay, admin: %q, sources: 2, replay: {file: %q}}\n", s.AdminURL(), file)
	p := profileOf(t, s.URL(), replay+"schedule: {kind: trace, warp: 2}\n")
	p.Phases.Warmup = 0
	out = runs(t, Options{Profile: p})
	clean(t, out.Result)
	if u := out.Result.Upstream; u.Scheduled != int64(len(entries)) {
		t.Errorf("%d events of %d entries", u.Scheduled, len(entries))
	}
	for name, c := range map[string]struct{ change, want string }{
		"too fast":        {"limits: {rate: 5/s}\nschedule: {kind: trace}\n", "events within a second, above the limit of 5/s"},
		"nothing in it":   {"schedule: {kind: trace, warp: 0.0001}\n", "has no event between phases.warmup"},
		"not a trace":     {"schedule: {kind: trace, file: upstream_test.go}\n", "upstream_test.go: bad trace: line 1"},
		"not there":       {"schedule: {kind: trace, file: nowhere.jsonl}\n", "schedule.file: open nowhere.jsonl"},
		"too few sources": {"schedule: {kind: trace}\n", "set upstream.sources: 2"},
	} {
		up := replay
		if name == "too few sources" {
			up = strings.Replace(replay, "sources: 2, ", "", 1)
			p, err := profiles.Parse(
				"test",
				[]byte(
					"name: test\ntarget: {url: '"+s.URL()+"'}\nlanes: [{name: all, mode: push, subscriptions: 1, event: "+
						"chat.message}]\n"+up+c.change+"phases: {warmup: 0}\n",
				),
				nil,
				systems.Table,
			)
			must(t, err)
			if _, err := Run(t.Context(), Options{Profile: p}); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if _, err := Run(
			t.Context(),
			Options{Profile: profileOf(t, s.URL(), up+c.change)},
		); !errors.Is(err, ErrProfile) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that fires nothing measures what comes.
func TestNoUpstream(t *testing.T) {
	s := runtest.StartTarget(t, refserver.Options{NextPoll: 50 * time.Millisecond, AllowPrivateCallbacks: true, CallbackInsecure: true})
	p, err := profiles.Parse("test", []byte(`name: test
target: {url: "`+s.URL()+`", tokens: [t]}
lanes:
  - {name: all, mode: push, subscriptions: 3, event: chat.message}
  - {name: one, mode: poll, subscriptions: 2, event: chat.message, arguments: {channel: channel-1}, poll: {minInterval: 10ms}}
  - {name: hook, mode: webhook, subscriptions: 1, event: chat.message}
upstream: {kind: none}
phases: {warmup: 100ms, measure: 60s, drain: 100ms}
`), nil, systems.Table)
	must(t, err)
	var once sync.Once
	var published int
	var wg sync.WaitGroup
	var trace bytes.Buffer
	// The run is ended when everything has come, however long that takes.
	come := &counter{Recorder: eventmeter.Tee(), left: 100, done: make(chan struct{})}
	out, err := Run(t.Context(), Options{Profile: p, Record: &trace, Stop: come.done, Recorder: come, Progress: func(now Progress) {
		if now.Phase != "measure" {
			return
		}
		once.Do(func() {
			wg.Go(func() {
				for i := range 20 {
					if _, err := s.Publish("chat.message", fmt.Appendf(nil, `{"channel":"channel-%d","text":"hello"}`, i%2)); err == nil {
						published++
					}
				}
			})
		})
	}})
	wg.Wait()
	if !errors.Is(err, ErrStopped) || published != 20 {
		t.Fatalf("%d were published: %v", published, err)
	}
	r := out.Result
	for i, want := range []float64{60, 20, 20} {
		l := r.Lanes[i]
		if l.Expected != 0 || l.Delivered != 0 || l.Latency.FromSent.Count != 0 || l.Detail.Unprobed != int64(want) || l.Unexpected != 0 {
			t.Errorf("%s: %+v", l.Name, l)
		}
		f := l.Figures
		if f["observedEvents"] != want || f["observedDuplicates"] != 0 || f["observedWithoutId"] != 0 || f["observedWithoutTime"] != 0 ||
			f["observedLeast"] != f["observedMost"] || f["observedPerSecond"] <= 0 || l.Timings["observedAge"].Count != int64(want) {
			t.Errorf("%s: %v, age of %d", l.Name, f, l.Timings["observedAge"].Count)
		}
	}
	if r.Upstream.Scheduled != 0 || !warned(r, "observed-only", "nothing was published") || !warned(r, "clocks", "clock") ||
		warned(r, "other-traffic", "") ||
		warned(r, "nothing-measured", "") {
		t.Errorf("%+v, %+v", r.Upstream, r.Warnings)
	}
	// The same events came to six subscriptions, and are in the trace once.
	if entries, err := upstream.ReadTrace(
		&trace,
	); err != nil || len(entries) != 20 || string(entries[1].Payload) != `{"channel":"channel-1","text":"hello"}` ||
		entries[0].Event != "chat.message" {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// counter closes done when that many deliveries have come.
type counter struct {
	eventmeter.Recorder
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (c *counter) Delivered(eventmeter.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// A trace is of JSON objects; a run that sends something else is refused.
func TestRecordNeedsJSON(t *testing.T) {
	s := runtest.StartTarget(t, refserver.Options{})
	p := profileOf(t, s.URL(), steady+"upstream: {kind: http, sources: 2, http: {url: 'http://127.0.0.1:1/', body: 'text={{.Probe}}'}}\n")
	if _, err := Run(
		t.Context(),
		Options{Profile: p, Record: io.Discard},
	); !errors.Is(err, ErrProfile) ||
		!strings.Contains(err.Error(), "give it a payload") {
		t.Error(err)
	}
}

// A run whose every event is refused says what was sent where and what came
// back, in the error that ends it and in the warning. Values of the query stay
// out of both.
func TestRunSaysWhyNothingIsAccepted(t *testing.T) {
	s := runtest.StartTarget(t, refserver.Options{})
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no room is called lobby", http.StatusNotFound)
	}))
	defer refusing.Close()
	p := profileOf(
		t,
		s.URL(),
		`upstream: {kind: http, sources: 2, http: {url: "`+refusing.URL+`/rooms/lobby?key=s3cr3t", body: "{{.Probe}}"}}
`+steady,
	)
	p.Phases.Measure = 30 * time.Second
	out, err := Run(t.Context(), Options{Profile: p})
	const came = `: 404 Not Found: no room is called lobby`
	what := "POST " + refusing.URL + "/rooms/lobby?key=…" + came
	if !errors.Is(err, ErrTarget) ||
		!strings.Contains(err.Error(), ", the last one: "+what+"; is the target still up, and upstream (kind http) right?") {
		t.Fatalf("error: %v", err)
	}
	if !warned(out.Result, "publishing-failed", "; the first: "+what) || strings.Contains(fmt.Sprint(out.Result.Warnings, err), "s3cr3t") {
		t.Errorf("warnings: %v", out.Result.Warnings)
	}
}

// What another listener answers is quoted.
func TestOtherAnswersAreQuoted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not here\nmore", http.StatusGone)
	}))
	defer s.Close()
	if _, err := health.Start(
		health.WatchOptions{TargetMetrics: health.NewMetrics(s.URL+"/metrics?key=s3cr3t", nil)},
	); err == nil ||
		err.Error() != "metrics: GET "+s.URL+"/metrics?key=…: 410 Gone: not here" {
		t.Errorf("metrics: %v", err)
	}
	if err := CheckHost(
		t.Context(),
		nil,
		"ftp://me:hunter22@host/?key=s3cr3t",
		"target.url",
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), `"ftp://host/?key=…"`) {
		t.Errorf("host: %v", err)
	}
}

func TestUpstreamHosts(t *testing.T) {
	for key, set := range map[string]func(u *profiles.Upstream, url string){
		"upstream.admin":      func(u *profiles.Upstream, url string) { u.Admin = url },
		"upstream.http.url":   func(u *profiles.Upstream, url string) { u.HTTP.URL = url },
		"upstream.github.url": func(u *profiles.Upstream, url string) { u.GitHub.URL = url },
		"upstream.slack.url":  func(u *profiles.Upstream, url string) { u.Slack.URL = url },
		"upstream.stripe.url": func(u *profiles.Upstream, url string) { u.Stripe.URL = url },
		"upstream.replay.url": func(u *profiles.Upstream, url string) { u.Replay.URL = url },
	} {
		p := &profiles.Profile{}
		set(&p.Upstream, "https://192.0.2.1/hooks")
		if err := checkHosts(
			t.Context(),
			nil,
			p,
			nil,
		); !errors.Is(err, ErrProfile) ||
			!strings.Contains(err.Error(), key+": 192.0.2.1 is not this machine") {
			t.Errorf("%s: %v", key, err)
		}
		if err := checkHosts(t.Context(), nil, p, []string{"192.0.2.1"}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		set(&p.Upstream, "http://127.0.0.1/hooks")
		if err := checkHosts(t.Context(), nil, p, nil); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
