package selfbench

import (
	"context"
	"runtime/debug"

	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/eventmeter/eventmeter/internal/health"
)

// Machine describes the machine without naming it.
type Machine struct {
	OS     string  `json:"os"`
	Kernel string  `json:"kernel,omitempty"`
	Arch   string  `json:"arch"`
	CPU    string  `json:"cpu,omitempty"`
	CPUs   int     `json:"cpus"`
	Memory uint64  `json:"memoryBytes,omitempty"`
	Free   uint64  `json:"availableBytes,omitempty"` // when the run began
	Files  int     `json:"fileLimit,omitempty"`      // of one process
	Load   float64 `json:"load1"`                    // when the run began
	Go     string  `json:"go"`
	Commit string  `json:"commit,omitempty"`
}

func machineFacts(ctx context.Context) Machine {
	h := health.Host()
	m := Machine{
		OS: h.OS, Kernel: h.Kernel, Arch: h.Arch, CPU: h.CPU, CPUs: h.CPUs, Memory: uint64(h.Memory),
		Files: int(min(h.Files, 1<<30)), Go: h.Go,
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		m.Free = v.Available
	}
	if l, err := load.AvgWithContext(ctx); err == nil {
		m.Load = l.Load1
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				m.Commit = s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return m
}
