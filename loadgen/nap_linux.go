package loadgen

import (
	"syscall"
	"time"
)

// nap blocks a thread for d. The kernel ends it 50 µs late at most, if a processor is free.
func nap(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&left, nil) // a signal ends it early
}
