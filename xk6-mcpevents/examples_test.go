package mcpevents_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// k6Bin and mcploadBin are built once, for all tests.
var k6Bin, mcploadBin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "xk6-mcpevents")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	k6Bin, mcploadBin = filepath.Join(dir, "k6.exe"), filepath.Join(dir, "mcpload.exe")
	for out, pkg := range map[string]string{k6Bin: "./cmd/k6", mcploadBin: "github.com/mcpload/mcpload/cmd/mcpload"} {
		if text, err := exec.Command("go", "build", "-o", out, pkg).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", pkg, err, text)
			return 1
		}
	}
	return m.Run()
}

// serve starts a reference target and returns its addresses.
func serve(t *testing.T, args ...string) (url, admin string) {
	t.Helper()
	c := exec.Command(mcploadBin, append([]string{
		"serve", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-json", "--until-eof",
		"--allow-private-callbacks", "--callback-insecure", "--next-poll", "200ms", "--list-entries", "20", "--list-ttl", "1s",
	}, args...)...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = c.Wait()
	})
	var ready struct{ URL, Admin string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return ready.URL, ready.Admin
}

// k6Command runs a script.
func k6Command(t *testing.T, script, url, admin string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"run", "-q", "--address", "", "--no-color", "-e", "TARGET=" + url, "-e", "ADMIN=" + admin}, args...)
	return exec.CommandContext(t.Context(), k6Bin, append(args, script)...)
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
	{"compare.js", "drop(every=4)", "mcp_events_lost"},
	{"resumable.js", "drop(every=4)", "mcp_messages_lost"},
	{"list-ttl.js", "stale(from=4, every=1)", "mcp_events_lost"},
}

func TestExamplesPass(t *testing.T) {
	url, admin := serve(t)
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			if code, out := k6(t, filepath.Join("examples", c.name), url, admin); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}

// TestExamplesFindFaults runs the examples against targets that leave something
// out: k6 must say so, by that threshold and no other. They run side by side:
// each waits most of the time, for what will not come.
func TestExamplesFindFaults(t *testing.T) {
	for _, c := range examples {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, admin := serve(t, "--faults", c.fault)
			code, out := k6(t, filepath.Join("examples", c.name), url, admin)
			if code != 99 {
				t.Fatalf("exit code %d, want 99\n%s", code, out)
			}
			if !strings.Contains(out, "thresholds on metrics '"+c.crossed+"' have been crossed") {
				t.Errorf("another threshold was crossed than that of %s\n%s", c.crossed, out)
			}
		})
	}
}
