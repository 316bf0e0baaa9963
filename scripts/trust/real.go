package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The profiles of the real runs differ in the target's delay alone: the second
// is 10 % slower than the first.
const (
	profileHead = `name: trust
target:
  embedded:
    faults: `
	profileTail = `
lanes:
  - {name: push, mode: push, subscriptions: 20, event: chat.message}
upstream:
  sources: 1
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 50/s}
phases: {ready: 10s, warmup: 1s, measure: 20s, drain: 3s}
`
	profileEqual = profileHead + `"delay=uniform:40ms..60ms"` + profileTail
	profileSlow  = profileHead + `"delay=uniform:44ms..66ms"` + profileTail
)

// runLimit is longer than any run of the profiles takes.
const runLimit = 3 * time.Minute

// exitBottleneck is the exit code of a run whose generator was too slow. It
// has a result all the same, and comparisons have to cope with it.
const exitBottleneck = 4

// actual records real runs of the program against its embedded target.
type actual struct {
	binary      string
	equal, slow string
	log         io.Writer
}

// newReal builds the program and writes the profiles into dir.
func newReal(ctx context.Context, dir string, log io.Writer) (*actual, error) {
	a := &actual{
		binary: filepath.Join(dir, "mcpload"),
		equal:  filepath.Join(dir, "equal.yaml"), slow: filepath.Join(dir, "slow.yaml"),
		log: log,
	}
	if runtime.GOOS == "windows" {
		a.binary += ".exe"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", a.binary, "github.com/mcpload/mcpload/cmd/mcpload")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build mcpload: %w\n%s", err, text)
	}
	return a, errors.Join(os.WriteFile(a.equal, []byte(profileEqual), 0o644), os.WriteFile(a.slow, []byte(profileSlow), 0o644))
}

func (a *actual) record(ctx context.Context, dir string, _ int, slow bool) error {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	profile := a.equal
	if slow {
		profile = a.slow
	}
	var text bytes.Buffer
	c := exec.CommandContext(ctx, a.binary, "run", "--profile", profile, "--quiet", "--out", dir)
	c.Stdout, c.Stderr = &text, &text
	// Asked to stop it ends its target, too; killed, it would not.
	c.Cancel = func() error {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return c.Process.Kill()
		}
		return nil
	}
	c.WaitDelay = 30 * time.Second
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitBottleneck {
		fmt.Fprintf(a.log, "%s: the generator was the bottleneck\n", dir)
		return nil
	}
	if err != nil {
		return fmt.Errorf("mcpload run: %w\n%s", err, strings.TrimSpace(text.String()))
	}
	return nil
}
