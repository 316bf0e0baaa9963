package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// TestLeak plants a leak of memory. It must be found, in memory alone, and fail the run.
func TestLeak(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "leak.yaml")
	if err := os.WriteFile(file, []byte(`name: leak
target: {embedded: {faults: "hoard(mib=240)"}}
lanes: [{name: push, mode: push, subscriptions: 20, event: tick}]
upstream: {payload: {probe: "{{.Probe}}"}}
schedule: {kind: constant, rate: 10/s}
phases: {ready: 30s, warmup: 2s, measure: 44s, drain: 10s, cooldown: 2s}
thresholds: ["target.leak.memory == none", "target.leak.files == none"]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	stdout, stderr, code := execute(t, "run", "--profile", file, "--out", out, "--quiet")
	if code != 99 && code != 4 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	r, err := results.Rebuild(out)
	must(t, err)
	memory, files := r.Target.Leak["memory"], r.Target.Leak["files"]
	const mib = 1 << 20
	if memory.Verdict != results.LeakFound || memory.Slope < 200*mib || memory.Slope > 300*mib {
		t.Errorf("memory: %+v", memory)
	}
	if files.Verdict == results.LeakFound {
		t.Errorf("files: %+v", files)
	}
	if !strings.Contains(stdout, "LEAK       memory: it rises by") {
		t.Errorf("the report does not say so:\n%s", stdout)
	}
	if v := r.Thresholds[0]; v.Passed || v.NotEvaluated != "" {
		t.Errorf("%+v", v)
	}
}

// TestLeakIsJudgedFromTheMeasuredPhase: what the target takes up while subscriptions are opened is
// no growth under constant load, so the first sample has all streams.
func TestLeakIsJudgedFromTheMeasuredPhase(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files of another process are counted on Linux only")
	}
	t.Parallel()
	const streams = 60
	out := filepath.Join(t.TempDir(), "out")
	stdout, stderr, code := execute(
		t,
		"run",
		"push",
		"--quiet",
		"--out",
		out,
		"--duration",
		"2s",
		"--set",
		"thresholds=[]",
		"--set",
		"phases.warmup=100ms",
		"--set",
		"phases.ready=60s",
		"--set",
		"lanes.push.subscriptions=60",
		"--set",
		"lanes.push.attach.rate=20/s",
	)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	r := loaded(t, out)
	if files := r.Target.Leak["files"]; files.Points > 0 && files.Start < streams {
		t.Errorf("%g open files of a target with %d streams: %+v", files.Start, streams, files)
	} else if files.Points == 0 {
		t.Errorf("no samples: %+v", files)
	}
}
