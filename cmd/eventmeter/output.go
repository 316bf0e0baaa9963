package main

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
)

// output is a standard output whose reader may leave, as head does. What is
// written after that is dropped, and no error: nobody waits for it.
type output struct {
	w      io.Writer
	closed atomic.Bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.closed.Load() {
		return len(p), nil
	}
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.closed.Store(true)
		return len(p), nil
	}
	return n, err
}
