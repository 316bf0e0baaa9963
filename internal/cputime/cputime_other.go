//go:build !unix && !windows

package cputime

import "time"

// Used returns 0: this system does not say how much time a process has used.
func Used() time.Duration { return 0 }
