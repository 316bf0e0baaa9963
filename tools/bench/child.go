//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// childArg is the first argument of a child process.
const childArg = "child"

// spec is what a child does. It travels as one line of JSON.
type spec struct {
	Role string
	Name string // of the client, in the table
	// Target is the role of the client's target.
	Target string

	// Streams is the number of streams, pollers or subscriptions, which are divided into Groups:
	// stream i is in group i modulo their number. An event goes to one group, in turn.
	Streams, Groups int
	Mode, HTTP      string // push, poll or webhook; 1.1 or h2c
	// Rate is the number of events a second that each stream receives.
	Rate float64
	// Settle is for the first event, which all streams receive. Then nothing happens for Idle, and
	// events are published for Paced.
	Settle, Idle, Paced time.Duration
	// Timeout bounds the opening of all streams, and the wait for the last delivery.
	Timeout time.Duration

	Batch     int           // of the baseline server
	PollEvery time.Duration // from one poll of a poller to the next
	TTL       time.Duration // of webhook subscriptions; they are refreshed after refreshedAt of it
	Conns     int           // connections for calls; 0 = enough

	Error    bool // compares receive times with the send times in the events
	Portable bool // no receive times of the kernel
	Unjudged bool // no rows of conformance
	Collect  bool // collects garbage before the idle phase

	URL, Admin string // of the target
	Program    string // eventmeter
	Dir        string // for files
}

// groups is the number of groups, at least one.
func (s *spec) groups() int { return max(1, s.Groups) }

// addresses are the URLs of a target.
type addresses struct{ HTTP1, HTTP2, Admin string }

// outcome is what a child reports at its end.
type outcome struct {
	// The phases of a client: before it connects, when all streams are open, when each has received
	// an event, and the begin and end of the paced phase.
	Began, Opened, Full, Paced, Ended time.Time
	// Delivered is the number of deliveries of the paced phase, Lost what is missing, or was
	// received but not expected.
	Delivered, Lost int64
	// Values are figures that only the child knows.
	Values map[string]float64
}

// reply is a line from a child.
type reply struct {
	Fault   string     `json:",omitempty"`
	PID     int        `json:",omitempty"` // of the process to measure
	Target  *addresses `json:",omitempty"`
	Outcome *outcome   `json:",omitempty"`
}

// role is what a child does until ctx ends: its parent has closed the pipe, or has itself ended.
type role func(ctx context.Context, s spec, send func(reply) error) error

// runChild is the main function of a child process.
func runChild(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	do, ok := roles()[s.Role]
	if !ok {
		return fmt.Errorf("child: no role %q", s.Role)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read of a pipe cannot be interrupted
		defer cancel()
		_, _ = io.Copy(io.Discard, lines)
	}()
	enc := json.NewEncoder(out)
	if err := do(ctx, s, func(r reply) error { return enc.Encode(r) }); err != nil {
		_ = enc.Encode(reply{Fault: err.Error()}) // the exit code says it, too
		return fmt.Errorf("%s: %w", s.Role, err)
	}
	return nil
}

// child is the parent's end.
type child struct {
	role  string
	cmd   *exec.Cmd
	stdin io.Closer
	lines *json.Decoder
	log   stderrtail.Writer
}

// start starts a child, which end must end.
func start(ctx context.Context, self []string, s spec) (*child, error) {
	c := &child{role: s.Role, cmd: exec.CommandContext(ctx, self[0], self[1:]...)}
	c.cmd.Stderr = &c.log
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin, c.lines = stdin, json.NewDecoder(out)
	// A closed pipe is the gentle end: a child first ends what it has started.
	c.cmd.Cancel, c.cmd.WaitDelay = stdin.Close, 10*time.Second
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Role, err)
	}
	if err := json.NewEncoder(stdin).Encode(s); err != nil {
		return nil, errors.Join(c.failed(err), c.end())
	}
	return c, nil
}

// next waits for the child's next line.
func (c *child) next() (reply, error) {
	var r reply
	if err := c.lines.Decode(&r); err != nil {
		return r, c.failed(err)
	}
	if r.Fault != "" {
		return r, fmt.Errorf("%s: %s", c.role, r.Fault)
	}
	return r, nil
}

func (c *child) failed(err error) error {
	if text := c.log.LastLine(); text != "" {
		return fmt.Errorf("%s: %w: %s", c.role, err, text)
	}
	return fmt.Errorf("%s: %w", c.role, err)
}

// end closes the child's input and waits for its end.
func (c *child) end() error {
	c.stdin.Close()
	kill := time.AfterFunc(c.cmd.WaitDelay, func() { _ = c.cmd.Process.Kill() }) // it may have ended already
	defer kill.Stop()
	var r reply
	for c.lines.Decode(&r) == nil {
	}
	return c.cmd.Wait()
}
