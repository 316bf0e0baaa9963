package main

import (
	"os"
	"syscall"
)

// peakMemory returns the largest resident set of a process that has ended.
func peakMemory(s *os.ProcessState) (int64, bool) {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, false
	}
	return u.Maxrss << 10, true
}
