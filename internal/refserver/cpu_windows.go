package refserver

import "syscall"

// cpuSeconds is the user and system time that this process has used.
func cpuSeconds() float64 {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	const tick = 1e-7 // these two are counts of 100 ns, not dates
	count := func(f syscall.Filetime) float64 { return float64(uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime)) }
	return (count(kernel) + count(user)) * tick
}
