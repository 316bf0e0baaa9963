package main

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
)

const (
	// unreadLines is how many writes to standard error wait for a reader.
	unreadLines = 1000
	// flushTime is how long the end of the program waits for that reader.
	flushTime = time.Second
)

// unblocked is standard error that does not block: what its reader does not take is dropped,
// so that a pipe that nobody reads cannot stop a run.
type unblocked struct {
	file  *os.File
	queue chan any // []byte, or chan struct{} that is closed when it is reached
}

// newUnblocked starts a goroutine that writes to file until the program ends.
func newUnblocked(file *os.File) *unblocked {
	u := &unblocked{file: file, queue: make(chan any, unreadLines)}
	go func() {
		defer crash.Guard()
		for next := range u.queue {
			switch next := next.(type) {
			case []byte:
				_, _ = file.Write(next) // there is nobody to tell
			case chan struct{}:
				close(next)
			}
		}
	}()
	return u
}

// Write implements [io.Writer]. It never fails.
func (u *unblocked) Write(p []byte) (int, error) {
	select {
	case u.queue <- bytes.Clone(p):
	default:
	}
	return len(p), nil
}

// Fd returns the descriptor of the file.
func (u *unblocked) Fd() uintptr { return u.file.Fd() }

// flush waits, for a while, until everything was written.
func (u *unblocked) flush() {
	reached := make(chan struct{})
	late := time.NewTimer(flushTime)
	defer late.Stop()
	select {
	case u.queue <- reached:
	case <-late.C:
		return
	}
	select {
	case <-reached:
	case <-late.C:
	}
}

// flush waits until what was written to w is out, if that is standard error of the program.
func flush(w io.Writer) {
	if u, ok := w.(*unblocked); ok {
		u.flush()
	}
}

// relay passes signals on to the command. If the command does not take one within a second,
// it is over, or waits for the reader of its output, and the program ends.
func relay(signals <-chan os.Signal) <-chan os.Signal {
	taken := make(chan os.Signal)
	go func() {
		defer crash.Guard()
		for s := range signals {
			select {
			case taken <- s:
			case <-time.After(time.Second):
				os.Exit(exitInterrupted)
			}
		}
	}()
	return taken
}
