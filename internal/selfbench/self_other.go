//go:build !unix

package selfbench

import (
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// ownCPU is the CPU time, user and system, that this process has used.
func ownCPU() time.Duration {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0
	}
	t, err := p.Times()
	if err != nil {
		return 0
	}
	return time.Duration((t.User + t.System) * float64(time.Second))
}

// fileLimit is how many files this process may have open, 0 = not known.
func fileLimit() int { return 0 }
