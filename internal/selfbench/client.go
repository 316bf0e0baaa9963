package selfbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/cputime"
)

// client is what is measured: the generator, a baseline or a peer.
type client interface {
	// open returns when every stream is confirmed.
	open(ctx context.Context) error
	// received is the number of events received so far, on all streams.
	received() int64
	// outstanding is the number of deliveries that are still expected, where the
	// client knows it. received alone would count a duplicate in place of a
	// delivery that is missing.
	outstanding() int64
	// calls is the number of polls and refreshes so far.
	calls() int64
	// recorder records the events that are published.
	recorder() eventmeter.Recorder
	// begin is called before the paced phase.
	begin()
	// finish fills in what only this client knows.
	finish(o *outcome)
	// close closes everything.
	close(ctx context.Context) error
}

// base is what all clients have in common. Its methods are those of a client
// without a ledger, which counts what it receives.
type base struct {
	spec   spec
	seen   atomic.Int64
	errors *errorMeter // nil when the error is not measured
}

func (b *base) received() int64               { return b.seen.Load() }
func (b *base) outstanding() int64            { return 0 }
func (b *base) calls() int64                  { return 0 }
func (b *base) recorder() eventmeter.Recorder { return eventmeter.Tee() }

func (b *base) begin() {
	if b.errors != nil {
		b.errors.paced.Store(true)
	}
}

func (b *base) finish(o *outcome) {
	if b.errors != nil {
		o.ErrorP50, o.ErrorP99 = b.errors.quantiles()
	}
}

func (b *base) closeErrors() {
	if b.errors != nil {
		b.errors.close()
	}
}

// confirm waits until a counter says that all streams are confirmed.
func (b *base) confirm(ctx context.Context, confirmed *atomic.Int64) error {
	for confirmed.Load() < int64(b.spec.Streams) {
		if wait(ctx, 5*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("%d of %d streams were confirmed: %w", confirmed.Load(), b.spec.Streams, ctx.Err())
		}
	}
	return nil
}

// runID is the run of all probe ids. Each measurement has its own target.
const runID = 0x6d627631

// maker makes a client. What it makes counts as the client's memory.
type maker func(s spec, clock *eventmeter.Clock) (client, error)

// measure is the role of all clients: they run through the same phases.
func measure(make maker) role {
	return func(ctx context.Context, s spec, l *link) error {
		m := &measurement{spec: s, link: l, clock: eventmeter.NewClock()}
		collect()
		m.out.Before = take()
		var err error
		if m.client, err = make(s, m.clock); err != nil {
			return err
		}
		err = m.run(ctx)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
		defer cancel()
		if closed := m.client.close(ctx); err == nil && closed != nil && ctx.Err() == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		return l.send(message{Step: "done", Outcome: &m.out})
	}
}

// measurement runs a client through its phases.
type measurement struct {
	spec   spec
	link   *link
	clock  *eventmeter.Clock
	client client
	out    outcome
}

// run opens the streams, publishes one event to all of them, waits through the
// idle phase and runs the paced phase.
func (m *measurement) run(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, m.spec.Timeout)
	err := m.client.open(limited)
	cancel()
	if err != nil {
		return err
	}
	m.out.Opened, m.out.Streams = take(), m.spec.Streams
	if err := m.link.pause(ctx, message{Step: "opened"}); err != nil {
		return err
	}
	p := newPublisher(m.clock, m.client.recorder(), m.spec)
	defer p.close()
	if err := p.once(ctx); err != nil {
		return err
	}
	if got := m.until(ctx, int64(m.spec.Streams)); got < int64(m.spec.Streams) {
		return fmt.Errorf("one event was published, and %d of %d streams received it in time", got, m.spec.Streams)
	}
	m.out.Full = take()
	collect()
	m.out.Settled = take()
	if err := heapProfile(m.spec.Profile); err != nil {
		return err
	}
	if err := m.link.pause(ctx, message{Step: "idle"}); err != nil {
		return err
	}
	began, calls := take(), m.client.calls()
	wait(ctx, m.spec.Idle)
	m.out.Idle = take().since(began)
	m.out.Idle.Calls = m.client.calls() - calls
	if err := m.link.pause(ctx, message{Step: "paced"}); err != nil {
		return err
	}
	if err := m.pace(ctx, p); err != nil {
		return err
	}
	return m.link.pause(ctx, message{Step: "delivered"})
}

// pace publishes events at the rate of the spec and waits for the last delivery.
func (m *measurement) pace(ctx context.Context, p *publisher) error {
	m.client.begin()
	had := m.client.received()
	stop, err := profile(m.spec.Profile)
	if err != nil {
		return err
	}
	defer stop()
	before := take()
	publish := p.loop
	if m.spec.Flood {
		publish = p.flood
	}
	stats, err := publish(ctx)
	if err != nil {
		return err
	}
	m.out.Expected = p.reached.Load()
	m.out.Delivered = m.until(ctx, had+m.out.Expected) - had
	m.out.Paced = take().since(before)
	stop()
	m.out.Dropped = int64(stats.Dropped + stats.Refused + stats.Uncertain)
	m.out.Balanced = true
	m.client.finish(&m.out)
	return nil
}

// until waits for a number of deliveries, for half the timeout at most, and
// returns how many there are.
func (m *measurement) until(ctx context.Context, want int64) int64 {
	end := time.Now().Add(m.spec.Timeout / 2)
	for {
		got := m.client.received()
		if got >= want && m.client.outstanding() == 0 || ctx.Err() != nil || time.Now().After(end) {
			return got
		}
		wait(ctx, 20*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// started is about when the process began.
var started = time.Now()

// take samples this process.
func take() sample {
	s := sample{At: time.Since(started), CPU: cputime.Used()}
	if p, err := process.NewProcess(int32(os.Getpid())); err == nil {
		if mem, err := p.MemoryInfo(); err == nil {
			s.RSS = int64(mem.RSS)
		}
	}
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	s.Heap, s.Stack, s.Mallocs = int64(ms.HeapInuse), int64(ms.StackInuse), int64(ms.Mallocs)
	return s
}

// collect collects garbage and returns its memory to the system.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heapProfile writes what is in use to the file name.heap; it does nothing without
// a name. Garbage must have been collected.
func heapProfile(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name + ".heap")
	if err == nil {
		err = errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
	}
	if err != nil {
		return fmt.Errorf("heap profile: %w", err)
	}
	return nil
}

// profile writes a CPU profile of this process to a file until stop is called,
// which may be called again. Without a file it does nothing.
func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("CPU profile: %w", errors.Join(err, f.Close()))
	}
	return sync.OnceFunc(func() {
		pprof.StopCPUProfile()
		f.Close()
	}), nil
}
