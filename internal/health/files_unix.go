//go:build unix

package health

import "golang.org/x/sys/unix"

// FileLimit returns how many files this process may have open. The Go runtime has
// already raised the soft limit to the hard one.
func FileLimit() int64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0
	}
	return int64(min(uint64(lim.Cur), 1<<62)) // signed on some systems
}
