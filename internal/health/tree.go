package health

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/cputime"
)

// tick is the resolution of CPU times in the process table, and in the metrics that
// client libraries of Prometheus read from it.
const tick = 10 * time.Millisecond

// A reading of the whole process table takes longer on a machine with many processes. The
// pause before the next is at least lookEvery, and lookRest times what the last one took.
const (
	lookEvery = time.Second
	lookRest  = 200
)

// tree reads processes together with all their descendants: servers often leave the work
// to processes that the listening one starts. Descendants that end keep their CPU time. It
// is safe for concurrent use.
type tree struct {
	mu      sync.Mutex
	alone   bool // without descendants
	members map[int]*member
	ended   float64       // CPU seconds of members that ended and had no parent in the tree
	used    float64       // CPU seconds at the last reading
	step    time.Duration // resolution of the CPU time
	looked  time.Time     // when the process table was read that was last looked at
}

// table is the process table as it was last read, which all trees share.
var table struct {
	sync.Mutex
	all   map[int]entry // not changed
	at    time.Time
	pause time.Duration // until the next reading
}

// lookup returns the process table and when it was read. fresh says to read it at once.
func lookup(fresh bool) (map[int]entry, time.Time) {
	table.Lock()
	defer table.Unlock()
	if fresh || time.Since(table.at) >= table.pause {
		began := time.Now()
		table.all = processes()
		table.at = time.Now()
		table.pause = max(lookEvery, lookRest*table.at.Sub(began))
	}
	return table.all, table.at
}

// member is a process of a tree.
type member struct {
	proc  *process.Process
	entry         // as last seen
	own   float64 // CPU seconds of the process itself
	// CPU seconds of children that ended, by the last reading of each. The system's own figure,
	// waited, lacks children that nobody waited for; this one lacks those that came and went
	// between two looks. The larger of both counts.
	known float64
}

// entry is a process in the process table.
type entry struct {
	parent int
	born   uint64  // start time; tells a process from a later one with the same id
	waited float64 // CPU seconds of children that ended and were waited for
}

func (m *member) cpu() float64 { return m.own + max(m.waited, m.known) }

// newTree returns the tree below processes; nil if none can be read.
func newTree(pids []int) *tree { return plant(&tree{}, pids) }

// onlyProcess returns a tree of one process without its descendants; nil if it cannot be
// read.
func onlyProcess(pid int) *tree { return plant(&tree{alone: true}, []int{pid}) }

func plant(t *tree, roots []int) *tree {
	t.members = map[int]*member{}
	now, at := map[int]entry{}, time.Time{}
	if !t.alone {
		now, at = lookup(true)
	}
	for _, pid := range roots {
		if e, ok := now[pid]; ok || t.alone {
			t.add(pid, e)
		}
	}
	if len(t.members) == 0 {
		return nil
	}
	t.grow(now)
	t.looked = at
	return t
}

func (t *tree) add(pid int, e entry) {
	if proc, err := process.NewProcess(int32(pid)); err == nil {
		t.members[pid] = &member{proc: proc, entry: e, known: e.waited}
	}
}

// look finds the processes that came and went. fresh says to read the process table at once.
func (t *tree) look(fresh bool) {
	now, at := lookup(fresh)
	if len(now) == 0 || at.Equal(t.looked) { // it could not be read this time, or is known
		return
	}
	var ended []int
	for pid, m := range t.members {
		if e, ok := now[pid]; ok && e.born == m.born {
			m.entry = e
		} else {
			ended = append(ended, pid)
		}
	}
	// Children are born after their parents, which take over their CPU time.
	slices.SortFunc(ended, func(a, b int) int { return cmp.Compare(t.members[b].born, t.members[a].born) })
	for _, pid := range ended {
		m := t.members[pid]
		delete(t.members, pid)
		if parent := t.members[m.parent]; parent != nil {
			parent.known += m.cpu()
		} else {
			t.ended += m.cpu()
		}
	}
	t.grow(now)
	t.looked = at
}

// grow adds the descendants of the members. This process and those that led to it are no part
// of the target, even where the target's process started them.
func (t *tree) grow(now map[int]entry) {
	own := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !own[pid]; pid = now[pid].parent {
		own[pid] = true
	}
	for grown := true; grown; {
		grown = false
		for pid, e := range now {
			if t.members[pid] == nil && t.members[e.parent] != nil && !own[pid] {
				t.add(pid, e)
				grown = grown || t.members[pid] != nil
			}
		}
	}
}

// read returns the CPU seconds that the tree has used, which never fall, and its resident
// bytes now; 0 where no member is left. fresh says to look for new processes at once.
func (t *tree) read(fresh bool) (cpu float64, memory int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.alone {
		t.look(fresh)
	}
	cpu = t.ended
	for _, m := range t.members {
		if used, step, err := cpuOf(m.proc); err == nil {
			m.own, t.step = max(m.own, used), max(t.step, step)
		}
		if m.waited > m.known {
			t.step = tick
		}
		if mem, err := m.proc.MemoryInfo(); err == nil {
			memory += int64(mem.RSS)
		}
		cpu += m.cpu()
	}
	// A child may have ended while the table was read, after its parent's entry.
	t.used = max(t.used, cpu)
	return t.used, memory
}

// refresh looks for new processes, unless the last look was just before.
func (t *tree) refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look(false)
}

// each calls a function for each process that had not ended at the last look.
func (t *tree) each(do func(*process.Process)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.members {
		do(m.proc)
	}
}

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
