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
	"strings"
	"sync"
	"time"
)

// ChildArg is the first argument of a process that is a part of a measurement.
const ChildArg = "child"

// role is what a child process does. link is how it talks with its parent.
type role func(ctx context.Context, s spec, l *link) error

// link is a child's end of the pipes.
type link struct {
	in    *bufio.Reader
	out   *json.Encoder
	lines chan struct{}
}

// listen hands on the parent's lines, and ends the child when the parent has
// gone. Its goroutine ends with the process: reading a pipe cannot be broken off.
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

// say reports a step and waits for the parent's word to go on.
func (l *link) say(ctx context.Context, m message) error {
	if err := l.out.Encode(m); err != nil {
		return err
	}
	select {
	case <-l.lines:
		return nil
	case <-ctx.Done():
		return errors.New("the parent has gone")
	}
}

// tell reports the last step, after which there is nothing to wait for.
func (l *link) tell(m message) error { return l.out.Encode(m) }

// child is the parent's end.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	log   *lastBytes
	role  string

	reaped sync.Once
	err    error
}

// start runs this program once more as what s says, with env on top of its own
// environment.
func start(ctx context.Context, self []string, s spec, env ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, self[0], self[1:]...)
	if len(env) > 0 {
		cmd.Env = append(os.Environ(), env...)
	}
	c := &child{cmd: cmd, log: &lastBytes{}, role: s.Role}
	cmd.Stderr = c.log
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

// await lets the child go on to a step.
func (c *child) await(step string) (message, error) {
	m, err := c.next()
	if err == nil && m.Step != step {
		err = c.failed(fmt.Errorf("it came to %q, not to %q", m.Step, step))
	}
	return m, err
}

// release lets it go on.
func (c *child) release() error {
	if _, err := io.WriteString(c.stdin, "go\n"); err != nil {
		return c.failed(err)
	}
	return nil
}

func (c *child) failed(err error) error {
	if text := c.log.last(); text != "" {
		return fmt.Errorf("%s: %w: %s", c.role, err, text)
	}
	return fmt.Errorf("%s: %w", c.role, err)
}

// end has the process end, and waits for it; it may be called again. It
// returns the CPU time that the process has used.
func (c *child) end() time.Duration {
	c.reaped.Do(func() {
		c.stdin.Close()
		kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() }) // it may be gone already
		for c.lines.Scan() {
		}
		c.err = c.cmd.Wait()
		kill.Stop()
	})
	if c.cmd.ProcessState == nil {
		return 0
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

// lastBytes is a Writer that keeps the end of what is written.
type lastBytes struct {
	mu  sync.Mutex
	buf []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	l.buf = l.buf[max(0, len(l.buf)-4096):]
	return len(p), nil
}

// last is the last line.
func (l *lastBytes) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(l.buf)), "\n")
	return lines[len(lines)-1]
}

// Self is how this program is started again as a child.
func Self() ([]string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("eventbench: %w", err)
	}
	return []string{path, ChildArg}, nil
}
