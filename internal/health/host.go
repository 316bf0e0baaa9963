package health

import (
	"runtime"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/eventmeter/eventmeter/results"
)

// Host describes the machine. Fields that cannot be read stay empty.
func Host() results.Host {
	h := results.Host{
		OS:    runtime.GOOS,
		Arch:  runtime.GOARCH,
		CPUs:  runtime.GOMAXPROCS(0),
		Go:    runtime.Version(),
		Files: FileLimit(),
	}
	if v, err := host.KernelVersion(); err == nil {
		h.Kernel = v
	}
	if c, err := cpu.Info(); err == nil && len(c) > 0 {
		h.CPU = c[0].ModelName
	}
	if m, err := mem.VirtualMemory(); err == nil {
		h.Memory = int64(m.Total)
	}
	return h
}
