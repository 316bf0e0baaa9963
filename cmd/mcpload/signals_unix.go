//go:build unix

package main

import (
	"os"
	"syscall"
)

// terminationSignals stop a run in order the first time and at once the second.
var terminationSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
