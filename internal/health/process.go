package health

import (
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/cputime"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/results"
)

// tick is the resolution of CPU times in the process table, and in the metrics that
// client libraries of Prometheus read from it.
const tick = 10 * time.Millisecond

// cpuOf returns the CPU seconds of a process, and their resolution.
func cpuOf(p *process.Process) (seconds float64, step time.Duration, err error) {
	if used, err := cputime.Of(int(p.Pid)); err == nil {
		return used.Seconds(), cputime.Step, nil
	}
	t, err := p.Times()
	if err != nil {
		return 0, 0, err
	}
	return t.User + t.System, tick, nil
}

// meter measures the CPU time and memory of one process. Its methods do nothing on
// nil.
type meter struct {
	proc   *process.Process
	before float64 // CPU seconds at the start

	mu     sync.Mutex
	last   float64
	step   time.Duration // resolution of last
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
	if cpu, step, err := cpuOf(m.proc); err == nil {
		m.last, m.step = cpu, step
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
		CPU:        results.Nanos(cpu * 1e9),
		CPUShare:   cpu / wall.Seconds(),
		Memory:     m.memory,
		Resolution: results.Nanos(m.step),
	}
}

// ProcessUsage returns a function that reads the CPU time and memory of a process.
func ProcessUsage(pid int) func() metrics.Usage {
	proc, err := process.NewProcess(int32(pid))
	if err != nil {
		return func() metrics.Usage { return metrics.Usage{} }
	}
	return func() metrics.Usage {
		cpu, _, err := cpuOf(proc)
		if err != nil {
			return metrics.Usage{}
		}
		m, err := proc.MemoryInfo()
		if err != nil {
			return metrics.Usage{}
		}
		return metrics.Usage{CPU: cpu, Memory: int64(m.RSS), OK: true}
	}
}
