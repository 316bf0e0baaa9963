package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		{"inject", []string{"--upstream-url", ready.Admin, "--event", "chat.message"}, true},
		{"observed", nil, false},
	} {
		file := filepath.Join(dir, tt.name+".yaml")
		discover := append([]string{"discover", "--target", ready.URL, "--token", "s3cret", "--write", file}, tt.args...)
		stdout, stderr, code := execute(t, discover...)
		if code != 0 || stdout != "" || !strings.Contains(stderr, "run it with: eventmeter run "+file+" --token") {
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err := json.Unmarshal([]byte(in), &payload); err != nil {
			t.Fatal(err)
		}
		if got := flow(withProbe(payload)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
