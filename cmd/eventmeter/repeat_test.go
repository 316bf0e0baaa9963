package main

import (
	"bytes"
	"html"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// onePush is a profile that is over in a second and a half.
const onePush = `name: one
lanes: [{name: push, mode: push, subscriptions: 4, event: chat.message,
  arguments: {channel: "channel-{{mod .Index 2}}"}, sources: "{{mod .Index 2}}"}]
upstream: {kind: inject, sources: 2, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 0, measure: 500ms, drain: 5s, ready: 60s}
`

// smallCases is a calibration that is over in two seconds.
const smallCases = onePush + `cases:
  - {name: plain}
  - {name: drop, faults: "drop(every=5)"}
`

// TestRepeat runs the command that an HTML report gives for the same run again,
// in the folder of the run, as somebody would.
func TestRepeat(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	ip := "127.0.0.1"
	if foreign := ownAddress(); foreign != "" {
		ip = foreign
	}
	ready, _ := serveTarget(t, "--addr", net.JoinHostPort(ip, "0"))
	for name, tt := range map[string]struct{ args, want []string }{
		"processes": {[]string{"--processes", "2"}, []string{"--processes", "2"}},
		"stdio":     {[]string{"--command", program(t) + " serve --stdio"}, nil},
		"host": {[]string{"--target", ready.URL, "--upstream-url", ready.Admin, "--allow-host", ip},
			map[bool][]string{true: {"--allow-host", ip}}[ip != "127.0.0.1"]},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		_, stderr, code := execute(
			t,
			append([]string{"run", "--quiet", "--profile", writeProfile(t, onePush), "--out", dir}, tt.args...)...)
		if code != exitOK && code != exitBottleneck {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
			continue
		}
		words := repeatCommand(t, dir)
		if got, want := strings.Join(
			words,
			" ",
		), strings.Join(
			append([]string{"eventmeter", "run", "--profile", "profile.yaml"}, tt.want...),
			" ",
		); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		cmd := command(t, append(words[1:], "--out", "again", "--quiet")...)
		cmd.Dir = dir
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if code := codeOf(t, cmd.Run()); code != exitOK && code != exitBottleneck {
			t.Errorf("%s: %q: exit code %d\n%s", name, words, code, &errs)
			continue
		}
		first := loaded(t, dir)
		second, err := results.Load(filepath.Join(dir, "again"))
		if err != nil || second.Upstream.Scheduled != first.Upstream.Scheduled || second.Target.Embedded != first.Target.Embedded ||
			len(second.Shards) != len(first.Shards) {
			t.Errorf("%s: %v: not the same run\n%+v\n%+v", name, err, first.Upstream, second.Upstream)
		}
		if name == "processes" {
			isPart(t, filepath.Join(dir, "shard-0"))
		}
	}
}

// ownAddress is an address of this machine that is not its loopback, "" if there
// is none.
func ownAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return ""
}

// repeatCommand is what report.html says under "run again", in words.
func repeatCommand(t *testing.T, dir string) []string {
	t.Helper()
	page := readFile(t, filepath.Join(dir, "report.html"))
	m := regexp.MustCompile(`<pre class="command"><code>(.*?)</code>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no command")
	}
	return strings.Fields(html.UnescapeString(string(m[1])))
}

// isPart requires that the reports of a shard judge nothing.
func isPart(t *testing.T, dir string) {
	t.Helper()
	const want = "thresholds are judged on the merged run"
	for _, name := range []string{"report.txt", "report.html"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "sets no thresholds") {
			t.Errorf("%s: %v: want %q", name, err, want)
		}
	}
	if _, stderr, code := execute(t, "report", dir, "--format", "junit"); code != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestCalibrationForCI: the rows of a calibration are what a CI system shows.
func TestCalibrationForCI(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it runs for seconds")
	}
	dir := t.TempDir()
	junit, summary := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "summary.md")
	_, stderr, code := execute(
		t,
		"run",
		"--profile",
		writeProfile(t, smallCases),
		"--format",
		"junit="+junit,
		"--format",
		"markdown="+summary,
	)
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for file, want := range map[string]string{junit: `classname="eventmeter.push" name="case drop: plan = measured"`,
		summary: "2 of 2 rows equal"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %s lacks %s", err, text, want)
		}
	}
}
