//go:build unix

package selfbench

import (
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the CPU time, user and system, that this process has used.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fileLimit is how many files this process may have open, 0 = not known.
func fileLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0
	}
	return int(min(uint64(lim.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}
