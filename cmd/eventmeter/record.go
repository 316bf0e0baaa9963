package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
)

// recordFlags are the flags of the record command.
type recordFlags struct {
	target     targetFlags
	events     []string
	arguments  string
	mode       string
	duration   time.Duration
	out        string
	allowHosts []string
	quiet      bool
	verbose    bool
	plain      bool
}

func newRecordCommand(io streams) *cobra.Command {
	f := recordFlags{arguments: "{}", mode: "push", duration: time.Minute, out: "trace.jsonl"}
	c := &cobra.Command{
		Use:   "record",
		Short: "Record the events of a server for a replay",
		Long: `Record subscribes to events of a server, publishes nothing, and writes the received
events as a trace: a line of JSON for each event, with the time since the recording
began. A profile with upstream.kind replay publishes the trace again, at the same
pace or faster, with a probe in each payload.

Ctrl-C ends the recording cleanly. To record the published events of a run instead,
use eventmeter run --record FILE.`,
		Example: `  eventmeter record --target http://127.0.0.1:8080/mcp --event chat.message --duration 1m --out chat.jsonl
  eventmeter run --profile replay.yaml   # with upstream: {kind: replay, replay: {file: chat.jsonl, probe: text}}`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return record(c.Context(), f, io) },
	}
	f.target.add(c)
	addFlags(c, []flagSpec{
		{&f.events, "event,e", "event to subscribe to (repeatable)"},
		{&f.arguments, "arguments", "arguments of the subscriptions, a JSON object"},
		{&f.mode, "mode", "delivery mode: push, poll or webhook"},
		{&f.duration, "duration", "duration of the recording"},
		{&f.out, "out,o", "file to write; it must not exist"},
		{&f.allowHosts, "allow-host", "subscribe at this host, which is not this machine (repeatable)"},
		{&f.quiet, "quiet,q", "no progress"},
		{&f.verbose, "verbose,v", "keep a line for each phase"},
		{&f.plain, "plain", plainHelp},
	})
	_ = c.RegisterFlagCompletionFunc("mode", fixed("push", "poll", "webhook"))
	return c
}

// record is the record command.
func record(ctx context.Context, f recordFlags, io streams) error {
	p, err := f.profile()
	if err != nil {
		return err
	}
	trace, err := newTraceFile(f.out)
	if err != nil {
		return err
	}
	defer trace.discard()
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	view := newView(io.err, p, viewOptions{f.quiet, f.plain, f.verbose})
	outcome, runErr := run.Run(ctx, run.Options{
		Profile: p, AllowHosts: f.allowHosts, Stop: stop, Progress: view.update, Version: version(), Record: trace.file,
	})
	view.close()
	if errors.Is(runErr, run.ErrStopped) && outcome != nil {
		runErr = nil // an interrupt is how a recording ends
	}
	if outcome == nil {
		return runErr
	}
	if err := trace.keep(outcome, io); err != nil {
		return err
	}
	return runErr
}

// profile returns a profile that subscribes to each event and publishes nothing.
func (f *recordFlags) profile() (*profiles.Profile, error) {
	if f.target.url == "" && f.target.command == "" || len(f.events) == 0 {
		return nil, usagef("give the server with --target or --command, and one of its events with --event; eventmeter discover lists them")
	}
	if f.duration <= 0 {
		return nil, usagef("--duration %v: want more than 0, such as 1m", f.duration)
	}
	if err := isObject("--arguments", f.arguments); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"push", "poll", "webhook"}, f.mode) {
		return nil, usagef("--mode %q: want push, poll or webhook", f.mode)
	}
	text := "name: record\nlanes:\n"
	for i, e := range f.events {
		text += fmt.Sprintf(
			"  - {name: event-%d, mode: %s, subscriptions: 1, event: %s, arguments: %s}\n",
			i,
			strconv.Quote(f.mode),
			strconv.Quote(e),
			f.arguments,
		)
	}
	text += fmt.Sprintf("upstream: {kind: none}\nphases: {warmup: 0, measure: %v, drain: 0}\n", f.duration)
	return f.target.profile("record", text)
}

// traceFile is a trace that is being written.
type traceFile struct {
	file *os.File
	kept bool
}

// newTraceFile creates the file, which must not exist: a recording cannot be
// repeated.
func newTraceFile(name string) (*traceFile, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, usagef("%s exists already; choose another file, or remove it", name)
	}
	if err != nil {
		return nil, usagef("make the file for the trace: %w", err)
	}
	return &traceFile{file: file}, nil
}

// discard closes and removes the file of a recording that failed. It does nothing on
// nil.
func (t *traceFile) discard() {
	if t == nil || t.kept {
		return
	}
	_ = t.file.Close() // the file is removed
	_ = os.Remove(t.file.Name())
}

// keep closes the file and prints how many events it holds.
func (t *traceFile) keep(o *run.Outcome, io streams) error {
	t.kept = true
	if err := t.file.Close(); err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	if o.TraceErr != nil {
		return o.TraceErr
	}
	fmt.Fprintf(io.err, "%d events recorded in %s\n", o.Traced, t.file.Name())
	return nil
}
