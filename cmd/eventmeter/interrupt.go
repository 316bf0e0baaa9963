package main

import (
	"context"
	"fmt"

	"github.com/eventmeter/eventmeter/internal/crash"
)

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

// untilInterrupt returns a context that the first interrupt cancels.
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
