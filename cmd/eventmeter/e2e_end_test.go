package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/results"
)

// patient gives a run on a busy machine time. A phase ends as soon as its work is done.
var patient = []string{"--set", "phases.ready=60s", "--set", "phases.drain=60s"}

// smoke runs the built-in profile, patiently, with more arguments. Its pollers find their pace
// soon, and do not wait for it in each run.
func smoke(more ...string) []string {
	other := func(arg string) bool {
		return arg == "--target" || arg == "--command" || strings.HasPrefix(arg, "target.url=") || strings.HasPrefix(arg, "target.command=")
	}
	if !slices.ContainsFunc(more, other) {
		more = append([]string{"--set", "target.embedded.nextPoll=200ms"}, more...)
	}
	return slices.Concat([]string{"run", "--profile", "smoke"}, patient, more)
}

// longRun starts a run that would last long, and returns once every lane has
// deliveries.
func longRun(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := watched(t, smoke(append([]string{"--set", "phases.measure=10m", "--out", dir, loose}, args...)...)...)
	startUntil(t, cmd, "measure")
	waitForDeliveries(t, dir)
	return cmd
}

// waitForDeliveries waits for a result, or a checkpoint, in which every lane has
// deliveries.
func waitForDeliveries(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "a checkpoint in "+dir, func() bool {
		r, err := results.Load(dir)
		if err != nil {
			return false
		}
		for _, l := range r.Lanes {
			if l.Delivered == 0 {
				return false
			}
		}
		return true
	})
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestKilledTargetLeavesAPartialResult(t *testing.T) {
	t.Parallel()
	ready, target := serveTarget(t, "--allow-private-callbacks", "--callback-insecure")
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRun(t, dir, "--target", ready.URL, "--token", "x", "--upstream-url", ready.Admin)
	must(t, target.Process.Kill())
	if code := codeOf(t, cmd.Wait()); code != exitTarget {
		t.Errorf("exit code %d, want %d", code, exitTarget)
	}
	r := loaded(t, dir)
	if !r.Partial || !strings.Contains(r.Reason, "every event of the last") || r.Lanes[0].Delivered == 0 {
		t.Errorf("partial %v (%s), delivered %d", r.Partial, r.Reason, r.Lanes[0].Delivered)
	}
}

// startUntil starts a command, and returns once a line of its standard error has a text.
func startUntil(t *testing.T, cmd *exec.Cmd, text string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	waitForLine(t, stderr, text)
}

// interrupted sends a signal to a command, which must end because of it.
func interrupted(t *testing.T, cmd *exec.Cmd, by os.Signal) {
	t.Helper()
	must(t, cmd.Process.Signal(by))
	if code := codeOf(t, cmd.Wait()); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
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
				must(t, cmd.Process.Signal(os.Interrupt))
			}
			if code := codeOf(t, cmd.Wait()); code != exitInterrupted {
				t.Errorf("exit code %d, want %d", code, exitInterrupted)
			}
			r := loaded(t, dir)
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

// steadily delays every event by 100 to 200 ms, so that a busy machine changes little about its
// latency.
const steadily = "--set=target.embedded.faults='delay(rate=1, uniform=100ms..200ms, seed=1)'"

// TestUntil: the measured phase ends when a latency is known exactly enough, or at its bound, and
// covers the events that were due until then.
func TestUntil(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args    []string
		lanes   int
		least   results.Nanos
		most    results.Nanos
		reached bool
		by      string
		text    string
	}{
		"reached": {[]string{"--until", "push.p50 ±20%", "--set", "phases.measureAtMost=1m"}, 1, 2e9, 60e9, true,
			results.EndedByCondition, "until      measured "},
		"in turns": {[]string{"--until", "*.p50 +-50%", "--set", "phases.order=turns",
			"--set", "phases.measureAtMost=1m"}, 3, 2e9, 60e9, true, results.EndedByCondition, "until      measured "},
		"out of reach": {[]string{"--until", "push.p99 ±0.01%", "--set", "phases.measureAtMost=3s"}, 1, 3e9, 3e9 + 1, false,
			results.EndedByBound, "after 3.00s, the bound: not ±0.01 %"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "out")
			stdout, stderr, code := execute(t, smoke(append([]string{"--quiet", "--out", dir, loose, steadily}, tt.args...)...)...)
			if code != exitOK && code != exitBottleneck {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if !strings.Contains(stdout, tt.text) {
				t.Errorf("%q is missing:\n%s", tt.text, stdout)
			}
			r := loaded(t, dir)
			if len(r.Until) != tt.lanes {
				t.Fatalf("%+v", r.Until)
			}
			var due int64
			for i, x := range r.Until {
				if x.Reached != tt.reached || x.EndedBy != tt.by || x.Measured < tt.least || x.Measured >= tt.most {
					t.Errorf("%+v", x)
				}
				if x.Reached && (*x.HalfWidth > x.AtMost || x.Value < 100e6) {
					t.Errorf("%+v", x)
				}
				// 20 events/s, the first 10 of them to warm up.
				n := int64(math.Ceil(20*(x.Measured.Duration()+500*time.Millisecond).Seconds())) - 10
				due += n
				if l := r.Lanes[i]; x.Lane != l.Name || r.Upstream.Dropped == 0 && (l.Expected != 5*n || l.Delivered != 5*n) {
					t.Errorf("lane %s: expected %d, delivered %d, of %d events", l.Name, l.Expected, l.Delivered, n)
				}
			}
			warned := slices.ContainsFunc(r.Warnings, func(w results.Warning) bool { return w.Code == "until" })
			if r.Upstream.Scheduled != due || r.Partial || warned == tt.reached {
				t.Errorf("%d events of %d, partial %v, warnings %+v", r.Upstream.Scheduled, due, r.Partial, r.Warnings)
			}
		})
	}
}

func TestInterruptedUntil(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRun(t, dir, "--until", "push.p99 ±5%")
	interrupted(t, cmd, os.Interrupt)
	r := loaded(t, dir)
	if !r.Partial || len(r.Until) != 1 || r.Until[0].EndedBy != results.EndedByStop || r.Until[0].Measured <= 0 {
		t.Errorf("partial %v, %+v", r.Partial, r.Until)
	}
}

// TestSummarySaysWhyEventsWereRefused: a run whose events the upstream refuses says so where it
// ends, in one process and in several.
func TestSummarySaysWhyEventsWereRefused(t *testing.T) {
	t.Parallel()
	ready, _ := serveTargetWith(t, embedded.Options{})
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusMethodNotAllowed)
	}))
	defer refusing.Close()
	for _, processes := range []string{"1", "2"} {
		cmd := command(t, "run", "-", "--quiet", "--out", t.TempDir(), "--target", ready.URL, "--processes", processes)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`name: refused
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {kind: http, http: {url: %q}, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 0, measure: 500ms}
`, refusing.URL))
		stdout, stderr, _ := toItsEnd(t, cmd)
		one := strings.Join(strings.Fields(stdout), " ")
		if !strings.Contains(one, "refused 10 of 10 events were not accepted (10 refused, 0 uncertain), ") ||
			!strings.Contains(one, "POST "+refusing.URL+": 405 Method Not Allowed: no") {
			t.Errorf("%s processes:\n%s\n%s", processes, stdout, stderr)
		}
	}
}
