package selfbench

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
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
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Files: fileLimit(), Go: runtime.Version()}
	if v, err := host.KernelVersionWithContext(ctx); err == nil {
		m.Kernel = v
	}
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		m.CPU = infos[0].ModelName
	}
	if v, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		m.Memory, m.Free = v.Total, v.Available
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
