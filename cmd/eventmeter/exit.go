package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/run"
)

// The exit codes, as documented in docs/pull-request.md.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitTarget      = 3
	exitBottleneck  = 4
	exitUnjudged    = 5
	exitThreshold   = 99
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes:
  0    success
  1    something failed on this side, such as writing the result; compare
       and run --against: a figure got worse than a gate allows; merge: shards are missing or ended
       early; capacity: the highest load met the SLO, so the capacity is above
       it, or too many trials disagreed
  2    bad profile, flag or argument, a duet with too few events for a gate, or
       the --out directory is in use
  3    the target cannot be reached, went away (also at the very end), accepted no
       event, or does not offer what the profile requests
  4    the generator was the bottleneck: the figures say little about the target
  5    no threshold failed, but one was not evaluated: nothing was owed to the lane,
       the lane received nothing at all, or its latency is in doubt (too few
       events, drift, events published late, or a busy machine); compare and
       run --against: a gate could not be judged; check: it ended early
  99   a threshold failed; capacity: not even the lowest load met the SLO; check:
       a row that quotes a MUST is broken
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP); the measurements so far were written`

// usageError marks an error of the caller: a bad profile, flag or argument.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef formats a [usageError].
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// The verdicts on a complete run. The report has already printed the details.
var (
	errThreshold  = errors.New("a threshold failed")
	errUnjudged   = errors.New("a threshold or gate was not evaluated; the report says why")
	errBottleneck = errors.New("the generator was the bottleneck, so these figures say little about the target")
)

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.Is(err, run.ErrProfile):
		return exitUsage
	case errors.Is(err, run.ErrStopped), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, run.ErrTarget):
		return exitTarget
	case errors.Is(err, errBottleneck):
		return exitBottleneck
	case errors.Is(err, errThreshold):
		return exitThreshold
	case errors.Is(err, errUnjudged):
		return exitUnjudged
	}
	return exitFailure
}

// signalKey is the key of the *atomic.Bool in a command's context that a signal sets.
type signalKey struct{}

// noteSignal notes that a signal has ended the command.
func noteSignal(ctx context.Context) {
	if noted, ok := ctx.Value(signalKey{}).(*atomic.Bool); ok {
		noted.Store(true)
	}
}

// notInterrupted is an error of a command that no signal has ended, although something
// was canceled, such as a request whose time was over.
type notInterrupted struct{ error }

func (e notInterrupted) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.error, target)
}

func (e notInterrupted) As(target any) bool { return errors.As(e.error, target) }

// onInterrupt returns a channel that the first interrupt closes and a context that
// the second one cancels. release stops waiting for interrupts.
func onInterrupt(ctx context.Context, io streams) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(watching)
		select {
		case <-io.interrupts:
			noteSignal(ctx)
			fmt.Fprintln(io.err, "\nstopping: no more events are published; interrupt again to write the result at once")
			close(stop)
		case <-ctx.Done():
			return
		}
		select {
		case <-io.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, stop, func() {
		cancel()
		<-watching
	}
}

// until returns a context that ends with the next value of stop, or when stop is closed. The caller
// must call the function, which waits for the goroutine that watches stop.
func until[T any](ctx context.Context, stop <-chan T) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(watching)
		select {
		case <-stop:
			noteSignal(ctx)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watching
	}
}
