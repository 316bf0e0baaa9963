package selfbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// ChildArg is the first argument of the child processes of a measurement.
const ChildArg = "child"

// role is what a child process does. It reports to its parent through l.
type role func(ctx context.Context, s spec, l *link) error

// link is a child's end of the pipes.
type link struct {
	in    *bufio.Reader
	out   *json.Encoder
	lines chan struct{}
}

// listen forwards the parent's lines and calls gone when the parent has ended.
// Its goroutine ends with the process, because a read of a pipe cannot be
// interrupted.
func (l *link) listen(gone func()) {
	l.lines = make(chan struct{})
	go func() {
		defer gone()
		for {
			if _, err := l.in.ReadBytes('\n'); err != nil {
				return
			}
			l.lines <- struct{}{}
		}
	}()
}

// pause reports a step and waits until the parent releases the child.
func (l *link) pause(ctx context.Context, m message) error {
	if err := l.out.Encode(m); err != nil {
		return err
	}
	select {
	case <-l.lines:
		return nil
	case <-ctx.Done():
		return errors.New("the parent has ended")
	}
}

// send reports the last step and does not wait.
func (l *link) send(m message) error { return l.out.Encode(m) }

// child is the parent's end.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	log   stderrtail.Writer
	role  string

	reaped sync.Once
}

// start runs this program as a child with the role of s. env is added to the
// environment.
func start(ctx context.Context, self []string, s spec, env ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, self[0], self[1:]...)
	if len(env) > 0 {
		cmd.Env = append(os.Environ(), env...)
	}
	c := &child{cmd: cmd, role: s.Role}
	cmd.Stderr = &c.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin, c.lines = stdin, bufio.NewScanner(out)
	c.lines.Buffer(nil, 1<<20)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Role, err)
	}
	if err := json.NewEncoder(stdin).Encode(s); err != nil {
		c.end()
		return nil, c.failed(err)
	}
	return c, nil
}

// next waits for the child's next step.
func (c *child) next() (message, error) {
	var m message
	if !c.lines.Scan() {
		c.end()
		return m, c.failed(errors.Join(c.lines.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(c.lines.Bytes(), &m); err != nil {
		return m, c.failed(err)
	}
	if m.Fault != "" {
		return m, fmt.Errorf("%s: %s", c.role, m.Fault)
	}
	return m, nil
}

// await waits for a step of the child.
func (c *child) await(step string) (message, error) {
	m, err := c.next()
	if err == nil && m.Step != step {
		err = c.failed(fmt.Errorf("step %q instead of %q", m.Step, step))
	}
	return m, err
}

// release ends a pause of the child.
func (c *child) release() error {
	if _, err := io.WriteString(c.stdin, "go\n"); err != nil {
		return c.failed(err)
	}
	return nil
}

func (c *child) failed(err error) error {
	if text := c.log.LastLine(); text != "" {
		return fmt.Errorf("%s: %w: %s", c.role, err, text)
	}
	return fmt.Errorf("%s: %w", c.role, err)
}

// end closes the child's input, waits for its end and returns its CPU time. It
// may be called again.
func (c *child) end() time.Duration {
	c.reaped.Do(func() {
		c.stdin.Close()
		kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() }) // it may have ended already
		for c.lines.Scan() {
		}
		_ = c.cmd.Wait() // the messages said how it went
		kill.Stop()
	})
	if c.cmd.ProcessState == nil {
		return 0
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

// Self returns the command that starts this program as a child.
func Self() ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("eventbench: %w", err)
	}
	return []string{path, ChildArg}, nil
}
