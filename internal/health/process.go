package health

import (
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/results"
)

// meter measures the CPU time and memory of one process. Its methods do nothing on
// nil.
type meter struct {
	proc   *process.Process
	before float64 // CPU seconds at the start

	mu     sync.Mutex
	last   float64
	memory int64
}

// newMeter returns nil if the process cannot be read.
func newMeter(pid int) *meter {
	proc, err := process.NewProcess(int32(pid))
	if err != nil {
		return nil
	}
	m := &meter{proc: proc}
	m.sample()
	m.before = m.last
	return m
}

// sample reads the process. A process that is gone keeps its last values.
func (m *meter) sample() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, err := m.proc.Times(); err == nil {
		m.last = t.User + t.System
	}
	if mem, err := m.proc.MemoryInfo(); err == nil {
		m.memory = max(m.memory, int64(mem.RSS))
	}
}

func (m *meter) used() (cpu float64, most int64, ok bool) {
	if m == nil {
		return 0, 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last - m.before, m.memory, true
}

func (m *meter) finish(wall time.Duration) *results.Process {
	if m == nil {
		return nil
	}
	m.sample()
	cpu := m.last - m.before
	return &results.Process{
		CPU:      results.Nanos(cpu * 1e9),
		CPUShare: cpu / wall.Seconds(),
		Memory:   m.memory,
	}
}

// ProcessUsage returns a function that reads the CPU time and memory of a process.
func ProcessUsage(pid int) func() metrics.Usage {
	proc, err := process.NewProcess(int32(pid))
	if err != nil {
		return func() metrics.Usage { return metrics.Usage{} }
	}
	return func() metrics.Usage {
		t, err := proc.Times()
		if err != nil {
			return metrics.Usage{}
		}
		m, err := proc.MemoryInfo()
		if err != nil {
			return metrics.Usage{}
		}
		return metrics.Usage{CPU: t.User + t.System, Memory: int64(m.RSS), OK: true}
	}
}
