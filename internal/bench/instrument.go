package bench

import (
	"context"
	"math"
	"os"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// timerEvery is how often the generator sets itself an alarm to see how late
// it wakes, in a watch that lasts for d: every 10 ms, and in a long one less
// often, as with its echo.
func timerEvery(d time.Duration) time.Duration { return echoEvery(d) + 3*time.Millisecond }

// generator watches this process, and the target's where it is a process of
// this machine, while a pass fires and drains.
type generator struct {
	self       *meter
	target     gauge
	elsewhere  bool     // the target's figures are of another machine
	siblings   []*meter // other shards on this machine
	machine    *machineMeter
	echo       *echo
	stamped    *stampedEcho // nil when no lane takes times from the kernel
	mu         sync.Mutex
	timerLag   sinks.Values // guarded by mu
	gcBefore   *metrics.Float64Histogram
	gcAfter    *metrics.Float64Histogram // when the watch was over; guarded by mu, nil before
	goroutines int64
	started    time.Time

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// gauge follows what the target uses.
type gauge interface {
	sample()
	// used is what the last sample said: CPU seconds since the watch began and
	// the largest memory. It is safe for concurrent use.
	used() (cpu float64, most int64, ok bool)
	// finish returns nil where the target cannot be read.
	finish(wall time.Duration) *results.Process
}

// startInstrument begins to watch. targetPID is 0 where there is no process to
// watch; metrics is the address of the target's metrics, which go before, or
// "", and guard checks connections to it. The work of siblings, by their process ids, is the run's own. stamped
// says that deliveries are timed by the kernel, length how long the watch lasts,
// near enough. The caller must call stop.
func startGenerator(targetPID int, metrics string, guard *dialguard.Guard, siblings []int, stamped bool, length time.Duration) (*generator, error) {
	var target gauge = (*meter)(nil)
	if metrics != "" {
		remote, err := newRemoteMeter(metrics, guard)
		if err != nil {
			return nil, err
		}
		target = remote
	} else if targetPID != 0 {
		target = newMeter(targetPID)
	}
	e, err := openEcho(echoEvery(length))
	if err != nil {
		return nil, err
	}
	var s *stampedEcho
	if stamped {
		if s, err = openStampedEcho(echoEvery(length)); err != nil {
			e.close()
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	in := &generator{
		echo:      e,
		stamped:   s,
		self:      newMeter(os.Getpid()),
		target:    target,
		elsewhere: metrics != "" && targetPID == 0,
		machine:   newMachineMeter(),
		gcBefore:  gcPauses(),
		started:   time.Now(),
		cancel:    cancel,
	}
	for _, pid := range siblings {
		in.siblings = append(in.siblings, newMeter(pid))
	}
	in.done.Add(2)
	go in.watchTimers(ctx, timerEvery(length))
	go in.watchProcesses(ctx)
	return in, nil
}

func (in *generator) watchTimers(ctx context.Context, every time.Duration) {
	defer crash.Guard()
	defer in.done.Done()
	timer := time.NewTimer(every)
	defer timer.Stop()
	due := time.Now().Add(every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			// The value is bounded by the histogram's range: a lag of more
			// than ten minutes cannot be told from one of ten.
			lag := time.Since(due)
			in.mu.Lock()
			in.timerLag.Add(lag)
			in.mu.Unlock()
			due = time.Now().Add(every)
			timer.Reset(every)
		}
	}
}

func (in *generator) watchProcesses(ctx context.Context) {
	defer crash.Guard()
	defer in.done.Done()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			in.self.sample()
			in.target.sample()
			for _, m := range in.siblings {
				m.sample()
			}
			in.goroutines = max(in.goroutines, goroutines())
		}
	}
}

// stop ends the watch and waits for its goroutines. dropped is the share of
// emissions that found no worker. The verdict is left to the caller.
func (in *generator) stop(dropped float64) (results.Generator, *results.Process) {
	in.cancel()
	in.done.Wait()
	wall := time.Since(in.started)
	own := in.echo.close()
	after := gcPauses()
	in.mu.Lock()
	in.gcAfter = after
	in.mu.Unlock()
	out := results.Generator{
		Reasons:       []string{},
		ReadDelay:     results.SummariseNanos(own),
		TimerLag:      results.SummariseNanos(in.timerLag.Timing().Histogram),
		GCPauses:      summariseFloat(in.gcBefore, after),
		DroppedEvents: dropped,
		Goroutines:    max(in.goroutines, goroutines()),
	}
	out.Arrivals.Error = results.SummariseNanos(in.stamped.close())
	if p := in.self.finish(wall); p != nil {
		out.Process = *p
	}
	target := in.target.finish(wall)
	onThisMachine := target
	if in.elsewhere {
		onThisMachine = nil
	}
	out.Others = in.machine.others(wall, out.Process.CPU, onThisMachine)
	for _, m := range in.siblings {
		if p := m.finish(wall); p != nil {
			out.Others = max(0, out.Others-p.CPUShare)
		}
	}
	return out, target
}

// meter follows the CPU time and memory of one process. Its methods do nothing
// on nil.
type meter struct {
	proc   *process.Process
	before float64 // CPU seconds at the start

	mu     sync.Mutex
	last   float64
	memory int64
}

// newMeter returns nil where the process cannot be read.
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

// sample reads the process; a process that is gone keeps its last values.
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

func gcPauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64Histogram()
}

func goroutines() int64 {
	s := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// summariseFloat turns what a runtime histogram (in seconds) gained between two
// readings into quantiles; a value counts as its bucket's upper bound.
func summariseFloat(before, after *metrics.Float64Histogram) results.Quantiles {
	h := hdrhistogram.New(1000, int64(10*time.Minute), 3)
	for i, n := range after.Counts {
		n -= before.Counts[i]
		if n == 0 {
			continue
		}
		v := after.Buckets[i+1]
		if math.IsInf(v, 1) {
			v = after.Buckets[i]
		}
		_ = h.RecordValues(max(0, min(int64(v*1e9), h.HighestTrackableValue())), int64(n))
	}
	return results.SummariseNanos(h)
}
