package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/shard"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// shardable has four channels that nobody hears two of, and one lane that hears
// them all.
const shardable = `
name: shardable
lanes:
  - {name: push, mode: push, subscriptions: 8, event: chat.message,
      arguments: {channel: "channel-{{mod .Index 4}}"}, sources: "{{mod .Index 4}}"}
  - {name: webhook, mode: webhook, subscriptions: 8, event: chat.message,
      arguments: {channel: "channel-{{mod .Index 4}}"}, sources: "{{mod .Index 4}}"}
  - {name: all, mode: poll, subscriptions: 4, event: chat.message, poll: {minInterval: 50ms}}
upstream: {sources: 4, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: burst, burst: 4, every: 200ms, spread: 200ms}
phases: {ready: 1m, warmup: 200ms, measure: 1s, drain: 20s}
thresholds: ["*.lostSilent == 0", "*.unexpected == 0", "push.delivered <= 40"]
`

func writeProfile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "profile.yaml")
	must(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// shardedExactly requires the counts that one run would have had: twenty emissions,
// of which a busy machine may drop some; each is owed to two subscriptions of
// the first two lanes, and to one of the last in the shard that fired it.
func shardedExactly(t *testing.T, r *results.Result) {
	t.Helper()
	u := r.Upstream
	if u.Scheduled != 20 || u.Accepted+u.Dropped != 20 || u.Accepted == 0 {
		t.Errorf("upstream %+v, want 20 events, accepted or dropped", u)
	}
	for i, per := range []int64{2, 2, 1} {
		l := r.Lanes[i]
		if l.Expected != per*u.Accepted || l.Delivered != l.Expected || l.Unexpected != 0 ||
			l.Duplicates.SameEvent+l.Duplicates.SameEmission != 0 {
			t.Errorf(
				"lane %s: expected %d, delivered %d, unexpected %v; %d events",
				l.Name,
				l.Expected,
				l.Delivered,
				l.Detail.UnexpectedBy,
				u.Accepted,
			)
		}
		if i < 2 && l.Detail.Foreign != 0 {
			t.Errorf("lane %s: %d foreign copies", l.Name, l.Detail.Foreign)
		}
	}
	// Warm-up included, each of 24 emissions reaches three more subscriptions.
	if got := r.Lanes[2].Detail.Foreign; got == 0 || got > 3*24 {
		t.Errorf("%d foreign copies", got)
	}
	if len(r.Shards) != 4 || r.Partial {
		t.Fatalf("partial %t %s, shards %+v", r.Partial, r.Reason, r.Shards)
	}
	for i, s := range r.Shards {
		if s.Index != i || s.Subscriptions != 5 || s.Missing || s.Partial {
			t.Errorf("shard %+v", s)
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	stdout, stderr, code := executeWatched(t, "run", "--profile", writeProfile(t, shardable), "--processes", "4", "--full", "--out", dir)
	if code != exitOK && code != exitBottleneck { // of a machine that tests something else besides
		t.Fatalf("code %d\n%s\n%s", code, stdout, stderr)
	}
	r, err := results.Rebuild(dir)
	must(t, err)
	shardedExactly(t, r)
	// (16 + 4) × 4 pairs of event and subscription, without three of four of the last lane.
	if want := 20.0 / 32; r.Coverage != want {
		t.Errorf("coverage %v, want %v", r.Coverage, want)
	}
	for _, text := range []string{"3 of 4", "62.5 %", "pass  push.delivered <= 40"} {
		if !strings.Contains(stdout, text) {
			t.Errorf("the report does not say %q:\n%s", text, stdout)
		}
	}
	// What was merged can be merged again, reported and compared.
	again := filepath.Join(t.TempDir(), "again")
	if out, errs, code := execute(t, "merge", dir, "--out", again); code != exitOK && code != exitBottleneck {
		t.Errorf("merge: code %d\n%s\n%s", code, out, errs)
	}
	if a, b := fileText(t, dir, results.File), fileText(t, again, results.File); a != b {
		t.Error("merging again gives another result")
	}
	if out, errs, code := execute(t, "report", dir); code != exitOK || out != fileText(t, dir, "report.txt") {
		t.Errorf("report: code %d\n%s\n%s", code, out, errs)
	}
	if out, errs, code := execute(t, "compare", dir, again); code != exitOK {
		t.Errorf("compare: code %d\n%s\n%s", code, out, errs)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "shard-2")))
	if out, errs, code := execute(
		t,
		"merge",
		dir,
		"--full",
		"--out",
		again,
	); code != exitFailure ||
		!strings.Contains(out, "PARTIAL: shard 2 of 4 is missing") {
		t.Errorf("merging what is left: code %d\n%s\n%s", code, out, errs)
	}
}

func fileText(t *testing.T, dir, name string) string {
	t.Helper()
	data := readFile(t, filepath.Join(dir, name))
	return string(data)
}

// TestShards runs the parts of a run as strangers would: each with its flags or
// its variable, and a time to begin.
func TestShards(t *testing.T) {
	t.Parallel()
	target, _ := serveTarget(t, "--allow-private-callbacks", "--callback-insecure")
	profile := writeProfile(t, shardable)
	var root string
	// A busy machine may not be ready in time, and says so: then with more of it.
	for wait := 6 * time.Second; ; wait *= 4 {
		root = t.TempDir()
		late := runShards(t, profile, root, wait, "--target", target.URL, "--token", "t", "--upstream-url", target.Admin)
		if t.Failed() {
			return
		}
		if !late {
			break
		}
	}
	out := filepath.Join(t.TempDir(), "merged")
	if stdout, stderr, code := execute(t, "merge", root, "--out", out); code != exitOK && code != exitBottleneck {
		t.Fatalf("merge: code %d\n%s\n%s", code, stdout, stderr)
	}
	r, err := results.Rebuild(out)
	must(t, err)
	shardedExactly(t, r)
	if _, stderr, code := execute(
		t,
		"merge",
		filepath.Join(root, "0"),
		filepath.Join(root, "0"),
		"--out",
		out,
	); code != exitUsage ||
		!strings.Contains(stderr, "both shard 0") {
		t.Errorf("the same shard twice: code %d, %s", code, stderr)
	}
}

// runShards runs four shards that begin after wait, and tells whether one of
// them was not ready by then.
func runShards(t *testing.T, profile, root string, wait time.Duration, more ...string) bool {
	t.Helper()
	at := time.Now().Add(wait).UTC().Format(time.RFC3339)
	var late atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		which := "/4" // as in Kubernetes
		if i%2 == 0 {
			which = fmt.Sprintf("%d/4", i)
		}
		args := []string{
			"run",
			"--profile",
			profile,
			"--quiet",
			"--start-at",
			at,
			"--out",
			filepath.Join(root, fmt.Sprint(i)),
			"--shard",
			which,
		}
		cmd := watched(t, append(args, more...)...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", completionIndex, i))
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			switch {
			case err != nil && strings.Contains(string(out), "was not ready in time"):
				late.Store(true)
			case err != nil:
				t.Errorf("shard %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
	return late.Load()
}

// TestProcessDies kills a shard while it fires: what the others measured is
// there, and the result says what is missing.
func TestProcessDies(t *testing.T) {
	t.Parallel()
	p, err := profiles.Load(writeProfile(t, shardable), []string{"phases.measure=4s"}, systems.Table)
	must(t, err)
	var children []*exec.Cmd
	var kill sync.Once
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	out, err := shard.Processes{
		Options: run.Options{
			Profile: p, Version: "test", Embedded: func(ctx context.Context, o embedded.Options) (embedded.Server, error) {
				// By its own name, for startEmbedded inherits this test's surroundings.
				return embedded.Start(ctx, o, "env", asCommand+"=1", self, "serve", "--options", "-")
			},
			Progress: func(g run.Progress) {
				if g.Live.Measured.Fired > 0 {
					kill.Do(func() { _ = children[1].Process.Kill() })
				}
			},
		},
		Count: 2, Dir: dir,
		Command: func(i int) *exec.Cmd {
			cmd := exectest.Command(self, "shard", fmt.Sprintf("%d/2", i))
			cmd.Env = append(os.Environ(), asCommand+"=1")
			children = append(children, cmd)
			return cmd
		},
	}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "shard 1 died") {
		t.Errorf("error %v", err)
	}
	if out == nil {
		t.Fatal("nothing was kept")
	}
	r := out.Result
	if !r.Partial || r.Reason != "shard 1 of 2 is missing" || r.Upstream.Accepted == 0 || r.Lanes[0].Delivered != r.Lanes[0].Expected ||
		!r.Shards[1].Missing {
		t.Errorf("partial %t, %s, upstream %+v, shards %+v", r.Partial, r.Reason, r.Upstream, r.Shards)
	}
}

// TestProcessesInterrupted: an interrupt ends all shards in order.
func TestProcessesInterrupted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(t, "run", "--profile", writeProfile(t, shardable), "--processes", "2", "--out", dir, "--set", "phases.measure=5m")
	errs, err := cmd.StderrPipe()
	must(t, err)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	must(t, cmd.Start())
	var seen strings.Builder
	buf := make([]byte, 4096)
	for sent := false; ; {
		n, err := errs.Read(buf)
		seen.Write(buf[:n])
		if !sent && strings.Contains(seen.String(), "\nmeasure") {
			sent = true
			must(t, cmd.Process.Signal(os.Interrupt))
		}
		if err != nil {
			break // the pipe ends with the command
		}
	}
	if code := codeOf(t, cmd.Wait()); code != exitInterrupted {
		t.Errorf("code %d\n%s", code, seen.String())
	}
	r, err := results.Rebuild(dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, seen.String())
	}
	if !r.Partial || !strings.Contains(r.Reason, "shard 1 ended early: stopped on request") || len(r.Shards) != 2 {
		t.Errorf("partial %t, %s", r.Partial, r.Reason)
	}
}

func TestShardFlags(t *testing.T) {
	t.Setenv(completionIndex, "")
	for _, tt := range []struct {
		args, want string
	}{
		{"--processes 0", "want 1 or more"},
		{"--processes 2 --shard 0/2 --start-at 2026-11-20T10:00:00Z", "a shard is one process"},
		{"--shard 0/2", "needs --start-at"},
		{"--start-at 2026-11-20T10:00:00Z", "--start-at needs --shard"},
		{"--shard 2/2 --start-at 2026-11-20T10:00:00Z", "want INDEX/COUNT"},
		{"--shard 0/1 --start-at 2026-11-20T10:00:00Z", "want INDEX/COUNT"},
		{"--shard /2 --start-at 2026-11-20T10:00:00Z", "JOB_COMPLETION_INDEX is not set"},
		{"--shard 0/2 --start-at noon", "want a time like"},
		{"--shard 0/2 --start-at 2026-11-20T10:00:00Z", "cannot each start a target"},
		{"--shard 0/2 --start-at 2026-11-20T10:00:00Z --trials 2", "takes one run"},
		{"--processes 2 --profile feed", "cannot be split"},
		{"--processes 99 --profile smoke", "would have no subscription"},
		{"--shard 0/2 --start-at 2026-11-20T10:00:00Z --target http://127.0.0.1:9/mcp --upstream-url http://127.0.0.1:9 --set " +
			"phases.order=turns", "--processes"},
	} {
		var out, errs bytes.Buffer
		err := runCommand(
			t.Context(),
			append([]string{"run", "--quiet", "--out", t.TempDir()}, strings.Fields(tt.args)...),
			streams{nil, &out, &errs, nil, nil},
		)
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", tt.args, err, tt.want)
		}
	}
}
