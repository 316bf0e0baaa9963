package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/exectest"
	"github.com/eventmeter/eventmeter/results"
)

// asCommand makes the test binary behave as eventmeter, so that the tests run the
// real command in real processes, with the race detector in it if the tests have
// it.
const asCommand = "EVENTMETER_TEST_AS_COMMAND"

// asBurner makes it burn a processor until it is killed, a minute at most.
const asBurner = "EVENTMETER_TEST_AS_BURNER"

// asProgram makes it the program of upstream.kind exec.
const asProgram = "EVENTMETER_TEST_AS_PROGRAM"

// asPanic makes it a program one of whose goroutines panics.
const asPanic = "EVENTMETER_TEST_AS_PANIC"

func TestMain(m *testing.M) {
	if os.Getenv(asPanic) != "" {
		handlePanics()
		var work sync.WaitGroup
		work.Go(crash.Guarded(func() { panic("out of\n\x1b]0;order") }))
		work.Wait()
		return
	}
	if os.Getenv(asProgram) != "" {
		injectLines()
		return
	}
	if os.Getenv(asBurner) != "" {
		for start := time.Now(); time.Since(start) < time.Minute; {
		}
		return
	}
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	// Under nohup the hangups that tests send would be ignored. What this process takes, its
	// children do not ignore.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// Under the race detector a program sleeps for a second when it ends, in
	// case something is still running; the hundred that are started here, and
	// the targets that those start, do not.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
	os.Exit(code)
}

// programDir is the folder of the built program; "" = it was not built.
var programDir string

// program is the path of eventmeter as users build it, without the race detector.
func program(t *testing.T) string {
	t.Helper()
	file, err := buildOnce()
	must(t, err)
	return file
}

var buildOnce = sync.OnceValues(func() (string, error) {
	var err error
	if programDir, err = os.MkdirTemp("", "eventmeter-*"); err != nil {
		return "", err
	}
	file := filepath.Join(programDir, "eventmeter.exe") // Windows needs the ending
	return file, exectest.Build(file, "github.com/eventmeter/eventmeter/cmd/eventmeter")
})

// command is the built program with args, to be run in a folder of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return limited(t, program(t), args...)
}

// watched is eventmeter with args, with the race detector if the tests have it. It
// is for what ends in a way that tests within one process cannot have, and for
// processes that work together.
func watched(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := limited(t, self, args...)
	cmd.Env = append(cmd.Env, asCommand+"=1")
	return cmd
}

// limited is a command that is killed after some minutes.
func limited(t *testing.T, file string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	cmd := exectest.CommandContext(ctx, file, args...)
	cmd.Env, cmd.Dir = os.Environ(), t.TempDir()
	return cmd
}

// execute runs the built program to its end.
func execute(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return toItsEnd(t, command(t, args...))
}

// executeWatched runs eventmeter to its end, with the race detector if the tests
// have it.
func executeWatched(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return toItsEnd(t, watched(t, args...))
}

func toItsEnd(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	code = codeOf(t, cmd.Run())
	return out.String(), err.String(), code
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

// serveTarget starts the reference server in a process of its own.
func serveTarget(t *testing.T, args ...string) (embedded.Ready, *exec.Cmd) {
	t.Helper()
	return serveTargetWith(t, embedded.Options{}, args...)
}

// serveTargetWith is serveTarget with options that are no flags.
func serveTargetWith(t *testing.T, o embedded.Options, args ...string) (embedded.Ready, *exec.Cmd) {
	t.Helper()
	if o.NextPoll == 0 {
		o.NextPoll = 200 * time.Millisecond // pollers find their pace soon
	}
	cmd := command(t, append([]string{"serve", "--options", "-"}, args...)...)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	must(t, embedded.WriteOptions(in, o))
	var ready embedded.Ready
	must(t, json.NewDecoder(out).Decode(&ready))
	return ready, cmd
}

// exact requires that each of the lane's five subscriptions got each event
// that was taken once. A busy machine may drop some of the emissions, and says so.
func exact(t *testing.T, r *results.Result, emissions int64) {
	t.Helper()
	accounted(t, r, emissions, emissions/2)
}

// accounted is exact where no more than a few of the emissions need have been fired.
func accounted(t *testing.T, r *results.Result, emissions, least int64) {
	t.Helper()
	u := r.Upstream
	if u.Scheduled != emissions || u.Accepted+u.Dropped != emissions || u.Accepted < least {
		t.Errorf("upstream %+v, want %d events, accepted or dropped", u, emissions)
	}
	perLane := 5 * u.Accepted
	if r.Phases[0].Lane != "" { // lanes in turns share the emissions
		perLane /= int64(len(r.Lanes))
	}
	if len(r.Lanes) == 0 {
		t.Error("no lanes")
	}
	for _, l := range r.Lanes {
		if l.Expected != perLane || l.Delivered != perLane {
			t.Errorf("lane %s: expected %d and delivered %d, want %d", l.Name, l.Expected, l.Delivered, perLane)
		}
		if n := l.Lost() + l.Duplicates.SameEvent + l.Duplicates.SameEmission + l.Duplicates.Requested +
			l.OutOfOrder + l.Unexpected + l.Recovered + l.Gaps.Incidents + l.Gaps.FalseAlarms + l.Gaps.Overclaimed + l.Gaps.NotReplayed; n != 0 {
			t.Errorf(
				"lane %s is not clean: lost %d and %d, duplicates %+v, out of order %d, unexpected %d, recovered %d, gaps %+v, failures %v",
				l.Name,
				l.LostSilent,
				l.LostAnnounced,
				l.Duplicates,
				l.OutOfOrder,
				l.Unexpected,
				l.Recovered,
				l.Gaps,
				l.Failures,
			)
		}
		if q := l.Latency.FromIntended; q.Count != perLane || q.P50 <= 0 || q.P50 > q.P99 || q.P99 > q.Max ||
			q.Max > results.Nanos(time.Minute) {
			t.Errorf("lane %s: latency %+v", l.Name, q)
		}
		if l.Latency.FromSent.P50 > l.Latency.FromIntended.Max {
			t.Errorf("lane %s: from sent %+v is above from intended %+v", l.Name, l.Latency.FromSent, l.Latency.FromIntended)
		}
		if l.Ready.Active != int64(l.Subscriptions) || l.Ready.Time.Count == 0 {
			t.Errorf("lane %s: ready %+v", l.Name, l.Ready)
		}
		if l.Overhead.Requests == 0 || r.Target.Stdio == nil && l.Overhead.Connections+l.Overhead.Causes["events"].Connections == 0 {
			t.Errorf("lane %s: overhead %+v", l.Name, l.Overhead)
		}
	}
}

// loose keeps a busy test machine from failing a run for being busy.
const loose = "--set=thresholds=[\"*.lostSilent == 0\"]"

func TestRunOnTheEmbeddedTarget(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	stdout, stderr, code := execute(t, smoke("--full", "--out", dir)...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	r := loaded(t, dir)
	exact(t, r, 40)
	if r.Partial || !r.Target.Embedded || r.Target.Process == nil || r.Target.Process.Memory == 0 {
		t.Errorf("target %+v, partial %v", r.Target, r.Partial)
	}
	for _, want := range []string{"subscriptions active", "expected", "result in " + dir, "pass  *.lostSilent == 0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout)
		}
	}
	for _, line := range strings.Split(stdout, "\n") {
		if n := len([]rune(line)); n > 100 && strings.Contains(line, "  ") && !strings.HasPrefix(line, "generator") {
			t.Errorf("a line of the table is %d columns wide: %s", n, line)
		}
	}
	if !strings.Contains(stderr, "measure") {
		t.Errorf("no progress on standard error:\n%s", stderr)
	}
	for _, lane := range []string{"push", "poll", "webhook"} {
		if _, err := os.Stat(filepath.Join(dir, lane+".hlog")); err != nil {
			t.Error(err)
		}
	}
}

func TestRunLanesInTurns(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := execute(t, smoke("--set", "phases.order=turns", "--format=json", "--quiet")...)
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	r, err := results.Read(strings.NewReader(stdout))
	must(t, err)
	if r.Upstream.Dropped == 0 { // else turns differ
		exact(t, r, 120)
	}
	if r.Upstream.Scheduled != 120 || r.Lanes[0].Process == nil || r.Phases[0].Lane == "" {
		t.Errorf("upstream %+v, process %+v, phases %+v", r.Upstream, r.Lanes[0].Process, r.Phases)
	}
	if strings.Contains(stderr, "measure") {
		t.Errorf("--quiet is not quiet: %s", stderr)
	}
}

func TestRunAgainstAServer(t *testing.T) {
	t.Parallel()
	ready, _ := serveTarget(t, "--allow-private-callbacks", "--callback-insecure", "--token", "t0", "--token", "t1", "--tls")
	tokens := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(tokens, []byte("\ufefft0\n# a comment\nt1\n"), 0o600))
	for name, extra := range map[string][]string{
		"inject": {"--upstream-url", ready.Admin},
		"http": {
			"--upstream", "http", "--upstream-url", ready.Admin + "/inject",
			"--set", `upstream.payload={name: chat.message, data: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}`,
		},
		"h2c":    {"--upstream-url", ready.Admin, "--set", "lanes.*.http=h2c"},
		"older":  {"--upstream-url", ready.Admin, "--set", "target.revision=older"},
		"legacy": {"--upstream-url", ready.Admin, "--set", "target.era=legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := execute(
				t,
				smoke(append([]string{"--quiet", "--format=json", "--target", ready.URL, "--token-file", tokens}, extra...)...)...)
			if code != 0 && code != exitBottleneck {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			r, err := results.Read(strings.NewReader(stdout))
			must(t, err)
			exact(t, r, 40)
			if strings.Contains(stdout, "t0") {
				t.Error("a token is in the result")
			}
		})
	}
}

func TestFailuresNameTheirReason(t *testing.T) {
	t.Parallel()
	ready, _ := serveTarget(t, "--token", "good", "--allow-private-callbacks")
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>\x00 hello {{{")
	}))
	t.Cleanup(garbage.Close)
	typo := filepath.Join(t.TempDir(), "typo.yaml")
	if err := os.WriteFile(
		typo,
		[]byte("name: x\nlanes:\n  - name: a\n    mode: push\n    subscritpions: 3\n    event: e\n"),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := "http://" + free.Addr().String() + "/mcp"
	free.Close()
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"typo":          {[]string{"run", "--profile", typo}, exitUsage, "subscriptions"},
		"no profile":    {[]string{"run", "--profile", "nope"}, exitUsage, "nope"},
		"bad flag":      {[]string{"run", "--nope"}, exitUsage, "see eventmeter run --help"},
		"bad argument":  {[]string{"run", "now"}, exitUsage, "now"},
		"bad override":  {[]string{"run", "--set", "phases.mesure=3s"}, exitUsage, "measure"},
		"bad threshold": {[]string{"run", "--set", "thresholds=[\"push.lostsilent == 0\"]"}, exitUsage, "lostSilent"},
		"bad condition": {[]string{"run", "--until", "push.p97 ±5%"}, exitUsage, `phases.until: bad condition "push.p97 ±5%"`},
		"no such lane":  {[]string{"run", "--until", "psh.p99 +-5%"}, exitUsage, `there is no lane "psh"`},
		"until, shards": {[]string{"run", "--until", "*.p99 ±5%", "--processes", "2"}, exitUsage, "phases.until: no shard knows"},
		"bad header":    {[]string{"run", "--header", "x"}, exitUsage, "Name: value"},
		"no tokens":     {[]string{"run", "--token-file", filepath.Join(t.TempDir(), "x")}, exitUsage, "token file"},
		"not this machine": {
			[]string{"run", "--target", "http://192.0.2.1/mcp", "--upstream-url", "http://127.0.0.1:1"}, exitUsage, "--allow-host 192.0.2.1",
		},
		"other upstream": {[]string{"run", "--upstream", "http", "--upstream-url", "http://192.0.2.1/x?{{.Probe}}"},
			exitUsage, "--allow-host 192.0.2.1"},
		"wrong URL": {
			[]string{"run", "--profile", "smoke", "--target", nobody, "--upstream-url", "http://127.0.0.1:1"}, exitTarget, "connection refused",
		},
		"garbage": {[]string{"run", "--profile", "smoke", "--target", garbage.URL,
			"--upstream-url", "http://127.0.0.1:1"}, exitTarget, garbage.URL},
		"refused token": {[]string{"run", "--profile", "smoke", "--target", ready.URL, "--token", "bad",
			"--upstream-url", ready.Admin}, exitTarget, "401"},
		"no such event": {
			[]string{"run", "--profile", "smoke", "--target", ready.URL, "--token", "good", "--upstream-url", ready.Admin,
				"--set", "lanes.*.event=nope", "--set", "upstream.event=nope"}, exitTarget, `does not offer the event "nope"`,
		},
		"discover nobody": {[]string{"discover", "--target", nobody}, exitTarget, "connection refused"},
		"discover far":    {[]string{"discover", "--target", "http://192.0.2.1/"}, exitUsage, "--allow-host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := execute(t, append(tt.args, quietly(tt.args)...)...)
			endedWith(t, tt.code, tt.want, stdout, stderr, code)
		})
	}
}

// endedWith requires an exit code and one clear line on standard error.
func endedWith(t *testing.T, want int, line, stdout, stderr string, code int) {
	t.Helper()
	if code != want || !strings.Contains(stderr, line) {
		t.Errorf("exit code %d, want %d with %q on standard error:\n%s\n%s", code, want, line, stderr, stdout)
	}
	last := strings.TrimSpace(stderr)
	if strings.Contains(last, "goroutine ") || strings.Contains(last, "Usage:") {
		t.Errorf("not one clear line:\n%s", last)
	}
}

// TestThresholdsNameTheirReason runs beside no other test: on a busy machine a
// run ends with another exit code, and what became of a threshold is not seen. Its
// drains are short, because what a lane that hears nothing is owed never comes.
func TestThresholdsNameTheirReason(t *testing.T) {
	for name, tt := range map[string]struct {
		set  []string
		code int
		want string
	}{
		"failed":     {[]string{"thresholds=[\"push.delivered == 1\"]"}, exitThreshold, "a threshold failed"},
		"not judged": {[]string{"lanes.poll.arguments={channel: nowhere}"}, exitUnjudged, "a threshold or gate was not evaluated"},
		"not judged, and failed": {[]string{"lanes.poll.arguments={channel: nowhere}",
			"thresholds=[\"*.lostSilent == 0\", \"push.delivered == 1\"]"}, exitThreshold, "a threshold failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := smoke("--quiet", "--set", "phases.drain=5s")
			for _, s := range tt.set {
				args = append(args, "--set", s)
			}
			stdout, stderr, code := execute(t, args...)
			if code == exitBottleneck {
				t.Log("this machine is too busy to tell what became of a threshold")
				return
			}
			endedWith(t, tt.code, tt.want, stdout, stderr, code)
		})
	}
}

func quietly(args []string) []string {
	if args[0] == "run" {
		return []string{"--quiet"}
	}
	return nil
}

// waitForLine reads r until a line has the prefix, and goes on reading, so that
// the writer never blocks.
func waitForLine(t *testing.T, r io.Reader, prefix string) {
	t.Helper()
	s := bufio.NewScanner(r)
	for s.Scan() {
		if strings.HasPrefix(s.Text(), prefix) {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return
		}
	}
	t.Fatalf("no line begins with %q", prefix)
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	ready, _ := serveTarget(t)
	stdout, stderr, code := execute(t, "discover", "--target", ready.URL, "--token", "x")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{"era", "modern 2026-07-28", "chat.message  ", "poll", "arguments", "name: first-try"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	// The profile to start from must be one.
	_, yaml, _ := strings.Cut(stdout, "--write FILE writes it\n")
	file := filepath.Join(t.TempDir(), "first.yaml")
	must(t, os.WriteFile(file, []byte(yaml), 0o600))
	if out, stderr, code := execute(t, "profiles", "check", file); code != 0 || !strings.Contains(out, "3 lanes") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

func TestProfilesCommands(t *testing.T) {
	t.Parallel()
	list, _, code := execute(t, "profiles")
	if code != 0 || !strings.Contains(list, "compare") {
		t.Fatalf("exit code %d: %s", code, list)
	}
	shown, _, code := execute(t, "profiles", "show", "compare")
	if code != 0 || !strings.Contains(shown, "lanes:") {
		t.Fatalf("exit code %d: %s", code, shown)
	}
	edited, stderr, code := execute(t, "profiles", "show", "compare", "--set", "phases.drain=3s")
	if want := strings.Replace(shown, "drain: 5s #", "drain: 3s #", 1); code != 0 || edited != want || want == shown {
		t.Errorf("exit code %d: %s\n%s", code, stderr, edited)
	}
	if _, stderr, code := execute(
		t,
		"profiles",
		"show",
		"compare",
		"--set",
		"phases.drain=3",
	); code != exitUsage ||
		!strings.Contains(stderr, "3 has no unit; did you mean 3s?") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, stderr, code := execute(t, "profiles", "show", "compar"); code != exitUsage || !strings.Contains(stderr, "compare") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// loaded returns the result in the archive of a run.
func loaded(t testing.TB, dir string) *results.Result {
	t.Helper()
	r, err := results.Load(dir)
	must(t, err)
	return r
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return text
}
