package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/results"
)

// program is a target that is met over its standard input and output.
type program struct {
	command []string
	ready   readyTransport
	admin   string // where it is told to emit, "" if that is not known
}

// readyTime is how long a program may take, once it has shaken hands, to say
// where events are injected.
const readyTime = 5 * time.Second

// commandEmbedded prepares the embedded target, which the endpoint starts.
func (r *run) commandEmbedded(args []string) error {
	if r.opts.EmbeddedCommand == nil {
		return fmt.Errorf("%w: it names no target, and no embedded target can be started here", ErrProfile)
	}
	command, err := r.opts.EmbeddedCommand(append([]string{"--stdio"}, args...))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	r.target.program = &program{command: command}
	return nil
}

// meet has the endpoint start the program, and listens to what it says on
// standard error.
func (t *targetSide) meet(o *driver.EndpointOptions) {
	if t.program == nil {
		t.program = &program{command: o.Command}
	}
	t.program.ready.found = make(chan embedded.Ready, 1)
	o.Command, o.Stderr = t.program.command, &t.program.ready
}

// findAdmin waits for the program to say where events are injected, if that has
// to be known.
func (r *run) findAdmin(ctx context.Context) error {
	p, u := r.target.program, r.profile.Upstream
	if p == nil || u.Admin != "" || u.Kind != "inject" && (u.Kind != "replay" || u.Replay.URL != "") {
		return nil
	}
	wait := time.NewTimer(readyTime)
	defer wait.Stop()
	select {
	case ready := <-p.ready.found:
		// A program may say anything; the load goes to this machine only.
		if err := CheckHost(ctx, r.guard, ready.Admin, "the admin address that the program printed", r.opts.AllowHosts); err != nil {
			return err
		}
		p.admin = ready.Admin
		return nil
	case <-r.target.plain.Ended():
		return fmt.Errorf("%w: %w", ErrTarget, r.target.plain.Err())
	case <-wait.C:
		return fmt.Errorf("%w: upstream.kind %s needs an admin listener, and the program printed none on standard error; give upstream.admin (or --upstream-url), or for any other server another upstream.kind", ErrProfile, u.Kind)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readySpy is a Writer that looks for the first line that is an [embedded.Ready] with an
// admin address. It is safe for concurrent use.
type readyTransport struct {
	found chan embedded.Ready

	mu   sync.Mutex
	line []byte
	done bool
	seen int
}

// readyBound is how far into standard error the line is looked for.
const readyBound = 64 << 10

// Write implements [io.Writer].
func (s *readyTransport) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen += len(b); s.done {
		return len(b), nil
	}
	s.line = append(s.line, b...)
	for !s.done {
		text, rest, ok := bytes.Cut(s.line, []byte("\n"))
		if !ok {
			break
		}
		s.line = rest
		var ready embedded.Ready
		if json.Unmarshal(text, &ready) == nil && ready.Admin != "" {
			s.done = true
			s.found <- ready
		}
	}
	if s.done = s.done || s.seen > readyBound; s.done {
		s.line = nil
	}
	return len(b), nil
}

// stdioFigures is what passed the pipes; nil where there are none.
func (r *run) stdioFigures() *results.Stdio {
	if r.target.plain == nil {
		return nil
	}
	s, ok := r.target.plain.Pipe()
	if !ok {
		return nil
	}
	out := &results.Stdio{
		Up: s.Up, Down: s.Down, Lines: s.Lines, Late: s.Late, Unknown: s.Unknown, Unaddressed: s.Unaddressed,
		Requests: s.Requests, Malformed: s.Malformed, TooLong: s.TooLong, Exit: s.Exit,
	}
	if s.Exit != "" {
		out.Stderr = s.Stderr
	}
	return out
}

// variables are NAME=value, in order.
func variables(env map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// targetName is the target's address in the result. That of an embedded program
// would be full of temporary files.
func (r *run) targetName() string {
	if r.profile.Target.IsEmbedded() && r.profile.Target.OverStdio() {
		return "stdio:eventmeter serve --stdio"
	}
	return r.target.plain.URL()
}
