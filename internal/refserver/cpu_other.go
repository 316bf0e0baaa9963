//go:build !unix && !windows

package target

// cpuSeconds is 0: this system has no way to ask that we know.
func cpuSeconds() float64 { return 0 }
