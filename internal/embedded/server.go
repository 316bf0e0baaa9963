// Package embedded runs the reference server as a process of its own, so that its CPU
// time and memory are measured apart from the generator's.
package embedded

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

// Ready is the line of JSON that a reference server prints on standard output
// as soon as it serves.
type Ready struct {
	URL    string `json:"url"`              // MCP endpoint, HTTP/1.1 and h2c
	TLSURL string `json:"tlsUrl,omitempty"` // MCP endpoint over TLS, HTTP/1.1 and HTTP/2
	Admin  string `json:"admin"`            // base URL of /inject, /healthz and /stats
	Cert   string `json:"cert,omitempty"`   // PEM of the TLS endpoint's certificate
	PID    int    `json:"pid"`
}

// Server is a running reference server. Its methods are safe for concurrent use.
type Server interface {
	// Ready returns the addresses of the server.
	Ready() Ready
	// Exited returns a channel that is closed when the process has ended, for any
	// reason.
	Exited() <-chan struct{}
	// Err returns how an exited process ended, with its last line on standard error;
	// nil before.
	Err() error
	// Stop ends the process and waits for it.
	Stop()
}

// child is a reference server in a process of its own. It ends when its standard
// input is closed, so it cannot outlive this process.
type child struct {
	ready Ready
	cmd   *exec.Cmd
	stdin io.Closer
	log   *stderrtail.Writer

	exited chan struct{}
	err    error // set before exited is closed
}

// childStart is how long a target may take to start serving.
const childStart = 15 * time.Second

// Start starts name with args, which must read its options from standard input,
// print a [Ready] line and serve until its standard input ends. The caller must
// Stop it.
func Start(ctx context.Context, opts Options, name string, args ...string) (Server, error) {
	cmd := exec.Command(name, args...)
	c := &child{cmd: cmd, log: &stderrtail.Writer{}, exited: make(chan struct{})}
	cmd.Stderr = c.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the embedded target: %w", err)
	}
	c.stdin = stdin
	line := &firstLine{found: make(chan []byte, 1)}
	cmd.Stdout = line
	Detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded target: %w", err)
	}
	go func() {
		defer crash.Guard()
		c.err = cmd.Wait()
		close(c.exited)
	}()
	// If this fails, the program has ended, which is reported below.
	_ = WriteOptions(stdin, opts)
	ctx, cancel := context.WithTimeout(ctx, childStart)
	defer cancel()
	select {
	case text := <-line.found:
		if err := json.Unmarshal(text, &c.ready); err != nil {
			c.Stop()
			return nil, fmt.Errorf("start the embedded target: it printed %q instead of its addresses", text)
		}
		return c, nil
	case <-c.exited:
		return nil, fmt.Errorf("start the embedded target: %w", c.Err())
	case <-ctx.Done():
		c.Stop()
		return nil, fmt.Errorf("start the embedded target: it did not serve within %v: %w", childStart, ctx.Err())
	}
}

// Ready implements [Server].
func (c *child) Ready() Ready { return c.ready }

// Exited implements [Server].
func (c *child) Exited() <-chan struct{} { return c.exited }

// Err implements [Server].
func (c *child) Err() error {
	select {
	case <-c.exited:
	default:
		return nil
	}
	return errors.New(c.log.How(c.err))
}

// Stop implements [Server]. It closes the standard input and, after five seconds,
// kills the process.
func (c *child) Stop() {
	_ = c.stdin.Close() // it may be gone already
	select {
	case <-c.exited:
		return
	case <-time.After(5 * time.Second):
	}
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// firstLine is a Writer that passes on the first line and drops the rest.
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
