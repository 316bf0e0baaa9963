//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// terminationSignals stop a run in order the first time and at once the second.
// A closed terminal is one of them, unless it was ignored from the start, as under
// nohup.
func terminationSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// survivePipe has writes to an output that nobody reads any more fail, instead of
// ending the program. The signal is caught and not ignored, because programs that
// are started would inherit that.
func survivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
