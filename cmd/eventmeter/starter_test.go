package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/results"
)

// TestDiscoverWrites: a server in another process, a profile for it, and a run of that
// profile as it is.
func TestDiscoverWrites(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, embedded.Options{Tokens: []string{"s3cret"}, AllowPrivateCallbacks: true, CallbackInsecure: true})
	dir := t.TempDir()
	for _, tt := range []struct {
		name     string
		args     []string
		expected bool // events are published
	}{
		{"inject", []string{"--publish-with", ready.Admin, "--event", "chat.message"}, true},
		{"observed", nil, false},
	} {
		file := filepath.Join(dir, tt.name+".yaml")
		discover := append([]string{"discover", "--target", ready.URL, "--token", "s3cret", "--write", file}, tt.args...)
		stdout, stderr, code := execute(t, discover...)
		if code != 0 || stdout != "" || !strings.Contains(stderr, "next: eventmeter run "+file+" --token") ||
			strings.Count(stderr, ": 1 of 1 arrived after ") != map[bool]int{true: 3}[tt.expected] {
			t.Fatalf("%s: exit code %d\n%s\n%s", tt.name, code, stdout, stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.Contains(text, []byte("s3cret")) {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, want := range []string{"mode: push", "mode: poll", "mode: webhook", "# certFile: ", "# keyFile: ", "callback: "} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s: %q is missing in\n%s", tt.name, want, text)
			}
		}
		cmd := command(t, "run", file, "--quiet", "--duration", "2s", "--format", "json", "--out", filepath.Join(dir, tt.name))
		cmd.Env = append(cmd.Env, "EVENTMETER_TOKEN=s3cret")
		stdout, stderr, code = toItsEnd(t, cmd)
		if code != 0 && code != exitBottleneck {
			t.Fatalf("%s: exit code %d\n%s\n%s", tt.name, code, stderr, text)
		}
		r, err := results.Read(strings.NewReader(stdout))
		must(t, err)
		for i := range r.Lanes {
			if l := &r.Lanes[i]; l.Ready.Active != 10 || l.Lost() != 0 || tt.expected != (l.Delivered > 0) {
				t.Errorf("%s: %s: %d active, %d expected, %d delivered", tt.name, l.Name, l.Ready.Active, l.Expected, l.Delivered)
			}
		}
		if _, stderr, code := execute(t, discover...); code != exitUsage || !strings.Contains(stderr, "the file exists already") {
			t.Errorf("%s: exit code %d, %s", tt.name, code, stderr)
		}
	}
}

// notes is a server without events. It has ten resources, and a tool that writes them.
type notes struct {
	http  *httptest.Server
	calls atomic.Int64

	mu   sync.Mutex
	text map[string]string
}

type note struct {
	URI  string `json:"uri"`
	Text string `json:"text"`
}

func newNotes(t *testing.T) *notes {
	n := &notes{text: map[string]string{}}
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	write := func(ctx context.Context, in note) error {
		n.calls.Add(1)
		n.mu.Lock()
		n.text[in.URI] = in.Text
		n.mu.Unlock()
		return s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: in.URI})
	}
	type id struct {
		URI string `json:"uri"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "read_note"}, func(context.Context, *mcp.CallToolRequest, id) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "write_note"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, any, error) {
			return nil, nil, write(ctx, in)
		})
	for i := range 10 {
		s.AddResource(&mcp.Resource{URI: fmt.Sprint("notes://note/", i+1), Name: "note"},
			func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				n.mu.Lock()
				defer n.mu.Unlock()
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: n.text[r.Params.URI]}}}, nil
			})
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	mux.HandleFunc("POST /write", func(w http.ResponseWriter, r *http.Request) {
		var in note
		if err := errors.Join(json.NewDecoder(r.Body).Decode(&in), write(r.Context(), in)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	n.http = httptest.NewServer(mux)
	t.Cleanup(n.http.Close)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
	})
	return n
}

// TestDiscoverUpdates: the profile for a server without events subscribes to what the server
// announces. What publishes is one flag; one event is tried, and the profile runs as it is.
func TestDiscoverUpdates(t *testing.T) {
	t.Parallel()
	n := newNotes(t)
	at := n.http.URL + "/mcp"
	stdout, stderr, code := execute(t, "discover", "--target", at)
	next := `next: eventmeter discover --target "` + at + `" --publish-with "write_note" --write mine.yaml` + "\n"
	if code != 0 || !strings.Contains(stderr, next) || n.calls.Load() != 0 {
		t.Errorf("exit code %d, %d calls\n%s", code, n.calls.Load(), stderr)
	}
	for _, want := range []string{
		"system: updates\n", `resource: "notes://note/{n}"`, "sources: 10\n", "kind: tool\n", `tool: {name: "write_note"}`, "{{add 1 .Source}}",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	for name, publish := range map[string]string{
		"tool":      "write_note",
		"request":   n.http.URL + "/write",
		"with body": n.http.URL + `/write {"uri": "notes://note/{{add 1 .Source}}", "text": "so {{.Probe}}"}`,
	} {
		file := filepath.Join(t.TempDir(), "mine.yaml")
		before := n.calls.Load()
		_, stderr, code := execute(t, "discover", "--target", at, "--write", file, "--publish-with", publish)
		if code != 0 || !strings.Contains(stderr, "tried one event: updates: 1 of 1 arrived after ") ||
			!strings.HasSuffix(stderr, "next: eventmeter run "+file+"\n") || n.calls.Load() != before+1 {
			t.Errorf("%s: exit code %d, %d calls\n%s", name, code, n.calls.Load()-before, stderr)
			continue
		}
		stdout, stderr, code := execute(t, "run", file, "--quiet", "--duration", "2s", "--format", "json", "--out", t.TempDir())
		if code != 0 && code != exitBottleneck {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
			continue
		}
		r, err := results.Read(strings.NewReader(stdout))
		must(t, err)
		if l := &r.Lanes[0]; l.Ready.Active != 10 || l.Expected == 0 || l.Delivered != l.Expected {
			t.Errorf("%s: %d active, %d of %d delivered", name, l.Ready.Active, l.Delivered, l.Expected)
		}
	}
	for publish, want := range map[string]string{
		at + "/none":                          "404 Not Found",
		"write_not":                           "the server lists no such tool",
		n.http.URL + "/write {":               "is not a JSON object",
		`read_note {"uri": "a{{.Probe}}"}`:    "no subscription received it",
		n.http.URL + `/write {"text": "one"}`: "{{.Probe}}",
	} {
		if _, stderr, code := execute(t, "discover", "--target", at, "--publish-with", publish); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s", publish, code, stderr)
		}
	}
}

// TestProfileOfStandardInput runs a profile that a pipe brings.
func TestProfileOfStandardInput(t *testing.T) {
	t.Parallel()
	const profile = "name: piped\nlanes: [{name: push, mode: push, subscriptions: 1, event: tick}]\nupstream: {event: " +
		"tick, payload: {text: '{{.Probe}}'}}\nschedule: {kind: constant, rate: 1/s}\nphases: {warmup: 0, measure: 1s, " +
		"drain: 2s}\n"
	cmd := command(
		t,
		"run",
		"-",
		"--quiet",
		"--subscriptions",
		"3",
		"--rate",
		"30/s",
		"--event",
		"chat.message",
		"--duration",
		"500ms",
		"--format",
		"json",
		"--out",
		t.TempDir(),
	)
	cmd.Stdin = strings.NewReader(profile)
	stdout, stderr, code := toItsEnd(t, cmd)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	r, err := results.Read(strings.NewReader(stdout))
	must(t, err)
	// 30/s for 500 ms are 15 events, to three subscriptions each.
	if l := r.Lanes[0]; l.Subscriptions != 3 || r.Upstream.Scheduled != 15 || l.Expected != 3*r.Upstream.Accepted ||
		l.Delivered != l.Expected {
		t.Errorf("%d scheduled; %+v", r.Upstream.Scheduled, l)
	}
	var p struct {
		Lanes    []struct{ Event string }
		Upstream struct{ Event string }
	}
	if err := json.Unmarshal(r.Profile, &p); err != nil || p.Lanes[0].Event != "chat.message" || p.Upstream.Event != "chat.message" {
		t.Errorf("%v: %+v", err, p)
	}
	for _, args := range [][]string{{"profiles", "check", "-"}, {"profiles", "show", "-", "--set", "lanes.push.subscriptions=9"}} {
		cmd := command(t, args...)
		cmd.Stdin = strings.NewReader(profile)
		if stdout, stderr, code := toItsEnd(t, cmd); code != 0 || !strings.Contains(stdout, "subscriptions") {
			t.Errorf("%q: exit code %d, %s, %s", args, code, stdout, stderr)
		}
	}
}

func TestSampleOf(t *testing.T) {
	for _, tt := range []struct {
		schema   string
		required bool
		text     string
		want     string
		guessed  bool
	}{
		{`{"type":"object","properties":{"channel":{"type":"string"}}}`, true, "", `{}`, false},
		{`{"type":"object","required":["channel"],"properties":{"channel":{"type":"string"}}}`, true, "", `{"channel":"change-me"}`, true},
		{`{"type":"object","required":["k"],"properties":{"k":{"type":"string","enum":["a","b"]}}}`, true, "", `{"k":"a"}`, false},
		{`{"type":"object","required":["n","o"],"properties":{"n":{"type":"integer","minimum":5},"o":{"type":"object",` +
			`"required":["b"],"properties":{"b":{"type":"boolean"}}}}}`, true, "", `{"n":5,"o":{"b":true}}`, true},
		{`{"properties":{"channel":{"type":"string"},"text":{"type":"string"},"n":{"type":"integer"}}}`, false, "{{.Probe}}",
			`{"channel":"{{.Probe}}","text":"{{.Probe}}"}`, true},
		{`not JSON`, true, "", `{}`, false},
		{``, true, "", `{}`, false},
	} {
		got, guessed := sampleOf([]byte(tt.schema), tt.required, tt.text)
		if flow(got) != tt.want || guessed != tt.guessed {
			t.Errorf("%s: %s, %v; want %s, %v", tt.schema, flow(got), guessed, tt.want, tt.guessed)
		}
	}
	for in, want := range map[string]string{
		`{"channel":"{{.Probe}}","text":"{{.Probe}}"}`: `{"channel":"sample","text":"{{.Probe}}"}`,
		`{"board":"{{.Probe}}"}`:                       `{"board":"{{.Probe}}"}`,
		`{"kind":"a"}`:                                 `{"kind":"a","text":"{{.Probe}}"}`,
		`{}`:                                           `{"text":"{{.Probe}}"}`,
	} {
		var payload map[string]any
		must(t, json.Unmarshal([]byte(in), &payload))
		if got := flow(withProbe(payload)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
