//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// terminationSignals are the signals that end a run: in order the first time, at once
// the second. SIGHUP is one of them unless it was ignored at the start, as under
// nohup.
func terminationSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// survivePipe makes a write to a closed pipe fail instead of ending the program. It
// catches the signal rather than ignoring it, because child processes inherit ignored
// signals.
func survivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
