package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// profileText is the profile of every real run. The target's delay, which is
// given on the command line, is what runs differ in.
const profileText = `name: trust
lanes:
  - {name: push, mode: push, subscriptions: 5, event: chat.message}
upstream:
  sources: 10
  payload: {channel: general, text: "{{.Probe}}"}
schedule: {kind: poisson, rate: 200/s}
phases: {ready: 10s, warmup: 500ms, measure: 4s, drain: 3s}
`

// The delays of two equal sides, and of one that is 10 % slower. The seed is
// another in each run: with the same one, equal runs would have the very same
// delays and prove nothing.
const (
	delayEqual = "delay(rate=1, uniform=40ms..60ms, seed=%d)"
	delaySlow  = "delay(rate=1, uniform=44ms..66ms, seed=%d)"
)

// runLimit is longer than any run takes.
const runLimit = 3 * time.Minute

// measuredCodes are the exit codes of runs that have a result: all was well, the generator
// was too slow, a threshold was not evaluated, or one failed. Comparisons have to cope with
// them.
var measuredCodes = []int{0, 4, 5, 99}

// actual records real runs of the program against its embedded target.
type actual struct {
	binary  string
	profile string
	log     io.Writer
}

// newReal builds the program and writes the profiles into dir.
func newReal(ctx context.Context, dir string, log io.Writer) (*actual, error) {
	a := &actual{
		binary:  filepath.Join(dir, "eventmeter"),
		profile: filepath.Join(dir, "trust.yaml"),
		log:     log,
	}
	if runtime.GOOS == "windows" {
		a.binary += ".exe"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", a.binary, "github.com/eventmeter/eventmeter/cmd/eventmeter")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build eventmeter: %w\n%s", err, text)
	}
	return a, os.WriteFile(a.profile, []byte(profileText), 0o644)
}

func (a *actual) record(ctx context.Context, dir string, number int, slow bool) error {
	delay := delayEqual
	if slow {
		delay = delaySlow
	}
	delay = "target.embedded.faults='" + fmt.Sprintf(delay, number+1) + "'"
	_, err := a.launch(ctx, dir, "--profile", a.profile, "--set", delay, "--set", fmt.Sprintf("schedule.seed=%d", number+1))
	return err
}

// launch makes one run, with its archive in dir, and returns its exit code. A run that has
// no result is an error.
func (a *actual) launch(ctx context.Context, dir string, args ...string) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	var text bytes.Buffer
	c := exec.CommandContext(ctx, a.binary, append([]string{"run", "--quiet", "--out", dir}, args...)...)
	c.Stdout, c.Stderr = &text, &text
	interruptible(c)
	err = c.Run()
	if code = c.ProcessState.ExitCode(); slices.Contains(measuredCodes, code) {
		return code, nil
	}
	return code, fmt.Errorf("eventmeter run: %w\n%s", err, strings.TrimSpace(text.String()))
}

// interruptible makes the end of its context ask a command to stop: then it ends its
// target, too; killed, it would not.
func interruptible(c *exec.Cmd) {
	c.Cancel = func() error {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return c.Process.Kill()
		}
		return nil
	}
	c.WaitDelay = 30 * time.Second
}
