//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/exectest"
)

// asProgram makes the test binary a hostile server on standard input and
// output.
const asProgram = "HOSTILE_TEST_AS_PROGRAM"

// program is the path of the built generator.
var program string

func TestMain(m *testing.M) {
	if how := os.Getenv(asProgram); how != "" {
		serveStdio(how)
		return
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hostile-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "eventmeter")
	if given := os.Getenv("HOSTILE_TEST_PROGRAM"); given != "" {
		program = given
	} else if err := exectest.Build(program, "github.com/eventmeter/eventmeter/cmd/eventmeter"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// outcome is the outcome of a run.
type outcome struct {
	code   int
	text   string // of both outputs
	rss    int64  // the largest resident size, in bytes
	cpu    time.Duration
	took   time.Duration
	result result
}

// result holds the checked part of a run's result.
type result struct {
	Lanes []struct {
		Detail struct {
			Oversized   int64            `json:"oversized"`
			OversizedBy map[string]int64 `json:"oversizedBy"`
			Malformed   int64            `json:"malformed"`
		} `json:"detail"`
		Ready struct {
			Active int64 `json:"active"`
		} `json:"ready"`
		Failures []any `json:"-"`
	} `json:"lanes"`
}

// run runs the program with a profile, and more variables in its environment, and
// measures it.
func run(t *testing.T, profile string, env ...string) outcome {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "hostile.yaml")
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	out := filepath.Join(dir, "out")
	cmd := exectest.CommandContext(ctx, program, "run", "--profile", file, "--out", out, "--plain", "--full")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, stop) }()
	err := cmd.Wait()
	o := outcome{took: time.Since(began)}
	close(stop)
	o.rss, o.text = <-peak, text.String()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o.code = cmd.ProcessState.ExitCode()
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if b, err := os.ReadFile(filepath.Join(out, "result.json")); err == nil {
		if err := json.Unmarshal(b, &o.result); err != nil {
			t.Errorf("result.json: %v", err)
		}
	}
	return o
}

// watch returns the largest resident size of a process. The kernel keeps the
// peak, so only growth after the last sample is missed.
func watch(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	status, err := os.Open("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		<-stop
		return 0
	}
	defer status.Close()
	text := make([]byte, 8<<10)
	for {
		n, _ := status.ReadAt(text, 0)
		_, rest, _ := bytes.Cut(text[:n], []byte("VmHWM:"))
		line, _, _ := bytes.Cut(rest, []byte(" kB"))
		kib, _ := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		peak = max(peak, kib<<10)
		select {
		case <-tick.C:
		case <-stop:
			return peak
		}
	}
}

// oversized adds up the discarded messages of the lanes, by reason.
func (r *result) oversized() map[string]int64 {
	all := map[string]int64{}
	for _, l := range r.Lanes {
		for what, n := range l.Detail.OversizedBy {
			all[what] += n
		}
	}
	return all
}
