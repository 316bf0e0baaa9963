package selfbench

import (
	"github.com/eventmeter/eventmeter/internal/cputime"

	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// client is what is measured: the generator, a baseline or a peer.
type client interface {
	// open returns when every stream is confirmed.
	open(ctx context.Context) error
	// received is how many events have come, of all streams, whatever for.
	received() int64
	// recorder is told of what is fired.
	recorder() eventmeter.Recorder
	// finish fills in what only this client knows.
	finish(o *outcome)
	// close ends everything.
	close(ctx context.Context) error
}

// caller is a client that makes calls all the time.
type caller interface {
	// calls is how many were made so far.
	calls() int64
}

// debtor is a client that knows what is still to come: second copies must not
// stand for first ones.
type debtor interface {
	outstanding() int64
}

// beginner is a client that wants to know when the paced phase begins.
type beginner interface{ begin() }

// runID names the run in probe ids. Each measurement has its own target.
const runID = 0x6d627631

// maker makes a client. What it makes counts as the client's memory.
type maker func(s spec, clock *eventmeter.Clock) (client, error)

// measure is the role of all clients: they go through the same phases.
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Patience)
		defer cancel()
		if closed := m.client.close(ctx); err == nil && closed != nil && ctx.Err() == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		return l.tell(message{Step: "done", Outcome: &m.out})
	}
}

// measurement takes a client through its phases.
type measurement struct {
	spec   spec
	link   *link
	clock  *eventmeter.Clock
	client client
	out    outcome
}

// run goes through the phases: open, one event for everybody, rest, idle,
// paced.
func (m *measurement) run(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, m.spec.Patience)
	err := m.client.open(limited)
	cancel()
	if err != nil {
		return err
	}
	m.out.Opened, m.out.Streams = take(), m.spec.Streams
	if err := m.link.say(ctx, message{Step: "opened"}); err != nil {
		return err
	}
	f := newFirer(m.clock, m.client.recorder(), m.spec)
	defer f.close()
	if err := f.once(ctx); err != nil {
		return err
	}
	if got := m.until(ctx, int64(m.spec.Streams)); got < int64(m.spec.Streams) {
		return fmt.Errorf("one event was published, and %d of %d streams had it in time", got, m.spec.Streams)
	}
	m.out.Full = take()
	collect()
	m.out.Settled = take()
	if err := m.link.say(ctx, message{Step: "idle"}); err != nil {
		return err
	}
	began, calls := take(), m.calls()
	wait(ctx, m.spec.Idle)
	m.out.Idle = take()
	m.out.IdleCalls = m.calls() - calls
	m.out.IdleCPU, m.out.IdleTook, m.out.IdleMallocs = m.out.Idle.CPU-began.CPU, m.out.Idle.At-began.At, m.out.Idle.Mallocs-began.Mallocs
	if err := m.link.say(ctx, message{Step: "paced"}); err != nil {
		return err
	}
	return m.pace(ctx, f)
}

// pace fires events at the rate of the spec and waits for the last delivery.
func (m *measurement) pace(ctx context.Context, f *firer) error {
	if b, ok := m.client.(beginner); ok {
		b.begin()
	}
	had, calls := m.client.received(), m.calls()
	stop, err := profile(m.spec.Profile)
	if err != nil {
		return err
	}
	defer stop()
	before := take()
	fire := f.loop
	if m.spec.Flood {
		fire = f.flood
	}
	stats, err := fire(ctx, m.spec.Rate, m.spec.Paced)
	if err != nil {
		return err
	}
	m.out.Expected = f.reached.Load()
	m.out.Delivered = m.until(ctx, had+m.out.Expected) - had
	m.out.Paced = take()
	stop()
	m.out.Calls = m.calls() - calls
	m.out.PacedCPU, m.out.PacedTook, m.out.PacedMallocs = m.out.Paced.CPU-before.CPU, m.out.Paced.At-before.At, m.out.Paced.Mallocs-before.Mallocs
	m.out.Dropped = int64(stats.Dropped + stats.Refused + stats.Uncertain)
	m.out.Balanced = true
	m.client.finish(&m.out)
	return nil
}

func (m *measurement) calls() int64 {
	if c, ok := m.client.(caller); ok {
		return c.calls()
	}
	return 0
}

// until waits for a number of deliveries, as long as there is patience, and
// returns how many there are.
func (m *measurement) until(ctx context.Context, want int64) int64 {
	end := time.Now().Add(m.spec.Patience / 2)
	for {
		got := m.client.received()
		if got >= want && m.outstanding() == 0 || ctx.Err() != nil || time.Now().After(end) {
			return got
		}
		wait(ctx, 20*time.Millisecond)
	}
}

func (m *measurement) outstanding() int64 {
	if d, ok := m.client.(debtor); ok {
		return d.outstanding()
	}
	return 0
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

// collect throws garbage away and gives its memory back.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// firer fires events at a target and tells a recorder of them, as a run does.
type firer struct {
	clock   *eventmeter.Clock
	rec     eventmeter.Recorder
	stamper *loadgen.Stamper
	spec    spec
	http    *http.Client
	reached atomic.Int64 // streams that measured events were taken for
}

func newFirer(clock *eventmeter.Clock, rec eventmeter.Recorder, s spec) *firer {
	return &firer{
		clock: clock, rec: rec, spec: s, stamper: loadgen.NewStamper(clock, rec, runID, s.groups()),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
}

func (f *firer) close() { f.http.CloseIdleConnections() }

// once fires one event that is not measured, at all streams.
func (f *firer) once(ctx context.Context) error {
	emission := f.stamper.Stamp(0, f.clock.Now(), false)
	outcome := f.fire(ctx, emission)
	f.rec.Resolved(emission.Stamp, outcome, f.clock.Now())
	if outcome != eventmeter.Accepted {
		return fmt.Errorf("the target did not take an event at %s", f.spec.Inject)
	}
	return nil
}

// loop fires at a rate for some time.
func (f *firer) loop(ctx context.Context, rate float64, d time.Duration) (loadgen.Stats, error) {
	firing, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: f.clock, Recorder: f.rec, Stamper: f.stamper, Schedule: loadgen.Constant{Rate: rate}, Duration: d,
		// A machine that is full must not turn the load down.
		Tolerance: time.Second,
	})
	if err != nil {
		return loadgen.Stats{}, err
	}
	stats := loadgen.Loop(ctx, firing, loadgen.LoopOptions{Fire: f.fire, Workers: 16})
	if stats.Accepted == 0 {
		return stats, errors.New("the target took no event")
	}
	return stats, nil
}

// flood fires as fast as the target answers.
func (f *firer) flood(ctx context.Context, _ float64, d time.Duration) (loadgen.Stats, error) {
	var n, accepted atomic.Uint64
	var work sync.WaitGroup
	end := time.Now().Add(d)
	for range 4 {
		work.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				emission := f.stamper.Stamp(n.Add(1), f.clock.Now(), true)
				outcome := f.fire(ctx, emission)
				f.rec.Resolved(emission.Stamp, outcome, f.clock.Now())
				if outcome == eventmeter.Accepted {
					accepted.Add(1)
				}
			}
		})
	}
	work.Wait()
	s := loadgen.Stats{Scheduled: n.Load(), Fired: n.Load(), Accepted: accepted.Load(), Refused: n.Load() - accepted.Load()}
	if s.Accepted == 0 {
		return s, errors.New("the target took no event")
	}
	return s, nil
}

// fire posts one event. Those that are measured go to the group of their source.
func (f *firer) fire(ctx context.Context, emission loadgen.Emission) eventmeter.Outcome {
	body := append([]byte(`{"name":"tick","data":{"note":"`), emission.Stamp.String()...)
	body = append(body, `"}`...)
	if f.spec.Groups > 0 && emission.Measured {
		body = append(body, `,"group":`...)
		body = strconv.AppendInt(body, int64(emission.Source), 10)
	}
	body = append(body, '}')
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.spec.Inject, bytes.NewReader(body))
	if err != nil {
		return eventmeter.Refused
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.http.Do(req)
	if err != nil {
		return eventmeter.Uncertain
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	if resp.StatusCode != http.StatusAccepted {
		return eventmeter.Refused
	}
	if emission.Measured {
		f.reached.Add(int64(f.spec.groupSize(int(emission.Source))))
	}
	return eventmeter.Accepted
}

// profile takes a CPU profile of this process into a file until stop is called,
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
