package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/results"
)

// overStdio is the reference server as a command.
func overStdio(t *testing.T) string {
	t.Helper()
	return strconv.Quote(program(t)) + " serve --stdio --allow-private-callbacks --callback-insecure"
}

func TestRunOverStdio(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := execute(t, smoke("--command", overStdio(t), "--format=json", "--quiet", loose, "--set=phases.measure=1s")...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	r, err := results.Read(strings.NewReader(stdout))
	must(t, err)
	exact(t, r, 20)
	s := r.Target.Stdio
	if s == nil || r.Target.Embedded || !strings.HasPrefix(r.Target.URL, "stdio:") || r.Target.Process == nil ||
		r.Target.Process.Memory == 0 {
		t.Fatalf("target %+v", r.Target)
	}
	if n := s.Unknown + s.Unaddressed + s.Requests + s.Malformed + s.TooLong; n != 0 || s.Exit != "" || s.Lines == 0 {
		t.Errorf("stdio %+v", s)
	}
	var up, down int64
	for _, l := range r.Lanes {
		for cause, x := range l.Overhead.Causes {
			if l.Mode == "webhook" && (cause == "events" || cause == "verification") {
				continue // those come over HTTPS
			}
			up, down = up+x.BytesUp, down+x.BytesDown
		}
	}
	// The rest is one handshake and one events/list, and what was late.
	if rest := s.Up - up; rest < 100 || rest > 2000 {
		t.Errorf("the lanes wrote %d of %d bytes", up, s.Up)
	}
	if rest := s.Down - down; rest < 1000 || rest > 6000+500*s.Late {
		t.Errorf("the lanes read %d of %d bytes, %d lines were late", down, s.Down, s.Late)
	}
}

func TestRunTheEmbeddedTargetOverStdio(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	stdout, stderr, code := execute(t, "run", "--profile", "stdio", "--quiet", "--full", "--out", dir, loose,
		"--set=lanes.*.subscriptions=10", "--set=phases.warmup=0", "--set=phases.measure=1s", "--set=target.era=legacy")
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if !strings.Contains(stdout, "the embedded target over stdio, legacy 2025-11-25") {
		t.Errorf("%s", stdout)
	}
	r := loaded(t, dir)
	for _, l := range r.Lanes {
		if l.Expected == 0 || l.Delivered != l.Expected || l.Duplicates.SameEvent+l.Unexpected != 0 {
			t.Errorf("lane %s: expected %d, delivered %d", l.Name, l.Expected, l.Delivered)
		}
	}
}

// stdioSystems is the profile of lanes of other systems over a pipe.
const stdioSystems = `name: systems
target: {embedded: {transport: stdio, lists: {entries: 20, page: 10, ttl: 1h}}}
lanes:
  - {name: notified, system: sep-2549, mode: poll, subscriptions: 4, event: chat.message, sep2549: {use: 20/s, notifications: true}}
  - {name: updates, system: sep-1803, mode: push, subscriptions: 6, event: chat.message,
      arguments: {channel: "channel-{{mod .Index 2}}"}, sources: "{{mod .Index 2}}"}
  - {name: others, system: sep-1803, mode: push, subscriptions: 1, event: chat.message,
      arguments: {channel: channel-1}, sources: "1", churn: {rate: 4/s}}
upstream: {sources: 2, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}", list: tools}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 300ms, measure: 1500ms, drain: 10s}
`

// TestRunOtherSystemsOverStdio requires that what other systems notify of over a
// pipe is accounted for to the last event and to the last line.
func TestRunOtherSystemsOverStdio(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "systems.yaml")
	must(t, os.WriteFile(file, []byte(stdioSystems), 0o600))
	for _, era := range []string{"modern", "legacy"} {
		stdout, stderr, code := execute(t, "run", "--profile", file, "--format=json", "--quiet", loose, "--set=target.era="+era)
		if code != 0 && code != exitBottleneck {
			t.Fatalf("%s: exit code %d\n%s", era, code, stderr)
		}
		r, err := results.Read(strings.NewReader(stdout))
		must(t, err)
		for _, l := range r.Lanes {
			if l.Expected == 0 || l.Delivered != l.Expected || l.Duplicates.SameEvent+l.Unexpected != 0 {
				t.Errorf(
					"%s: lane %s: expected %d, delivered %d, unexpected %v, duplicates %+v, %+v",
					era,
					l.Name,
					l.Expected,
					l.Delivered,
					l.Detail.UnexpectedBy,
					l.Duplicates,
					l.Examples,
				)
			}
			if f := l.Figures; l.System == "sep-2549" &&
				(f["changesNotified"] == 0 || f["fetchesChanged"] == 0 || f["fetchesExpired"]+f["unbalanced"]+f["listenReconnects"] != 0) {
				t.Errorf("%s: lane %s: figures %v", era, l.Name, f)
			}
		}
		if s := r.Target.Stdio; s == nil || s.Unknown+s.Unaddressed+s.Requests+s.Malformed+s.TooLong != 0 || s.Lines == 0 {
			t.Errorf("%s: stdio %+v", era, s)
		}
	}
}

func TestKilledProgramLeavesAPartialResult(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh to tell the program's process")
	}
	dir := t.TempDir()
	out, pid := filepath.Join(dir, "out"), filepath.Join(dir, "pid")
	script := fmt.Sprintf("echo $$ >%s; exec %s", pid, overStdio(t))
	cmd := longRun(t, out, "--command", strconv.Quote(sh)+" -c '"+script+"'")
	text := readFile(t, pid)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	process, err := os.FindProcess(n)
	if err == nil {
		err = process.Signal(syscall.SIGKILL)
	}
	must(t, err)
	if code := codeOf(t, cmd.Wait()); code != exitTarget {
		t.Errorf("exit code %d, want %d", code, exitTarget)
	}
	r := loaded(t, out)
	if !r.Partial || !strings.Contains(r.Reason, "ended: signal: killed") || r.Target.Stdio == nil || r.Target.Stdio.Exit == "" {
		t.Errorf("partial %v (%s), stdio %+v", r.Partial, r.Reason, r.Target.Stdio)
	}
	if l := r.Lanes[0]; l.Delivered == 0 || l.Detail.Terminated != int64(l.Subscriptions) {
		t.Errorf("delivered %d, %d of %d streams ended", l.Delivered, l.Detail.Terminated, l.Subscriptions)
	}
}

// TestRunReplacesTarget: --command runs a profile that names a URL, and --target one that names a
// program.
func TestRunReplacesTarget(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, embedded.Options{})
	const profile = `name: mine
target: %s
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {event: chat.message, %spayload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 0, measure: 500ms}
`
	for name, c := range map[string]struct {
		profile string
		args    []string
	}{
		"url": {fmt.Sprintf(profile, "{url: 'http://127.0.0.1:1/mcp', tokens: [abcdef]}", ""), []string{"--command", overStdio(t)}},
		"program": {
			fmt.Sprintf(profile, "{command: no-such-program, env: {A: b}}", "admin: "+strconv.Quote(ready.Admin)+", "),
			[]string{"--target", ready.URL},
		},
	} {
		cmd := command(t, append([]string{"run", "-", "--quiet", "--format", "json", "--out", t.TempDir()}, c.args...)...)
		cmd.Stdin = strings.NewReader(c.profile)
		stdout, stderr, code := toItsEnd(t, cmd)
		if code != 0 && code != exitBottleneck {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
			continue
		}
		if r, err := results.Read(strings.NewReader(stdout)); err != nil || r.Lanes[0].Delivered != 20 {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

func TestDiscoverOverStdio(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := execute(t, "discover", "--command", overStdio(t))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{"eventmeter-target", "chat.message  poll, push, webhook", `  command: ["`, `"serve", "--stdio"`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q:\n%s", want, stdout)
		}
	}
}

func TestStdioFailuresNameTheirReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--command", "no-such-program-here"}, exitTarget, "is the command right?"},
		{[]string{"--command", "a 'b"}, exitUsage, "cannot be split into words"},
		{[]string{"--command", "a", "--target", "http://127.0.0.1:1/mcp"}, exitUsage, "give one of the two"},
		{[]string{"--command", "a", "--token", "t"}, exitUsage, "a program has no headers or tokens"},
	} {
		_, stderr, code := execute(t, append([]string{"run", "--profile", "smoke", "--quiet"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%q: exit code %d, %s", c.args, code, stderr)
		}
	}
}
