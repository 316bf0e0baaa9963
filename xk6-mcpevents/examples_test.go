package mcpevents_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// k6Bin and eventmeterBin are built once, for all tests.
var k6Bin, eventmeterBin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xk6-mcpevents")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	k6Bin, eventmeterBin = filepath.Join(dir, "k6.exe"), filepath.Join(dir, "eventmeter.exe")
	for out, pkg := range map[string]string{k6Bin: "./cmd/k6", eventmeterBin: "github.com/eventmeter/eventmeter/cmd/eventmeter"} {
		if err := exectest.Build(out, pkg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// serve starts a reference server with the flags that README.md gives, and
// those of the test, and returns its addresses.
func serve(t *testing.T, args ...string) (url, admin string) {
	t.Helper()
	shown := regexp.MustCompile(`eventmeter serve (--.*)\n`).FindStringSubmatch(readme(t))
	if shown == nil {
		t.Fatal("README.md does not say how to serve")
	}
	flags, document, given := strings.Cut(shown[1], " --options '{")
	if !given {
		t.Fatal("README.md gives no options to serve")
	}
	c := exectest.Command(eventmeterBin, slices.Concat([]string{"serve", "--options", "-"}, strings.Fields(flags), args)...)
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	c.Stderr = os.Stderr
	must(t, c.Start())
	t.Cleanup(func() {
		in.Close()
		_ = c.Wait()
	})
	if _, err := fmt.Fprintln(in, `{"NextPoll":"200ms",`+strings.TrimSuffix(document, "'")); err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL, Admin string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	must(t, err)
	must(t, json.Unmarshal(line, &ready))
	return ready.URL, ready.Admin
}

// k6Command runs a script.
func k6Command(t *testing.T, script, url, admin string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"run", "-q", "--address", "", "--no-color", "-e", "TARGET=" + url, "-e", "ADMIN=" + admin}, args...)
	return exectest.CommandContext(t.Context(), k6Bin, append(args, script)...)
}

// k6 runs a script and returns k6's exit code and output.
func k6(t *testing.T, script, url, admin string, args ...string) (int, string) {
	t.Helper()
	c := k6Command(t, script, url, admin, args...)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// examples are the scripts, the fault that each is to find and the metric that
// says so. drop hits every event that k6 hears of, and what resumable.js is sent.
var examples = []struct{ name, fault, crossed string }{
	{"smoke.js", "drop(every=4)", "mcp_events_lost"},
	{"push.js", "drop(every=4)", "mcp_events_lost"},
	{"poll.js", "drop(every=4)", "mcp_events_lost"},
	{"webhook.js", "drop(every=4)", "mcp_events_lost"},
	{"monitors.js", "drop(every=4)", "mcp_events_lost"},
	{"compare.js", "drop(every=4)", "mcp_events_lost"},
	{"resumable.js", "drop(every=4)", "mcp_messages_lost"},
	{"list-ttl.js", "stale(from=4, every=1)", "mcp_events_lost"},
}

// hasty copies the examples, with less patience for what is missing: what a
// faulty target leaves out nobody needs to wait for. It returns their folder.
func hasty(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "examples")
	must(t, os.CopyFS(dir, os.DirFS("examples")))
	files, err := filepath.Glob(filepath.Join(dir, "*.js"))
	must(t, err)
	shorter, changed := strings.NewReplacer("settle: '10s'", "settle: '500ms'", "+ 10000}ms", "+ 2000}ms"), 0
	for _, name := range files {
		text := readFile(t, name)
		short := shorter.Replace(string(text))
		if short != string(text) {
			changed++
		}
		must(t, os.WriteFile(name, []byte(short), 0o600))
	}
	if changed != 8 { // all that wait for events
		t.Errorf("%d examples have a settle time", changed)
	}
	return dir
}

// TestExamplesPass: each against a sound target of its own, so that nothing of
// another is heard.
func TestExamplesPass(t *testing.T) {
	t.Parallel()
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, admin := serve(t)
			if code, out := k6(t, filepath.Join("examples", c.name), url, admin); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}

// TestExamplesFindFaults runs the examples against targets that leave something
// out: k6 must say so, by that threshold and no other.
func TestExamplesFindFaults(t *testing.T) {
	t.Parallel()
	dir := hasty(t)
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, admin := serve(t, "--faults", c.fault)
			code, out := k6(t, filepath.Join(dir, c.name), url, admin)
			if code != 99 {
				t.Fatalf("exit code %d, want 99\n%s", code, out)
			}
			if !strings.Contains(out, "thresholds on metrics '"+c.crossed+"' have been crossed") {
				t.Errorf("another threshold was crossed than that of %s\n%s", c.crossed, out)
			}
		})
	}
}

// TestExampleFindsBrokenRow: a target that delivers before it is allowed to loses
// nothing, and breaks a row that quotes a MUST.
func TestExampleFindsBrokenRow(t *testing.T) {
	t.Parallel()
	url, admin := serve(t, "--faults", "early")
	code, out := k6(t, filepath.Join(hasty(t), "webhook.js"), url, admin)
	if code != 99 || !strings.Contains(out, "thresholds on metrics 'mcp_events_conformance_broken{level:must}' have been crossed") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestExamplesNeedAServer: where nobody answers, no example passes.
func TestExamplesNeedAServer(t *testing.T) {
	t.Parallel()
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nobody := "http://127.0.0.1:1"
			code, out := k6(t, filepath.Join("examples", c.name), nobody+"/mcp", nobody)
			if code != 99 {
				t.Fatalf("exit code %d, want 99\n%s", code, out)
			}
			_, crossed, _ := strings.Cut(out, "thresholds on metrics '")
			if crossed, _, _ = strings.Cut(crossed, "'"); !strings.Contains(crossed, "_expected") || strings.Contains(crossed, "_lost") {
				t.Errorf("crossed: %s\n%s", crossed, out)
			}
		})
	}
}
