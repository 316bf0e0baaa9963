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
		"--allow-private-callbacks", "--callback-insecure", "--next-poll", "200ms",
	}, args...)...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
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

// k6 runs an example and returns its exit code and output.
func k6(t *testing.T, name, url, admin string) (int, string) {
	t.Helper()
	c := exec.Command(k6Bin, "run", "-q", "--address", "", "--no-color", "-e", "TARGET="+url, "-e", "ADMIN="+admin, filepath.Join("examples", name))
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

var examples = []string{"smoke.js", "push.js", "poll.js", "webhook.js", "compare.js"}

func TestExamplesPass(t *testing.T) {
	url, admin := serve(t)
	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			if code, out := k6(t, name, url, admin); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
}

// TestExamplesFindFaults runs the examples against a target that leaves out
// every fourth event: k6 must say so, by that threshold and no other.
func TestExamplesFindFaults(t *testing.T) {
	url, admin := serve(t, "--faults", "drop(every=4)")
	for _, name := range examples {
		t.Run(name, func(t *testing.T) {
			code, out := k6(t, name, url, admin)
			if code != 99 {
				t.Fatalf("exit code %d, want 99\n%s", code, out)
			}
			if !strings.Contains(out, "thresholds on metrics 'mcp_events_lost' have been crossed") {
				t.Errorf("another threshold was crossed\n%s", out)
			}
		})
	}
}
