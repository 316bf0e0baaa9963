//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/eventmeter/eventmeter/tools/proc"
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
	*proc.Process
	role string
}

// start starts a child, which must be ended.
func start(ctx context.Context, self []string, s spec) (*child, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, s.Role, self, string(text))
	return &child{p, s.Role}, err
}

// next waits for the child's next line.
func (c *child) next() (r reply, err error) {
	err = c.Next(&r)
	if err == nil && r.Fault != "" {
		err = fmt.Errorf("%s: %s", c.role, r.Fault)
	}
	return r, err
}
