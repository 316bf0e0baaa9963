package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/embedded"
)

// injectLines is the program of upstream.kind exec: it tells the target of
// every line, and answers with it.
func injectLines() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if inject(os.Getenv("EVENTMETER_ADMIN"), lines.Bytes()) == nil {
			fmt.Println(lines.Text())
		}
	}
}

// inject has the target emit a chat.message.
func inject(admin string, data []byte) error {
	resp, err := http.Post(admin+"/inject", "application/json", strings.NewReader(`{"name":"chat.message","data":`+string(data)+`}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("inject: %s", resp.Status)
	}
	return nil
}

func hexMAC(secret, text string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// product is what a server makes of a product's webhooks, after the product's
// own documentation and not after the upstream's code.
type product struct {
	genuine func(h http.Header, body string) bool
	text    func(body []byte) string

	good, bad atomic.Int64
}

const hushed = "whsec_hush"

// fresh tells whether a time in Unix seconds is within five minutes of now, as
// the products have their receivers check.
func fresh(seconds string) bool {
	n, err := strconv.ParseInt(seconds, 10, 64)
	return err == nil && time.Since(time.Unix(n, 0)).Abs() < 5*time.Minute
}

func products() map[string]*product {
	return map[string]*product{
		"github": {
			genuine: func(h http.Header, body string) bool {
				return h.Get("X-GitHub-Event") == "push" && h.Get("X-GitHub-Delivery") != "" &&
					h.Get("X-Hub-Signature-256") == "sha256="+hexMAC(hushed, body)
			},
			text: func(body []byte) string {
				var m struct {
					HeadCommit struct{ Message string } `json:"head_commit"`
				}
				_ = json.Unmarshal(body, &m)
				return m.HeadCommit.Message
			},
		},
		"slack": {
			genuine: func(h http.Header, body string) bool {
				at := h.Get("X-Slack-Request-Timestamp")
				return fresh(at) && h.Get("X-Slack-Signature") == "v0="+hexMAC(hushed, "v0:"+at+":"+body)
			},
			text: func(body []byte) string {
				var m struct {
					Event struct{ Text string }
				}
				_ = json.Unmarshal(body, &m)
				return m.Event.Text
			},
		},
		"stripe": {
			genuine: func(h http.Header, body string) bool {
				at, sig, ok := strings.Cut(strings.TrimPrefix(h.Get("Stripe-Signature"), "t="), ",v1=")
				return ok && fresh(at) && sig == hexMAC(hushed, at+"."+body)
			},
			text: func(body []byte) string {
				var m struct {
					Data struct {
						Object struct{ Description string }
					}
				}
				_ = json.Unmarshal(body, &m)
				return m.Data.Object.Description
			},
		},
	}
}

// serve listens for the product's webhooks and has the target emit their text.
func (p *product) serve(t *testing.T, admin, channel string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !p.genuine(r.Header, string(body)) {
			p.bad.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var hello struct{ Type, Challenge string }
		if json.Unmarshal(body, &hello) == nil && hello.Type == "url_verification" {
			_, _ = io.WriteString(w, hello.Challenge)
			return
		}
		p.good.Add(1)
		data, _ := json.Marshal(map[string]string{"channel": channel, "text": p.text(body)})
		if err := inject(admin, data); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// traceOf writes a trace with 40 events in the measured part of profile smoke,
// and 10 before.
func traceOf(t *testing.T) string {
	var b bytes.Buffer
	for i := range 50 {
		probe := eventmeter.Stamp{Run: 7, Source: uint16(i % 2), Seq: uint32(i/2 + 1)}
		fmt.Fprintf(
			&b,
			`{"t":%.3f,"source":%d,"event":"chat.message","payload":{"channel":"channel-0","text":"as it was %s"}}`+"\n",
			float64(i)*0.05,
			i%2,
			probe,
		)
	}
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	must(t, os.WriteFile(file, b.Bytes(), 0o600))
	return file
}

// Every kind of upstream drives a whole run of the command, and everything
// that it fired is accounted for. The runs go on at once: no other test runs beside.
func TestEveryUpstream(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	ready, _ := serveTarget(t, "--token", "t", "--allow-private-callbacks", "--callback-insecure")
	quiet := func(more ...string) []string { return smoke(append([]string{"--quiet", "--format=json"}, more...)...) }
	const chat = `payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}`
	runs := map[string][]string{
		"feed": quiet("--set", `upstream={kind: feed, sources: 2, `+chat+`}`, "--set", "target.embedded.feedEvery=50ms"),
		"tool": quiet("--set", `upstream={kind: tool, sources: 2, tool: {name: post_message}, `+chat+`}`),
		"replay": quiet(
			"--set",
			`upstream={kind: replay, sources: 2, replay: {file: "`+traceOf(t)+`"}}`,
			"--set",
			"schedule={kind: trace}",
		),
		"http": quiet(
			"--target",
			ready.URL,
			"--token",
			"t",
			"--set",
			`lanes.*.arguments={channel: http}`,
			"--set",
			`upstream={kind: http, sources: 2, http: {url: "`+ready.Admin+`/inject", body: '{"name":"chat.message",`+
				`"data":{"channel":"http","text":"{{.Probe}}"}}'}}`,
		),
	}
	if self, err := os.Executable(); err != nil {
		t.Fatal(err)
	} else if runtime.GOOS != "windows" { // it needs a shell
		runs["exec"] = quiet(
			"--set",
			fmt.Sprintf(
				`upstream={kind: exec, sources: 2, exec: {ack: true, command: [sh, -c, '%s=1 exec "$0"', %q]}, %s}`,
				asProgram,
				self,
				chat,
			),
		)
	}
	all := products()
	for kind, p := range all {
		runs[kind] = quiet(
			"--target",
			ready.URL,
			"--token",
			"t",
			"--set",
			"lanes.*.arguments={channel: "+kind+"}",
			"--set",
			fmt.Sprintf(`upstream={kind: %s, sources: 2, %s: {url: %q, secret: %s}}`, kind, kind, p.serve(t, ready.Admin, kind), hushed),
		)
	}
	for kind, out := range together(t, runs) {
		r := out.result(t)
		accounted(t, r, 40, 1)
		if r.Upstream.Kind != kind || strings.Contains(out.stdout, hushed) {
			t.Errorf("%s: %+v, or the secret is in the result", kind, r.Upstream)
		}
		if p := all[kind]; p != nil && (p.bad.Load() != 0 || p.good.Load() != r.Upstream.Published+r.Upstream.Warmup) {
			t.Errorf(
				"%s: %d signatures were good and %d bad, of %d webhooks",
				kind,
				p.good.Load(),
				p.bad.Load(),
				r.Upstream.Published+r.Upstream.Warmup,
			)
		}
		if t.Failed() {
			t.Fatalf("%s: %v, %v\n%s", kind, r.Warnings, maps.Keys(r.Upstream.Figures), out.stderr)
		}
	}
}

// A run that fires nothing counts what comes. Webhooks tell the target that
// they have come, so the run is ended when all have.
func TestUpstreamNone(t *testing.T) {
	t.Parallel()
	ready, _ := serveTarget(t, "--token", "t", "--allow-private-callbacks", "--callback-insecure")
	dir := filepath.Join(t.TempDir(), "out")
	profile := filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(profile, []byte(`name: none
lanes:
  - {name: hook, mode: webhook, subscriptions: 3, event: chat.message}
  - {name: trigger, system: smithery, mode: webhook, subscriptions: 3, event: chat.message}
  - {name: resource, system: sep-1803, mode: webhook, subscriptions: 3, event: chat.message}
upstream: {kind: none}
phases: {warmup: 0, measure: 60s}
target: {url: "`+ready.URL+`", tokens: [t]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := watched(t, "run", "--profile", profile, "--out", dir)
	startUntil(t, cmd, "measure")
	for i := range 12 {
		must(t, inject(ready.Admin, fmt.Appendf(nil, `{"channel":"channel-0","text":"number %d"}`, i)))
	}
	waitForStats(t, ready, `"webhook":108`)
	interrupted(t, cmd, os.Interrupt)
	r := loaded(t, dir)
	for _, l := range r.Lanes {
		f := l.Figures
		if r.Upstream.Scheduled != 0 || l.Expected != 0 || l.Detail.Unprobed != 36 || f["observedEvents"] != 36 ||
			f["observedDuplicates"] != 0 ||
			f["observedLeast"] != 12 ||
			f["observedMost"] != 12 ||
			l.Timings["observedAge"].Count != 36 {
			t.Errorf("%s: %+v, %+v, %v", l.Name, r.Upstream, l.Detail, f)
		}
	}
}

// waitForStats waits until the target's counters hold that text.
func waitForStats(t *testing.T, ready embedded.Ready, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		<-tick.C
		resp, err := http.Get(ready.Admin + "/stats")
		must(t, err)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if bytes.Contains(b, []byte(text)) {
			return
		}
	}
	t.Fatalf("the target does not say %s", text)
}
