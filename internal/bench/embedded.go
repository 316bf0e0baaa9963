package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// Ready is the line of JSON that a reference target prints on standard output
// as soon as it serves.
type Ready struct {
	URL    string `json:"url"`              // MCP endpoint, HTTP/1.1 and h2c
	TLSURL string `json:"tlsUrl,omitempty"` // MCP endpoint over TLS, HTTP/1.1 and HTTP/2
	Admin  string `json:"admin"`            // base URL of /inject, /healthz and /stats
	Cert   string `json:"cert,omitempty"`   // PEM of the TLS endpoint's certificate
	PID    int    `json:"pid"`
}

// Child is a reference target that runs as a process of its own, so that its
// CPU and memory can be told apart from the generator's. It ends when its
// standard input is closed, so it cannot outlive this process.
type Child struct {
	Ready
	cmd   *exec.Cmd
	stdin io.Closer
	log   *stderrtail.Writer

	exited chan struct{}
	err    error // set before exited is closed
}

// childStart is how long a target may take until it serves.
const childStart = 15 * time.Second

// StartChild starts name with args, which must print a [Ready] line and then
// serve until its standard input ends. The caller must Stop it.
func StartChild(ctx context.Context, name string, args ...string) (*Child, error) {
	cmd := exec.Command(name, args...)
	c := &Child{cmd: cmd, log: &stderrtail.Writer{}, exited: make(chan struct{})}
	cmd.Stderr = c.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the embedded target: %w", err)
	}
	c.stdin = stdin
	line := &firstLine{found: make(chan []byte, 1)}
	cmd.Stdout = line
	detachFromTerminal(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded target: %w", err)
	}
	go func() {
		defer crash.Guard()
		c.err = cmd.Wait()
		close(c.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, childStart)
	defer cancel()
	select {
	case text := <-line.found:
		if err := json.Unmarshal(text, &c.Ready); err != nil {
			c.Stop()
			return nil, fmt.Errorf("start the embedded target: it printed %q instead of where it serves", text)
		}
		return c, nil
	case <-c.exited:
		return nil, fmt.Errorf("start the embedded target: %w", c.Err())
	case <-ctx.Done():
		c.Stop()
		return nil, fmt.Errorf("start the embedded target: it did not serve within %v: %w", childStart, ctx.Err())
	}
}

// Exited is closed when the process has ended, for whatever reason.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Err says how an exited process ended, with the last line it wrote on
// standard error.
func (c *Child) Err() error {
	select {
	case <-c.exited:
	default:
		return nil
	}
	how := "it exited with status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	if last := c.log.LastLine(); last != "" {
		how += ": " + last
	}
	return errors.New(how)
}

// Stop ends the process and waits for it: first by closing its standard input,
// then, after five seconds, by force.
func (c *Child) Stop() {
	_ = c.stdin.Close() // it may be gone already
	select {
	case <-c.exited:
		return
	case <-time.After(5 * time.Second):
	}
	_ = c.cmd.Process.Kill() // likewise
	<-c.exited
}

// firstLine is a Writer that hands over the first line and drops the rest.
type firstLine struct {
	buf   bytes.Buffer
	done  bool
	found chan []byte
}

func (f *firstLine) Write(p []byte) (int, error) {
	if !f.done {
		f.buf.Write(p)
		if line, err := bufio.NewReader(bytes.NewReader(f.buf.Bytes())).ReadBytes('\n'); err == nil {
			f.done = true
			f.found <- line
			f.buf = bytes.Buffer{}
		}
	}
	return len(p), nil
}
