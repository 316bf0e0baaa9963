package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/shlex"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

const duetProfile = `name: duet
lanes:
  - {name: push, mode: push, subscriptions: 3, event: chat.message}
upstream:
  sources: 5
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 20/s}
phases: {ready: 30s, warmup: 200ms, measure: 4s, drain: 20s, late: 5s}
`

// The delays of both targets of a duet: alike, and so long that no machine hides the
// difference.
const (
	duetDelay     = "delay(rate=1, uniform=40ms..60ms, seed=1)"
	duetDelayToo  = "delay(rate=1, uniform=40ms..60ms, seed=2)"
	duetDelayLong = "delay(rate=1, uniform=2s..2500ms, seed=2)"
)

// duetOf returns the flags of a duet of two reference servers.
func duetOf(t *testing.T, base, against embedded.Ready) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "duet.yaml")
	must(t, os.WriteFile(file, []byte(duetProfile), 0o600))
	return []string{
		"run", "--quiet", "--profile", file, "--token", "a-secret-of-the-duet", "--annotate", "none",
		"--target", base.URL, "--upstream-url", base.Admin, "--against", against.URL, "--against-upstream-url", against.Admin,
	}
}

func readComparison(t *testing.T, text []byte) *stats.Comparison {
	t.Helper()
	var c stats.Comparison
	must(t, json.Unmarshal(text, &c))
	return &c
}

func findings(c *stats.Comparison) map[string]stats.Change {
	out := map[string]stats.Change{}
	for _, f := range c.Lanes[0].Figures {
		out[f.Figure] = f
	}
	return out
}

// TestDuetFindsASlowTarget: a duet of two processes finds the delay of the second one
// and fails by a gate; the archives of both are whole, and no file has the token.
func TestDuetFindsASlowTarget(t *testing.T) {
	t.Parallel()
	base, _ := serveTarget(t, "--faults", duetDelay)
	slow, _ := serveTarget(t, "--faults", duetDelayLong)
	dir := filepath.Join(t.TempDir(), "out")
	summary, junit := filepath.Join(t.TempDir(), "summary.md"), filepath.Join(t.TempDir(), "junit.xml")
	page := filepath.Join(dir, "report.html")
	stdout, stderr, code := execute(t, append(duetOf(t, base, slow), "--out", dir, "--format", "markdown="+summary,
		"--format", "junit="+junit, "--annotate", "github",
		"--gate", "push.p50 <= +10%", "--gate", "push.lostSilent <= +0", "--set", "thresholds=[push.lostSilent >= 0]")...)
	if code != exitFailure || !strings.Contains(stderr, "gate push.p50 <= +10%, push: it got worse") ||
		strings.Contains(stderr, "lostSilent") {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	text := readFile(t, filepath.Join(dir, "comparison.json"))
	c := readComparison(t, text)
	if p50 := findings(c)["latency.fromIntended.p50"]; p50.Finding != stats.Worse || *p50.Effect < 0.2 || c.Duet.Events < 30 ||
		c.Lanes[0].Paired.Deliveries < 90 {
		t.Errorf("%+v, %+v, %+v", p50, c.Duet, c.Lanes[0].Paired)
	}
	var again bytes.Buffer
	must(t, report.CompareText(&again, c))
	if saved, err := os.ReadFile(
		filepath.Join(dir, "comparison.txt"),
	); err != nil || !bytes.Equal(saved, again.Bytes()) ||
		!strings.Contains(stdout, again.String()) {
		t.Errorf("comparison.txt is not what was printed: %v", err)
	}
	for i, side := range []string{"base", "against"} {
		r, err := results.Rebuild(filepath.Join(dir, side))
		must(t, err)
		if want := []string{base.URL, slow.URL}[i]; r.Target.URL != want || r.Partial || len(r.Thresholds) != 1 {
			t.Errorf("%s: target %s, want %s; partial %v", side, r.Target.URL, want, r.Partial)
		}
	}
	for _, name := range []string{"comparison.md", "report.html", "base/report.txt", "against/report.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	// The verdict of each gate is in every form.
	for file, want := range map[string][2]string{
		summary: {"**Gate** push.p50", "**Gate** push.lostSilent"},
		page:    {`class="fault"><b>gate</b> push.p50`, `class="good"><b>gate</b> push.lostSilent`},
		junit: {
			`<failure type="threshold" message="measured: it got worse`,
			`<testcase classname="eventmeter.push" name="push.lostSilent &lt;= +0" time="0"></testcase>`,
		},
		filepath.Join(dir, "comparison.txt"):  {"GATE push.p50", "GATE push.lostSilent"},
		filepath.Join(dir, "comparison.json"): {`"passed": false`, `"passed": true`},
	} {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(want[0])) || !bytes.Contains(text, []byte(want[1])) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	if !strings.Contains(stdout, "::error title=eventmeter%3A threshold push.p50 <= +10%25::push: measured: it got worse") {
		t.Errorf("no annotation\n%s", stdout)
	}
	noSecret(t, dir, "a-secret-of-the-duet")
}

// noSecret requires that no file of an archive holds a text.
func noSecret(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s holds the token", name)
		}
		return err
	})
	must(t, err)
}

// TestDuetOfEqualTargets: nothing is found where there is nothing, and thresholds
// judge each of the runs.
func TestDuetOfEqualTargets(t *testing.T) {
	t.Parallel()
	base, _ := serveTarget(t, "--faults", duetDelay)
	equal, _ := serveTarget(t, "--faults", duetDelayToo)
	stdout, stderr, code := execute(
		t,
		append(
			duetOf(t, base, equal),
			"--format=json",
			"--set",
			"thresholds=[push.lostSilent < 0]",
			"--out",
			filepath.Join(t.TempDir(), "out"),
		)...)
	if code != exitThreshold && code != exitBottleneck || !strings.Contains(stderr, "against: threshold push.lostSilent < 0: 0") ||
		!strings.Contains(stderr, "base: threshold") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	c := readComparison(t, []byte(stdout))
	for name, f := range findings(c) {
		// A test of 5 % in all would fail once in twenty runs.
		if f.Changed() && *f.P < 1e-4 && strings.HasPrefix(name, "latency") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, w := range c.Warnings {
		if w.Code == "profiles-differ" || w.Code == "one-run" {
			t.Errorf("%+v", w)
		}
	}
}

// TestDuetOfPrograms: both targets are programs that the run starts, and ends.
func TestDuetOfPrograms(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "duet.yaml")
	must(t, os.WriteFile(file, []byte(duetProfile), 0o600))
	late := func(d string) string { return overStdio(t) + " --faults 'delay(rate=1, fixed=" + d + ")'" }
	stdout, stderr, code := execute(
		t,
		"run",
		"--quiet",
		"--profile",
		file,
		"--command",
		late("1s"),
		"--against-command",
		late("2s"),
		"--format=json",
	)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if p50 := findings(readComparison(t, []byte(stdout)))["latency.fromIntended.p50"]; p50.Finding != stats.Worse ||
		*p50.B < float64(1900*time.Millisecond) {
		t.Errorf("%+v", p50)
	}
}

// TestDuetWithoutASecondTarget: the run ends with the code and the name of the side.
func TestDuetWithoutASecondTarget(t *testing.T) {
	t.Parallel()
	base, _ := serveTarget(t)
	gone := embedded.Ready{URL: "http://127.0.0.1:1/mcp", Admin: "http://127.0.0.1:1"}
	dir := filepath.Join(t.TempDir(), "out")
	_, stderr, code := execute(t, append(duetOf(t, base, gone), "--out", dir)...)
	if code != exitTarget || !strings.HasPrefix(stderr, "eventmeter: against: ") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("an archive of nothing: %v", err)
	}
}

// TestDocumentedDuets: the events of each documented duet are enough for its gates.
func TestDocumentedDuets(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for page, least := range map[string]int{"pull-request.md": 1, "github-duet.yml": 1} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^ *(?:bin/)?eventmeter (run .*--gate.*)`).
			FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			words, err := shlex.Split(os.Expand(line[1], func(name string) string {
				return map[string]string{
					"MEASURE:-60s": "60s", "BASE": "http://127.0.0.1:1", "HEAD": "http://127.0.0.1:2",
					"BASE_ADMIN": "http://127.0.0.1:3", "HEAD_ADMIN": "http://127.0.0.1:4",
				}[name]
			}))
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			err = runCommand(ended, append(words, "--out", filepath.Join(t.TempDir(), "out")), streams{strings.NewReader(""), &out, &errs, nil, nil})
			if exitCode(err) == exitUsage {
				t.Errorf("%s: %s: %v", page, line[1], err)
			}
			least--
		}
		if least > 0 {
			t.Errorf("%s has no duet", page)
		}
	}
}

// TestDuetWorkflow runs the step of the workflow in docs on two reference servers.
func TestDuetWorkflow(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the workflow is a script for a shell")
	}
	text := readFile(t, "../../docs/github-duet.yml")
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Name, Run string }
		}
	}
	must(t, yaml.Unmarshal(text, &workflow))
	job := workflow.Jobs["duet"]
	base, _ := serveTarget(t, "--token", "duet", "--faults", duetDelayLong)
	head, _ := serveTarget(t, "--token", "duet", "--faults", duetDelay)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	must(t, os.Symlink(program(t), filepath.Join(dir, "bin", "eventmeter")))
	env := map[string]string{
		"BASE": strings.TrimSuffix(
			base.URL,
			"/mcp",
		),
		"BASE_ADMIN": base.Admin,
		"HEAD":       strings.TrimSuffix(head.URL, "/mcp"),
		"HEAD_ADMIN": head.Admin,
		"MEASURE":    "3s",
		// One delivery of each of 1,500 events.
		"EVENTMETER_RATE": "500/s", "EVENTMETER_SUBSCRIPTIONS": "10",
		"GITHUB_STEP_SUMMARY": filepath.Join(dir, "summary.md"),
	}
	for name := range job.Env {
		if env[name] == "" {
			t.Errorf("the workflow sets %s, and the test does not", name)
		}
	}
	for _, step := range job.Steps {
		if step.Name != "duet" {
			continue
		}
		cmd := limited(t, "sh", "-ec", step.Run)
		cmd.Dir = dir
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		stdout, stderr, code := toItsEnd(t, cmd)
		// A busy machine drops events, and then p99 may be left with too few.
		md, err := os.ReadFile(env["GITHUB_STEP_SUMMARY"])
		if passed := code == 0 && bytes.Contains(md, []byte("it held, from")); err != nil || !passed && code != exitUnjudged {
			t.Errorf("exit code %d, %v\n%s\n%s\n%s", code, err, stdout, stderr, md)
		}
		return
	}
	t.Error("the workflow has no step duet")
}
