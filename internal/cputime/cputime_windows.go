package cputime

import (
	"syscall"
	"time"
)

// Used returns the user and system time that this process has used so far, 0
// where the system does not say. It is safe for concurrent use.
func Used() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	// The last two are counts of 100 ns, not dates.
	count := func(f syscall.Filetime) time.Duration {
		return time.Duration(uint64(f.HighDateTime)<<32|uint64(f.LowDateTime)) * 100
	}
	return count(kernel) + count(user)
}
