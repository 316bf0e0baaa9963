// Package proc builds eventmeter, and runs programs beside it that speak lines of JSON and end with their
// standard input.
package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// Build builds eventmeter into a folder that exists, and returns the path of the program, which Windows completes.
func Build(ctx context.Context, dir string) (string, error) {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", dir, "github.com/eventmeter/eventmeter/cmd/eventmeter")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build eventmeter: %w\n%s", err, text)
	}
	return filepath.Join(dir, "eventmeter"), nil
}

// patience is how long a program may take to end itself.
const patience = 20 * time.Second

// Process is a program that runs. It must be ended. Its methods are for one goroutine.
type Process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *json.Decoder
	log   stderrtail.Writer
}

// Start starts a program, which errors call by name, and writes a line to it, unless that is "".
func Start(ctx context.Context, name string, command []string, line string) (*Process, error) {
	p := &Process{name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.Stderr = &p.log
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = json.NewDecoder(out)
	// A closed pipe is the gentle end: a program first ends what it has started.
	p.cmd.Cancel, p.cmd.WaitDelay = p.in.Close, patience
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if line != "" {
		if _, err := fmt.Fprintln(p.in, line); err != nil {
			return nil, errors.Join(p.failed(err), p.End())
		}
	}
	return p, nil
}

// Next waits for the program's next line, and decodes it.
func (p *Process) Next(into any) error {
	if err := p.lines.Decode(into); err != nil {
		return p.failed(err)
	}
	return nil
}

func (p *Process) failed(err error) error {
	if text := p.log.LastLine(); text != "" {
		return fmt.Errorf("%s: %w: %s", p.name, err, text)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop closes the program's input.
func (p *Process) Stop() error { return p.in.Close() }

// End closes the program's input and waits for its end. The error may be its exit code.
func (p *Process) End() error {
	p.in.Close()
	kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // it may have ended already
	defer kill.Stop()
	var rest json.RawMessage
	for p.lines.Decode(&rest) == nil {
	}
	return p.cmd.Wait()
}
