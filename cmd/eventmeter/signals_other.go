//go:build !unix

package main

import "os"

// terminationSignals are the signals that end a run: in order the first time, at once
// the second.
func terminationSignals() []os.Signal { return []os.Signal{os.Interrupt} }

// survivePipe does nothing: on this system a write to a closed pipe only fails.
func survivePipe() {}
