package main

import (
	"context"
	"fmt"

	"github.com/eventmeter/eventmeter/internal/crash"
)

// onInterrupt gives a channel that is closed by the first interrupt and a
// context that is cancelled by the second. release ends the watching.
func onInterrupt(ctx context.Context, io streams) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(watching)
		select {
		case <-io.interrupts:
			fmt.Fprintln(io.err, "\nstopping: no more events are published; again to write the result at once")
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

// untilInterrupt gives a context that the first interrupt cancels.
func untilInterrupt(ctx context.Context, io streams) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(watching)
		select {
		case <-io.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watching
	}
}
