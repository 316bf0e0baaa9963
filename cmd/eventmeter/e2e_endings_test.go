//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// toClosedPipe runs the command with an output that nobody reads.
func toClosedPipe(t *testing.T, args ...string) (stderr string, code int) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	r.Close()
	defer w.Close()
	cmd := watched(t, args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &text
	return killedOr(t, cmd, &text)
}

// killedOr runs a command to its end; code is -1 where a signal ended it.
func killedOr(t *testing.T, cmd *exec.Cmd, text *bytes.Buffer) (stderr string, code int) {
	t.Helper()
	code = codeOf(t, cmd.Run())
	return text.String(), code
}

// TestClosedOutputIsNoError: whoever reads the output may stop reading, as head
// does. The run is archived whole all the same.
func TestClosedOutputIsNoError(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"text":      nil,
		"json":      {"--format=json"},
		"processes": {"--processes", "2"},
		"trials":    {"--trials", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "out")
			stderr, code := toClosedPipe(t, short(t, append([]string{"--out", dir}, args...)...)...)
			if code != exitOK && code != exitBottleneck || strings.Contains(stderr, "pipe") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			dirs := []string{dir}
			if name == "trials" {
				dirs = []string{filepath.Join(dir, "trial-001"), filepath.Join(dir, "trial-002")}
			}
			for _, dir := range dirs {
				r := loaded(t, dir)
				if r.Partial || r.Lanes[0].Delivered == 0 {
					t.Errorf("partial %v (%s), delivered %d", r.Partial, r.Reason, r.Lanes[0].Delivered)
				}
				if stderr, code := toClosedPipe(t, "report", dir); code != exitOK {
					t.Errorf("report: exit code %d: %s", code, stderr)
				}
			}
		})
	}
	t.Run("capacity", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "out")
		stderr, code := toClosedPipe(t, "capacity", "--profile", knownProfile(t), "--quiet", "--out", dir,
			"--set=capacity.step=500ms", "--set=capacity.confirm=1", "--set=capacity.idle=0s")
		if code < 0 || strings.Contains(stderr, "pipe") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		if _, err := results.RebuildCapacity(dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("calibrate", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "junit.xml")
		stderr, code := toClosedPipe(t, "run", "--profile", writeProfile(t, fewCases), "--format", "junit="+file)
		if code != exitOK {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})
}

// fewCases is a calibration of one case.
const fewCases = `
name: few
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {ready: 30s, warmup: 0s, measure: 1s, drain: 2s}
cases: [{name: drop, faults: "drop(every=5)"}]
`

// TestFullOutputIsNotLost: a standard output that takes nothing is an error, and
// the archive is there.
func TestFullOutputIsNotLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer full.Close()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(t, short(t, "--out", dir)...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &stderr
	if code := codeOf(t, cmd.Run()); code != exitFailure || strings.Contains(stderr.String(), "not saved") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if r, err := results.Load(dir); err != nil || r.Partial {
		t.Error(err)
	}
}

func TestHangupWritesAPartialResult(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRun(t, dir)
	interrupted(t, cmd, syscall.SIGHUP)
	r := loaded(t, dir)
	if !r.Partial || !strings.Contains(r.Reason, "stopped") || r.Lanes[0].Delivered == 0 || r.Lanes[0].LostSilent != 0 {
		t.Errorf("partial %v (%s), lane %+v", r.Partial, r.Reason, r.Lanes[0])
	}
}

// TestNohupIsRespected: where SIGHUP was ignored before, it stays so. Were it
// taken, the interrupt after it would be the second, and end the run at once.
func TestNohupIsRespected(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh to ignore a signal")
	}
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(t, smoke("--set", "phases.measure=10m", "--out", dir, loose)...)
	cmd.Args = append([]string{sh, "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = sh
	startUntil(t, cmd, "measure")
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		must(t, cmd.Process.Signal(s))
	}
	if code := codeOf(t, cmd.Wait()); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if r, err := results.Load(dir); err != nil || r.Reason != "stopped on request" {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestInterruptBeforeTheRun: a target that does not answer the handshake, or the
// list, holds nobody up who wants to leave.
func TestInterruptBeforeTheRun(t *testing.T) {
	t.Parallel()
	ready, _ := serveTarget(t)
	target, err := url.Parse(ready.URL)
	must(t, err)
	run := []string{"run", "--profile", "smoke", "--set", "phases.ready=60s"}
	several := append(slices.Clone(run), "--processes", "2")
	search := []string{"capacity", "--profile", knownProfile(t)}
	legacy := append(slices.Clone(run), "--set", "target.era=legacy")
	for name, tt := range map[string]struct {
		method   string // of the request that is not answered; "" = all
		commands [][]string
	}{
		"handshake":     {"", [][]string{run, several, search}},
		"list":          {"events/list", [][]string{run, several, search, legacy}},
		"subscriptions": {"events/stream", [][]string{run, several, legacy}},
	} {
		method := tt.method
		for i, command := range tt.commands {
			t.Run(name+" "+command[0]+fmt.Sprint(i), func(t *testing.T) {
				met, over := make(chan struct{}), make(chan struct{})
				var once sync.Once
				proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					body, err := io.ReadAll(req.Body)
					if err != nil {
						return
					}
					// Nor is the end of a session, once something is not.
					silent := bytes.Contains(body, []byte(method))
					select {
					case <-met:
						silent = silent || req.Method == http.MethodDelete
					default:
					}
					if !silent {
						req.Body = io.NopCloser(bytes.NewReader(body))
						proxy.ServeHTTP(w, req)
						return
					}
					once.Do(func() { close(met) })
					select {
					case <-over:
					case <-req.Context().Done():
					}
				}))
				defer srv.Close()
				defer close(over)
				dir := filepath.Join(t.TempDir(), "out")
				cmd := commandOf(
					t,
					append(
						command,
						"--target",
						srv.URL+target.Path,
						"--token",
						"x",
						"--upstream-url",
						ready.Admin,
						"--quiet",
						"--out",
						dir,
					),
				)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				must(t, cmd.Start())
				select {
				case <-met:
				case <-t.Context().Done():
				}
				must(t, cmd.Process.Signal(os.Interrupt))
				signalled := time.Now()
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				// A handshake waits for 30 s, and whatever else the far side leaves
				// unanswered for longer.
				watchdog := time.AfterFunc(25*time.Second, func() { _ = cmd.Process.Kill() })
				defer watchdog.Stop()
				code := codeOf(t, <-ended)
				t.Logf("it took %v to end", time.Since(signalled))
				if code != exitInterrupted {
					t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, stderr.String())
				}
				if _, err := os.Stat(dir); err == nil {
					t.Error("an empty directory is left")
				}
			})
		}
	}
}

func commandOf(t *testing.T, args []string) *exec.Cmd {
	t.Helper()
	return watched(t, args...)
}

// children are the processes that a process started, where the system tells.
func children(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Skip("needs /proc/PID/task/TID/children")
	}
	var out []int
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(field)
			must(t, err)
			out = append(out, n)
		}
	}
	return out
}

// gone tells whether a process has ended. One that nobody has waited for yet has.
func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z")
}

// leftovers are the temporary folders of runs in dir.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "eventmeter-*"))
	must(t, err)
	return found
}

// TestKillLeavesACheckpoint kills runs with a signal that nobody can handle.
func TestKillLeavesACheckpoint(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRunIn(
		t,
		temp,
		"run",
		"--profile",
		"smoke",
		"--set",
		"phases.measure=10m",
		"--set",
		"phases.ready=60s",
		"--set",
		"phases.drain=5s",
		"--out",
		dir,
		loose,
	)
	waitForDeliveries(t, dir)
	started := children(t, cmd.Process.Pid)
	if len(started) != 1 {
		t.Fatalf("it started %d processes, want the target alone", len(started))
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	r := loaded(t, dir)
	if !r.Partial || !strings.Contains(r.Reason, "checkpoint") || len(r.Thresholds) != 0 || len(r.Lanes) != 3 {
		t.Errorf("partial %v (%s), thresholds %v, %d lanes", r.Partial, r.Reason, r.Thresholds, len(r.Lanes))
	}
	for _, l := range r.Lanes {
		if l.Delivered == 0 || l.LostSilent != 0 || l.Latency.FromIntended.Count != l.Delivered || l.Subscriptions != 5 ||
			l.Ready.Active != 5 {
			t.Errorf(
				"lane %s: delivered %d, lost %d, %d latencies, %+v",
				l.Name,
				l.Delivered,
				l.LostSilent,
				l.Latency.FromIntended.Count,
				l.Ready,
			)
		}
	}
	for _, args := range [][]string{{"report", dir}, {"report", dir, "--format", "html"}, {"compare", dir, dir}} {
		if out, stderr, code := execute(t, args...); code != exitOK || !strings.Contains(out+stderr, "checkpoint") && args[0] == "report" {
			t.Errorf("%v: exit code %d\n%s%s", args, code, stderr, out)
		}
	}
	if out, stderr, code := execute(
		t,
		"report",
		dir,
		"--format",
		"junit",
	); code != exitOK ||
		!strings.Contains(out, "<error") && !strings.Contains(out, "<failure") {
		t.Errorf("junit: exit code %d: a killed run looks like a success\n%s%s", code, stderr, out)
	}
	eventually(t, "the embedded target ends with its parent", func() bool { return gone(started[0]) })

	// What the killed run left is cleaned by the next, and what a run uses is not.
	if len(leftovers(t, temp)) == 0 {
		t.Error("the killed run left no temporary folder, so this test is about nothing")
	}
	killed := leftovers(t, temp)
	other := filepath.Join(t.TempDir(), "out")
	living := longRunIn(
		t,
		temp,
		"run",
		"--profile",
		"smoke",
		"--set",
		"phases.measure=10m",
		"--set",
		"phases.ready=60s",
		"--out",
		other,
		loose,
	)
	waitForDeliveries(t, other)
	for _, name := range killed {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("the next run left %s alone", name)
		}
	}
	mine := leftovers(t, temp)
	if len(mine) != 1 {
		t.Fatalf("%v: want the folder of the run that lives", mine)
	}
	third := longRunIn(
		t,
		temp,
		"run",
		"--profile",
		"smoke",
		"--set",
		"phases.measure=10m",
		"--set",
		"phases.ready=60s",
		"--out",
		filepath.Join(t.TempDir(), "out"),
		loose,
	)
	if _, err := os.Stat(filepath.Join(mine[0], "callbacks.pem")); err != nil {
		t.Errorf("the folder of a living run was cleaned: %v", err)
	}
	for _, cmd := range []*exec.Cmd{living, third} {
		interrupted(t, cmd, os.Interrupt)
	}
	if r, err := results.Load(other); err != nil || r.Reason != "stopped on request" {
		t.Errorf("the checkpoint was not replaced by the result: %v", err)
	}
	if found := leftovers(t, temp); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// longRunIn starts a command with a temporary folder of its own, and returns
// once it measures.
func longRunIn(t *testing.T, temp string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := watched(t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	startUntil(t, cmd, "measure")
	return cmd
}

// TestKilledShardIsMerged: what a shard measured until it was killed counts.
func TestKilledShardIsMerged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRunIn(
		t,
		t.TempDir(),
		"run",
		"--profile",
		"smoke",
		"--processes",
		"2",
		"--set",
		"phases.measure=10m",
		"--set",
		"phases.ready=60s",
		"--set",
		"phases.drain=1s",
		"--out",
		dir,
		loose,
	)
	shards := []string{filepath.Join(dir, "shard-0"), filepath.Join(dir, "shard-1")}
	for _, dir := range shards {
		waitForDeliveries(t, dir)
		eventually(t, "its part", func() bool { _, err := results.LoadPart(dir); return err == nil })
	}
	killed := 0
	for _, pid := range children(t, cmd.Process.Pid) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(line, []byte("shard\x000/2")) {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
			eventually(t, "the shard's end", func() bool { return gone(pid) })
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("killed %d shards", killed)
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	code := codeOf(t, cmd.Wait())
	r, err := results.Load(dir)
	if err != nil {
		t.Fatalf("exit code %d: %v", code, err)
	}
	first := loaded(t, shards[0])
	if code == exitOK || !r.Partial || len(r.Shards) != 2 || r.Shards[0].Missing || !strings.Contains(r.Shards[0].Reason, "checkpoint") ||
		r.Shards[0].Published == 0 {
		t.Errorf("exit code %d, partial %v (%s), shards %+v", code, r.Partial, r.Reason, r.Shards)
	}
	if r.Generator.Bottleneck && strings.Contains(strings.Join(r.Generator.Reasons, " "), "ledger") {
		t.Errorf("the checkpoint does not add up: %v", r.Generator.Reasons)
	}
	for i, l := range r.Lanes {
		if l.Delivered < first.Lanes[i].Delivered || first.Lanes[i].Delivered == 0 {
			t.Errorf("lane %s: %d delivered, of which the killed shard had %d", l.Name, l.Delivered, first.Lanes[i].Delivered)
		}
	}
	for _, dir := range []string{dir, shards[0]} {
		if _, stderr, code := execute(t, "report", dir); code != exitOK {
			t.Errorf("report %s: exit code %d: %s", dir, code, stderr)
		}
	}
}

// TestKilledParentLeavesItsShards: the shards end with their parent, and write
// what they have.
func TestKilledParentLeavesItsShards(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRunIn(
		t,
		t.TempDir(),
		"run",
		"--profile",
		"smoke",
		"--processes",
		"2",
		"--set",
		"phases.measure=10m",
		"--set",
		"phases.ready=60s",
		"--out",
		dir,
		loose,
	)
	for _, shard := range []string{"shard-0", "shard-1"} {
		waitForDeliveries(t, filepath.Join(dir, shard))
	}
	started := children(t, cmd.Process.Pid)
	if len(started) != 3 {
		t.Fatalf("it started %d processes, want two shards and a target", len(started))
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range started {
		eventually(t, "every child ends with its parent", func() bool { return gone(pid) })
	}
	merged := filepath.Join(t.TempDir(), "merged")
	_, stderr, code := execute(t, "merge", dir, "--out", merged)
	r, err := results.Load(merged)
	if err != nil {
		t.Fatalf("exit code %d: %s: %v", code, stderr, err)
	}
	if code != exitFailure || !r.Partial || r.Lanes[0].Delivered == 0 {
		t.Errorf("exit code %d, partial %v, delivered %d", code, r.Partial, r.Lanes[0].Delivered)
	}
}

func TestKilledCapacityLeavesItsSteps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(
		t,
		"capacity",
		"--profile",
		knownProfile(t),
		"--out",
		dir,
		"--set",
		"capacity.step=500ms",
		"--set",
		"capacity.precision=0.001",
	)
	startUntil(t, cmd, "step 2,")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	c, err := results.RebuildCapacity(dir)
	must(t, err)
	if !c.Partial || !strings.Contains(c.Reason, "checkpoint") || len(c.Steps) < 2 {
		t.Errorf("partial %v (%s), %d steps", c.Partial, c.Reason, len(c.Steps))
	}
	if out, stderr, code := execute(t, "report", dir); code != exitOK {
		t.Errorf("report: exit code %d\n%s%s", code, stderr, out)
	}
}

// TestOneDirectoryTakesOneRun: the second run is refused before it measures, and
// does the first no harm.
func TestOneDirectoryTakesOneRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	cmd := longRun(t, dir)
	for _, args := range [][]string{
		{"run", "--profile", "smoke", "--quiet"},
		{"run", "--profile", "smoke", "--profile", "push", "--quiet"},
		{"run", "--profile", "smoke", "--trials", "2", "--quiet"},
		{"capacity", "--profile", knownProfile(t), "--quiet"},
	} {
		stdout, stderr, code := execute(t, append(args, "--out", dir)...)
		if code != exitUsage || !strings.Contains(stderr, fmt.Sprintf("process %d", cmd.Process.Pid)) || strings.Count(stderr, "\n") != 1 ||
			stdout != "" {
			t.Errorf("%v: exit code %d: %s%s", args, code, stderr, stdout)
		}
	}
	interrupted(t, cmd, os.Interrupt)
	if _, err := results.Rebuild(dir); err != nil {
		t.Error(err)
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) > 0 {
		t.Errorf("left behind: %v", hidden)
	}
}

// TestRunsWithoutADirectoryDoNotMeet starts runs in one folder at the same time.
func TestRunsWithoutADirectoryDoNotMeet(t *testing.T) {
	t.Parallel()
	where := t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		cmd := watched(t, short(t)...)
		cmd.Dir = where
		wg.Go(func() { _ = cmd.Run() })
	}
	wg.Wait()
	found, err := filepath.Glob(filepath.Join(where, "results", "runs", "*", "report.html"))
	if err != nil || len(found) != 3 {
		t.Errorf("%d archives of 3 runs: %v %v", len(found), found, err)
	}
}

// A counted upstream stands before a target's admin address and acts on the
// injection of a number.
func countedUpstream(t *testing.T, admin string, number int64, act func()) string {
	t.Helper()
	to, err := url.Parse(admin)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		at := int64(0)
		if req.Method == http.MethodPost {
			at = n.Add(1)
		}
		proxy.ServeHTTP(w, req)
		if at == number {
			act()
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

const pushOnly = `
name: push-only
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message}]
upstream: {payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 25/s}
phases: {ready: 30s, warmup: 0s, measure: 2400ms, drain: 2s}
thresholds: ["*.lostSilent == 0"]
`

// short runs one lane for a second, for what does not depend on what was measured.
func short(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"run", "--profile", writeProfile(t, pushOnly), "--quiet", "--set", "phases.measure=1s"}, more...)
}

// TestGoneTargetIsNoSuccess: however little was left of the run, and whatever
// the thresholds find.
func TestGoneTargetIsNoSuccess(t *testing.T) {
	t.Parallel()
	kill := func(p *os.Process) { _ = p.Kill() }
	stop := func(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }
	for name, tt := range map[string]struct {
		after int64
		act   func(*os.Process)
		args  []string
	}{
		"1.8 s before the end":     {15, kill, nil},
		"0.2 s before the end":     {55, kill, nil},
		"with the last event":      {60, kill, nil},
		"hangs before the end":     {15, stop, nil},
		"between two events":       {3, kill, []string{"--set", "schedule.rate=0.5/s", "--set", "phases.measure=4800ms"}},
		"in two processes":         {15, kill, []string{"--processes", "2"}},
		"lanes in turns":           {55, kill, []string{"--set", "phases.order=turns"}},
		"hangs for good":           {2, stop, []string{"--set", "schedule.rate=0.5/s", "--set", "phases.measure=60s"}},
		"killed early":             {30, kill, []string{"--set", "phases.measure=60s"}},
		"hangs, one event per 2 s": {2, stop, []string{"--set", "schedule.rate=0.5/s", "--set", "phases.measure=4800ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready, target := serveTarget(t)
			t.Cleanup(func() { _ = target.Process.Kill() })
			admin := countedUpstream(t, ready.Admin, tt.after, func() { tt.act(target.Process) })
			dir := filepath.Join(t.TempDir(), "out")
			stdout, stderr, code := executeWatched(
				t,
				append(
					[]string{
						"run",
						"--profile",
						writeProfile(t, pushOnly),
						"--quiet",
						"--out",
						dir,
						"--target",
						ready.URL,
						"--token",
						"x",
						"--upstream-url",
						admin,
					},
					tt.args...)...)
			r, err := results.Load(dir)
			if err != nil {
				t.Fatalf("exit code %d: %v\n%s", code, err, stderr)
			}
			if code != exitTarget || !r.Partial || r.Reason == "" || !strings.Contains(stderr, "target") {
				t.Errorf("exit code %d, partial %v (%s)\n%s%s", code, r.Partial, r.Reason, stderr, stdout)
			}
			t.Logf(
				"%s: upstream %d published, %d accepted, %d refused, %d uncertain",
				r.Reason,
				r.Upstream.Published,
				r.Upstream.Accepted,
				r.Upstream.Refused,
				r.Upstream.Uncertain,
			)
		})
	}
	t.Run("nothing accepted at all", func(t *testing.T) {
		t.Parallel()
		ready, _ := serveTarget(t)
		nobody := httptest.NewServer(nil)
		nobody.Close()
		dir := filepath.Join(t.TempDir(), "out")
		_, stderr, code := executeWatched(
			t,
			"run",
			"--profile",
			writeProfile(t, pushOnly),
			"--quiet",
			"--out",
			dir,
			"--target",
			ready.URL,
			"--token",
			"x",
			"--upstream",
			"http",
			"--upstream-url",
			nobody.URL,
			"--set",
			"phases.measure=1s",
			"--set",
			`upstream.payload={text: "{{.Probe}}"}`,
		)
		if r, err := results.Load(dir); code != exitTarget || err != nil || !r.Partial {
			t.Errorf("exit code %d: %v\n%s", code, err, stderr)
		}
	})
	t.Run("the embedded target", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "out")
		cmd := longRunIn(t, t.TempDir(), "run", "--profile", writeProfile(t, pushOnly), "--set", "phases.measure=10m", "--out", dir)
		for _, pid := range children(t, cmd.Process.Pid) {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		if r, err := results.Load(dir); codeOf(t, cmd.Wait()) != exitTarget || err == nil && !r.Partial {
			t.Errorf("%v", err)
		}
	})
}

// TestHangIsNoticed stops the target in the middle of a slow schedule: the run
// says so before the event that hangs has failed, and goes on when the target
// does.
func TestHangIsNoticed(t *testing.T) {
	t.Parallel()
	ready, target := serveTarget(t)
	t.Cleanup(func() { _ = target.Process.Signal(syscall.SIGCONT) })
	admin := countedUpstream(t, ready.Admin, 2, func() { _ = target.Process.Signal(syscall.SIGSTOP) })
	dir := filepath.Join(t.TempDir(), "out")
	cmd := watched(
		t,
		"run",
		"--profile",
		writeProfile(t, pushOnly),
		"--plain",
		"--out",
		dir,
		"--target",
		ready.URL,
		"--token",
		"x",
		"--upstream-url",
		admin,
		"--set",
		"schedule.rate=0.5/s",
		"--set",
		"phases.measure=8s",
	)
	startUntil(t, cmd, "the target does not answer")
	must(t, target.Process.Signal(syscall.SIGCONT))
	if code := codeOf(t, cmd.Wait()); code != exitOK && code != exitBottleneck {
		t.Errorf("exit code %d", code)
	}
	r := loaded(t, dir)
	noted := false
	for _, w := range r.Warnings {
		noted = noted || w.Code == "target-silent"
	}
	if r.Partial || !noted || r.Upstream.Accepted != r.Upstream.Published || r.Lanes[0].Delivered != r.Lanes[0].Expected {
		t.Errorf("partial %v (%s), upstream %+v, warnings %v", r.Partial, r.Reason, r.Upstream, r.Warnings)
	}
}

// TestCallbackNotOnTheList: where the target refuses the callback's host, a run ends with a
// line that names the refusal, also where a lane goes on after failures.
func TestCallbackNotOnTheList(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"stop", "continue"} {
		_, stderr, code := execute(
			t,
			"run",
			"--quiet",
			"--profile",
			"webhook",
			"--set",
			"target.embedded.proof=allow-list",
			"--set",
			"target.embedded.callbackHosts=[callbacks.example]",
			"--set",
			"lanes.*.attach.onFailure="+after,
		)
		if code != exitTarget || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, "events/subscribe: rpc -32027: Callback endpoint error (challenge_failed)") {
			t.Errorf("%s: exit code %d, %s", after, code, stderr)
		}
		if every := strings.Contains(stderr, "none of its 300 subscriptions could be opened, first: "); every != (after == "continue") {
			t.Errorf("%s: %s", after, stderr)
		}
	}
}
