// Package health watches the generator: the resources that this process and the
// target's use, how late timers wake, and how long it takes to read data that has
// arrived. It reports when the generator, and not the target, was the bottleneck.
package health

import (
	"context"
	"os"
	rtmetrics "runtime/metrics"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// WatchOptions say what to watch besides this process.
type WatchOptions struct {
	// TargetPIDs are the processes of the target, without their descendants, which belong
	// to it as well; none if it is not on this machine or not known.
	TargetPIDs []int
	// TargetMetrics, if not nil, are used instead of the processes.
	TargetMetrics *Metrics
	// Siblings are the process ids of the run's other generators on this machine,
	// which do not count as other processes.
	Siblings []int
	// KernelTimestamps is set if deliveries have kernel times, whose error is then
	// measured as well.
	KernelTimestamps bool
	// Length is the approximate length of the watch.
	Length time.Duration
}

// Watch watches this process, and the target's if possible, while a pass publishes
// and drains.
type Watch struct {
	self       *meter
	target     gauge
	elsewhere  bool     // the target is on another machine
	siblings   []*meter // other generators on this machine
	machine    *machineMeter
	echo       *echo
	kernelEcho *kernelEcho // nil when the kernel times no lane
	gcBefore   *rtmetrics.Float64Histogram
	started    time.Time

	mu         sync.Mutex
	timerLag   ledger.Values
	gcAfter    *rtmetrics.Float64Histogram // at the end of the watch; nil before
	goroutines int64                       // largest number so far

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// gauge measures what a process uses.
type gauge interface {
	sample()
	// used returns the last sample: CPU seconds since the watch began and the largest
	// memory in bytes. It is safe for concurrent use.
	used() (cpu float64, memory int64, ok bool)
	// finish takes a last sample. It returns nil if the process cannot be read.
	finish(wall time.Duration) *results.Process
}

// Start starts a watch. The caller must call [Watch.Stop].
func Start(o WatchOptions) (*Watch, error) {
	var target gauge = (*meter)(nil)
	if o.TargetMetrics != nil {
		remote, err := newRemoteMeter(o.TargetMetrics)
		if err != nil {
			return nil, err
		}
		target = remote
	} else {
		target = newMeter(newTree(o.TargetPIDs))
	}
	e, err := openEcho(echoEvery(o.Length))
	if err != nil {
		return nil, err
	}
	var k *kernelEcho
	if o.KernelTimestamps {
		if k, err = openKernelEcho(echoEvery(o.Length)); err != nil {
			e.close()
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{
		echo:       e,
		kernelEcho: k,
		self:       newMeter(onlyProcess(os.Getpid())),
		target:     target,
		elsewhere:  o.TargetMetrics != nil && len(o.TargetPIDs) == 0,
		machine:    newMachineMeter(),
		gcBefore:   gcPauses(),
		started:    time.Now(),
		cancel:     cancel,
	}
	for _, pid := range o.Siblings {
		w.siblings = append(w.siblings, newMeter(onlyProcess(pid)))
	}
	w.done.Add(2)
	go w.watchTimers(ctx, timerEvery(o.Length))
	go w.watchProcesses(ctx)
	return w, nil
}

// timerEvery returns the length of the timers whose lag is measured in a watch of
// length d: 10 ms, and longer in a long watch, as with the echo.
func timerEvery(d time.Duration) time.Duration { return echoEvery(d) + 3*time.Millisecond }

func (w *Watch) watchTimers(ctx context.Context, every time.Duration) {
	defer crash.Guard()
	defer w.done.Done()
	timer := time.NewTimer(every)
	defer timer.Stop()
	due := time.Now().Add(every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			// The histogram's range bounds the value: a lag of more than ten minutes
			// counts as ten.
			lag := time.Since(due)
			w.mu.Lock()
			w.timerLag.Add(lag)
			w.mu.Unlock()
			due = time.Now().Add(every)
			timer.Reset(every)
		}
	}
}

func (w *Watch) watchProcesses(ctx context.Context) {
	defer crash.Guard()
	defer w.done.Done()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.self.sample()
			w.target.sample()
			for _, m := range w.siblings {
				m.sample()
			}
			w.mu.Lock()
			w.goroutines = max(w.goroutines, goroutines())
			w.mu.Unlock()
		}
	}
}

// Stop ends the watch, waits for its goroutines, and returns the generator's health
// and the target's use of its machine. dropped is the share of emissions without a
// free worker. The caller decides whether the generator was the bottleneck.
func (w *Watch) Stop(dropped float64) (results.Generator, *results.Process) {
	w.cancel()
	w.done.Wait()
	wall := time.Since(w.started)
	delay := w.echo.close()
	w.mu.Lock()
	w.gcAfter = gcPauses()
	w.mu.Unlock()
	out, target := w.read(wall, delay, func(g gauge) *results.Process { return g.finish(wall) })
	out.DroppedEvents = dropped
	out.Arrivals.Error = results.SummariseNanos(w.kernelEcho.close())
	return out, target
}

// SoFar returns what Stop would return now, without the error of kernel times. The
// watch continues.
func (w *Watch) SoFar(dropped float64) (results.Generator, *results.Process) {
	wall := time.Since(w.started)
	out, target := w.read(wall, w.echo.soFar(), func(g gauge) *results.Process {
		cpu, memory, ok := g.used()
		if !ok {
			return nil
		}
		return &results.Process{CPU: results.Nanos(cpu * 1e9), CPUShare: cpu / wall.Seconds(), Memory: memory}
	})
	out.DroppedEvents = dropped
	return out, target
}

// read returns the state of the watch after wall; usage reads a process.
func (w *Watch) read(
	wall time.Duration,
	delay *hdrhistogram.Histogram,
	usage func(gauge) *results.Process,
) (results.Generator, *results.Process) {
	w.mu.Lock()
	lag, after, most := w.timerLag.Timing(), w.gcAfter, w.goroutines
	w.mu.Unlock()
	if after == nil {
		after = gcPauses()
	}
	out := results.Generator{
		Reasons:    []string{},
		ReadDelay:  results.SummariseNanos(delay),
		TimerLag:   results.SummariseNanos(lag.Histogram),
		GCPauses:   summarise(gained(w.gcBefore, after)),
		Goroutines: max(most, goroutines()),
	}
	if p := usage(w.self); p != nil {
		out.Process = *p
	}
	target := usage(w.target)
	out.Others = w.others(wall, out.Process.CPU, target, func(m *meter) float64 {
		if p := usage(m); p != nil {
			return p.CPUShare
		}
		return 0
	})
	return out, target
}

// others returns how many CPUs processes outside the run used; sibling returns the
// CPU seconds of another generator.
func (w *Watch) others(wall time.Duration, self results.Nanos, target *results.Process, sibling func(*meter) float64) float64 {
	if w.elsewhere {
		target = nil
	}
	out := w.machine.others(wall, self, target)
	for _, m := range w.siblings {
		out = max(0, out-sibling(m))
	}
	return out
}

// Health returns the health so far, for metrics. A nil watch has not begun: only the
// goroutines are known.
func (w *Watch) Health() metrics.Health {
	h := metrics.Health{Goroutines: goroutines()}
	if w == nil {
		return h
	}
	h.Measured = true
	h.Used, h.Most = map[string]float64{}, map[string]int64{}
	for name, m := range map[string]gauge{metrics.Generator: w.self, metrics.Target: w.target} {
		if cpu, memory, ok := m.used(); ok {
			h.Used[name], h.Most[name] = cpu, memory
		}
	}
	var target *results.Process
	if cpu, ok := h.Used[metrics.Target]; ok {
		target = &results.Process{CPU: results.Nanos(cpu * 1e9)}
	}
	wall := time.Since(w.started)
	h.Others = w.others(wall, results.Nanos(h.Used[metrics.Generator]*1e9), target, func(m *meter) float64 {
		cpu, _, _ := m.used()
		return cpu / wall.Seconds()
	})
	w.echo.mu.Lock()
	h.ReadDelay = w.echo.delay.Distribution()
	w.echo.mu.Unlock()
	w.mu.Lock()
	h.TimerLag = w.timerLag.Distribution()
	after := w.gcAfter
	w.mu.Unlock()
	if after == nil {
		after = gcPauses()
	}
	h.GCPauses = gained(w.gcBefore, after)
	return h
}
