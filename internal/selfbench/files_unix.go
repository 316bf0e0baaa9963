//go:build unix

package selfbench

import "golang.org/x/sys/unix"

// fileLimit is how many files this process may have open, 0 = not known.
func fileLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0
	}
	return int(min(uint64(lim.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}
