package health

import (
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/results"
)

// meter measures the CPU time and memory of processes. Its methods do nothing on nil.
type meter struct {
	tree   *tree
	before float64 // CPU seconds at the start

	mu     sync.Mutex
	last   float64
	memory int64
}

// newMeter returns nil if there is nothing to measure.
func newMeter(t *tree) *meter {
	if t == nil {
		return nil
	}
	m := &meter{tree: t}
	m.take(false)
	m.before = m.last
	return m
}

// sample reads the processes. Those that are gone keep their last values.
func (m *meter) sample() {
	if m != nil {
		m.take(false)
	}
}

// take returns the memory now.
func (m *meter) take(fresh bool) int64 {
	cpu, memory := m.tree.read(fresh)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.memory = cpu, max(m.memory, memory)
	return memory
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
	if left := m.take(true); left == 0 && m.memory > 0 && !m.tree.alone {
		return nil // the target ended, and others may have taken its place
	}
	cpu := m.last - m.before
	return &results.Process{
		CPU:        results.Nanos(cpu * 1e9),
		CPUShare:   cpu / wall.Seconds(),
		Memory:     m.memory,
		Resolution: results.Nanos(m.tree.step),
	}
}

// ProcessUsage returns a function that reads the CPU time and memory of a process, without
// its descendants.
func ProcessUsage(pid int) func() metrics.Usage { return usageOf(onlyProcess(pid)) }

// TreeUsage returns a function that reads the CPU time and memory of processes and their
// descendants.
func TreeUsage(pids []int) func() metrics.Usage { return usageOf(newTree(pids)) }

func usageOf(t *tree) func() metrics.Usage {
	return func() metrics.Usage {
		if t == nil {
			return metrics.Usage{}
		}
		cpu, memory := t.read(false)
		return metrics.Usage{CPU: cpu, Memory: memory, OK: memory > 0}
	}
}
