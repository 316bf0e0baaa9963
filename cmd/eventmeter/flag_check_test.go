package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// againstArgs are the flags of a duet of targets that are not there, and more.
func againstArgs(more ...string) []string {
	return append(
		[]string{
			"run",
			"--target",
			"http://127.0.0.1:1/mcp",
			"--upstream-url",
			"http://127.0.0.1:3",
			"--against",
			"http://127.0.0.1:2/mcp",
			"--against-upstream-url",
			"http://127.0.0.1:4",
		},
		more...)
}

// TestBadInput gives every command what it cannot use: one line that says what
// and how to mend it, and the exit code for it, before anything is run.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	cases := write("cases.yaml", smallCases)
	huge := write("huge.yaml", strings.Repeat("a", 2<<20))
	tokens := write("tokens", "good\nno good\n")
	write("measured/"+results.File, "{}")
	write("trials/trial-001/"+results.File, "{}")
	write("searched/"+results.CapacityFile, "{}")
	write("cut/"+results.File, `{"schema": "eventmeter.result/1", `)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, `unknown command "nosuch"`},
		{[]string{"help", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"run", "--target", ""}, "--target is empty"},
		{[]string{"run", "--command", ""}, "--command is empty"},
		{[]string{"run", "--allow-host", "a", "--allow-host", ""}, "--allow-host is empty"},
		{[]string{"run", "--token", "no good"}, "--token: not a bearer token"},
		{[]string{"run", "--token-file", tokens}, "line 2: not a bearer token"},
		{[]string{"run", "--token-file", huge}, "longer than 64 KiB"},
		{[]string{"run", "--header", "no good: x"}, `"no good" cannot be a header`},
		{[]string{"run", "--quiet", "--plain"}, "--plain and --quiet"},
		{[]string{"run", "--metrics-linger", "1s"}, "does nothing without --metrics"},
		{[]string{"run", "--remote-write-every", "2s"}, "does nothing without --remote-write"},
		{[]string{"run", "--gate", "push.lostSilent <= +0"}, "name it with --against"},
		{[]string{"run", "--against-upstream-url", "http://127.0.0.1:1"}, "name it with --against"},
		{[]string{"run", "--against", ""}, "--against is empty"},
		{[]string{"run", "--against", "http://127.0.0.1:1/mcp"}, "the first one is not given; name it with --target"},
		{[]string{"run", "--against-command", "x"}, "the first one is not given; name it with --target"},
		{againstArgs("--against-command", "x"), "give one of the two"},
		{againstArgs("--processes", "2"), "--against beside --processes"},
		{againstArgs("--shard", "0/2", "--start-at", "2026-11-20T10:00:00Z"), "--against beside --shard"},
		{againstArgs("--trials", "2"), "--against beside --trials"},
		{againstArgs("--profile", "compare", "--profile", "push"), "--against beside --trials or several --profile"},
		{againstArgs("--record", filepath.Join(dir, "trace")), "--against beside --record"},
		{againstArgs("--metrics", "127.0.0.1:0"), "--against beside live metrics"},
		{againstArgs("--target-metrics", "http://127.0.0.1:5/metrics"), "--against beside --target-metrics"},
		{againstArgs("--gate", "push.p99"), "want LANE.FIGURE <= +SHARE"},
		{againstArgs("--gate", "push.p999 <= +5%", "--against-upstream-url", "http://127.0.0.1:4"), "push needs 10000 independent events, and"},
		{againstArgs("--target", "http://127.0.0.1:2/mcp"), "--against is the URL of the first target"},
		{againstArgs("--against-upstream-url", "http://127.0.0.1:3"), "name that of the second one with --against-upstream-url"},
		{againstArgs("--against", "http://192.0.2.1/mcp"), "name it a second time with --allow-host 192.0.2.1"},
		{againstArgs("--against", "nonsense"), "target.url"},
		{againstArgs("--set", "phases.order=turns"), "phases.order: turns"},
		{[]string{"run", "--profile", cases, "--against", "http://127.0.0.1:2/mcp"}, "a calibration starts its own targets"},
		{[]string{"run", "--profile", huge}, "is too large for a profile"},
		{[]string{"run", "--profile", dir}, "is a directory"},
		{[]string{"run", "--profile", write("empty.yaml", "")}, "there is nothing in it"},
		{[]string{"run", "--out", filepath.Join(dir, "measured")}, "there is a result already"},
		{[]string{"run", "--out", filepath.Join(dir, "trials")}, "there is a result already"},
		{[]string{"run", "--out", filepath.Join(dir, "searched")}, "there is a result already"},
		{[]string{"capacity", "--out", filepath.Join(dir, "measured")}, "there is a result already"},
		{[]string{"capacity", "--from", "NaN"}, "--from NaN: want a finite number"},
		{[]string{"capacity", "--to", "Inf"}, "--to +Inf: want a finite number"},
		{[]string{"capacity", "--slo", "loss<=NaN"}, `--slo "loss<=NaN"`},
		{[]string{"capacity", "--slo", "backlog<=-Inf%"}, `--slo "backlog<=-Inf%"`},
		{[]string{"serve", "--capacity", "NaN"}, "--capacity NaN: want a finite number"},
		{[]string{"compare", "a", "b", "--alpha", "nan"}, "--alpha NaN: want a finite number"},
		{[]string{"compare", "a", "b", "--min-effect", "+Inf"}, "--min-effect +Inf: want a finite number"},
		{[]string{"run", "--set", "lanes.push.webhook.refreshAt=.nan"}, "not a finite number"},
		{[]string{"run", "--set", "schedule.rate=.nan"}, "not a finite number"},
		{[]string{"capacity", "--from", "0"}, "capacity.from: must be above 0"},
		{[]string{"run", "--profile", "tool", "--upstream-url", "http://127.0.0.1:9"}, "an upstream of kind tool has no URL"},
		{[]string{"run", "--upstream", "none", "--upstream-url", "http://127.0.0.1:9"}, "an upstream of kind none has no URL"},
		{[]string{"run", "--profile", cases, "--record", "x"}, "no use for --record"},
		{[]string{"run", "--profile", cases, "--processes", "2"}, "no use for --processes"},
		{[]string{"run", "--profile", cases, "--shard", "0/2", "--start-at", "2026-11-20T10:00:00Z"}, "no use for --shard"},
		{[]string{"run", "--profile", cases, "--metrics", ":0"}, "no use for --metrics"},
		{[]string{"run", "--profile", cases, "--target-metrics", "http://127.0.0.1:5/metrics"}, "no use for --target-metrics"},
		{[]string{"run", "--profile", cases, "--set", "phases.cooldown=1s"}, "phases.cooldown: a calibration judges no leaks"},
		{[]string{"run", "--processes", "2", "--target-metrics", "http://127.0.0.1:5/metrics"}, "--target-metrics and shards"},
		{[]string{"run", "--processes", "2", "--set", "phases.cooldown=1s"}, "phases.cooldown: no shard knows"},
		{[]string{"run", "--profile", cases, "--out", "x"}, "no use for --out"},
		{[]string{"run", "--shard", "0/2", "--start-at", "2026-11-20T10:00:00Z", "--format", "junit=x"},
			"thresholds are judged on the merged run"},
		{[]string{"compare", "a", "b", "--alpha", "0"}, "--alpha 0"},
		{[]string{"compare", "a", "b", "--min-effect", "-1"}, "--min-effect -1"},
		{[]string{"record", "--target", "http://127.0.0.1:1", "--event", "e", "--duration", "0"}, "--duration 0s: want more than 0"},
		{[]string{"report", filepath.Join(dir, "cut")}, "unexpected end of JSON input"},
		{[]string{"compare", filepath.Join(dir, "cut"), filepath.Join(dir, "cut")}, "unexpected end of JSON input"},
		{[]string{"merge", filepath.Join(dir, "cut")}, "has no shard.json"},
		{[]string{"serve", "--addr", "nonsense"}, "write an address like"},
		{[]string{"serve", "--stdio", "--addr", ":0"}, "--stdio and --addr"},
		{[]string{"serve", "--allow-host", "h"}, "does nothing without --feed"},
		{[]string{"serve", "--stdio", "--options", "-"}, "both need standard input"},
		{[]string{"serve", "--options", `{"Adr": 1}`}, `--options: the options cannot be read: json: unknown field "Adr"`},
		{[]string{"serve", "--tls-addr", ":0"}, "does nothing without --tls"},
		{[]string{"serve", "--callback-ca", "x", "--callback-insecure"}, "give one of the two"},
	} {
		var out, errs bytes.Buffer
		err := runCommand(t.Context(), tt.args, streams{strings.NewReader(""), &out, &errs, nil, nil})
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") ||
			out.Len() > 0 {
			t.Errorf("%q: %v, exit code %d, want one line with %q\n%s", tt.args, err, exitCode(err), tt.want, &out)
		}
	}
}

// TestMayBeEmpty: the variable of a CI system is not set elsewhere.
func TestMayBeEmpty(t *testing.T) {
	err := runCommand(
		t.Context(),
		[]string{"run", "--format", "markdown=", "--annotate", "", "--trials", "0"},
		streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, nil, nil},
	)
	if err == nil || !strings.Contains(err.Error(), "--trials 0") {
		t.Errorf("%v", err)
	}
}

// TestNewOut: each run makes a directory of its own, and removes it if nothing is
// in it.
func TestNewOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "run")
	for _, want := range []string{dir, dir + "-2", dir + "-3", dir + "-3"} {
		got, err := newOut(dir)
		if err != nil || got.path != want {
			t.Fatalf("%v %v, want %s", got, err, want)
		}
		if want == dir+"-3" {
			got.release()
			if _, err := os.Stat(want); err == nil {
				t.Error("an empty directory is left")
			}
		}
	}
}

// TestTokenFile: a profile's file of tokens is read once, and what is made of
// the profile for a shard or a step of a search is a profile again.
func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	tokens, profile := filepath.Join(dir, "tokens"), filepath.Join(dir, "p.yaml")
	must(t, os.WriteFile(tokens, []byte("one\n# two\nthree\n"), 0o600))
	_, source, err := profiles.Read("capacity", nil)
	must(t, err)
	must(t, os.WriteFile(profile, source, 0o600))
	p, err := loadProfile(runFlags{reader: &profileReader{}, set: []string{"target.tokenFile=" + tokens}}, profile)
	must(t, err)
	step, err := p.At(5)
	if err != nil || strings.Join(step.Target.Tokens, " ") != "one three" {
		t.Errorf("%v, %+v", err, step)
	}
	text, err := p.YAML()
	must(t, err)
	if _, err := profiles.Parse("of the parent", text, nil, systems.Table); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestUpstreamURL: the URL goes to the kind that the profile has.
func TestUpstreamURL(t *testing.T) {
	const url = "http://127.0.0.1:9/x"
	for _, c := range []struct{ profile, kind, want string }{
		{"smoke", "", "upstream.admin=" + url},
		{"tool", "http", "upstream.http.url=" + url},
		{"smoke", "stripe", "upstream.stripe.url=" + url},
		{"smoke", "replay", "upstream.admin=" + url},
	} {
		var set []string
		if c.kind != "" {
			set = append(set, "upstream.kind="+c.kind)
		}
		name, data, err := profiles.Read(c.profile, nil)
		must(t, err)
		kind, _, err := profiles.UpstreamOf(name, data, set)
		must(t, err)
		if got, err := upstreamURLOf(kind, url); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
