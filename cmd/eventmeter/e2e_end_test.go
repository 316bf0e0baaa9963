package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// longRun starts a run that would last long, and returns once it measures.
func longRun(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := watched(t, append([]string{"run", "--profile", "smoke", "--set", "phases.measure=60s", "--out", dir, loose}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForLine(t, stderr, "measure")
	// The first line of the phase is written as it begins; give it two events.
	waitForFired(t)
	return cmd
}

// waitForFired lets the schedule go on for a moment: it fires in real time.
func waitForFired(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(1200 * time.Millisecond):
	case <-t.Context().Done():
	}
}

func TestKilledTargetLeavesAPartialResult(t *testing.T) {
	t.Parallel()
	ready, target := serveTarget(t, "--allow-private-callbacks", "--callback-insecure")
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRun(t, dir, "--target", ready.URL, "--token", "x", "--upstream-url", ready.Admin)
	if err := target.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := codeOf(t, cmd.Wait()); code != exitTarget {
		t.Errorf("exit code %d, want %d", code, exitTarget)
	}
	r, err := results.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Partial || !strings.Contains(r.Reason, "every event of the last") || r.Lanes[0].Delivered == 0 {
		t.Errorf("partial %v (%s), delivered %d", r.Partial, r.Reason, r.Lanes[0].Delivered)
	}
}

func TestInterruptWritesAPartialResult(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "out")
			cmd := longRun(t, dir)
			for range times {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
			if code := codeOf(t, cmd.Wait()); code != exitInterrupted {
				t.Errorf("exit code %d, want %d", code, exitInterrupted)
			}
			r, err := results.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Partial || r.Lanes[0].Delivered == 0 || r.Lanes[0].LostSilent != 0 {
				t.Errorf("partial %v, lane %+v", r.Partial, r.Lanes[0])
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh to limit the size of files")
	}
	// A limit of file size is met by the same write as a full disk.
	cmd := watched(t)
	args := append([]string{sh, "-c", `ulimit -f 2; exec "$0" "$@"`, cmd.Path}, "run", "--profile", "smoke", "--quiet", loose)
	cmd.Path, cmd.Args = sh, args
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	code := codeOf(t, cmd.Run())
	if code != exitFailure || !strings.Contains(stderr.String(), "save the result") || !strings.Contains(stderr.String(), "--out") {
		t.Errorf("exit code %d, want %d\n%s", code, exitFailure, stderr.String())
	}
	if !strings.Contains(out.String(), "expected") {
		t.Errorf("the figures are lost:\n%s", out.String())
	}
}
