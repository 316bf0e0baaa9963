package loadgen

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
)

// DefaultWorkers is the number of emissions that may be in flight at once.
const DefaultWorkers = 64

// DefaultTolerance is how long a due emission waits for a free worker. It must
// be longer than the resolution of the system's timers, and short compared with
// the measured latencies.
const DefaultTolerance = 5 * time.Millisecond

// FiringOptions are the options of a [Firing].
type FiringOptions struct {
	Clock    *eventmeter.Clock   // required
	Recorder eventmeter.Recorder // required
	Stamper  *Stamper            // required
	Schedule Schedule            // required
	// Start is when the schedule begins, which may be in the future; 0 means when
	// the [Loop] begins.
	Start eventmeter.Instant
	// Emissions due before Warmup are published but not measured. The last emission
	// is due before Warmup+Duration. With a Duration of 0 or less publishing ends
	// with the schedule.
	Warmup, Duration time.Duration
	// Tolerance is how long a due emission waits for a free worker before it is
	// dropped; 0 means [DefaultTolerance].
	Tolerance time.Duration
	// Number, if not nil, maps the number of an emission of Schedule to its number
	// in the whole schedule that Schedule is a [Part] of. Stamps and drops have the
	// number in the whole schedule.
	Number func(n uint64) uint64
}

// Firing tracks the emissions of one period: when each is due, whether it was
// published, and its outcome. A [Loop] runs it once. Its exported
// methods may be called at any time by any goroutine.
type Firing struct {
	o     FiringOptions
	start atomic.Int64
	timer *time.Timer // of wait
	free  *time.Timer // of reserve

	// slack is how late the last timer fired, in nanoseconds. The workers are not the
	// cause, so slack is added to the tolerance.
	slack atomic.Int64

	fired, dropped               atomic.Uint64
	accepted, uncertain, refused atomic.Uint64

	ended chan struct{} // closed by End

	mu  sync.Mutex
	end eventmeter.Instant // from when on nothing is published, set by End; guarded by mu
}

// Counts counts the emissions of a firing.
type Counts struct {
	// Fired and Dropped add up to the emissions that were due.
	Fired, Dropped uint64
	// Accepted, Uncertain and Refused add up to Fired when all are resolved.
	Accepted, Uncertain, Refused uint64
}

// NewFiring checks the options and returns a Firing that has not begun.
func NewFiring(o FiringOptions) (*Firing, error) {
	if o.Clock == nil || o.Recorder == nil || o.Stamper == nil || o.Schedule == nil {
		return nil, errors.New("publishing: Clock, Recorder, Stamper and Schedule must all be given")
	}
	if o.Warmup < 0 {
		return nil, errors.New("publishing: Warmup must not be negative")
	}
	if o.Tolerance <= 0 {
		o.Tolerance = DefaultTolerance
	}
	f := &Firing{o: o, ended: make(chan struct{}), end: math.MaxInt64}
	f.start.Store(int64(o.Start))
	return f, nil
}

// Start returns when the schedule begins, 0 if that is not known yet.
func (f *Firing) Start() eventmeter.Instant { return eventmeter.Instant(f.start.Load()) }

// End ends the period before its Duration is over, and returns the time from which on no emission
// is published: all that were due before are published or counted as dropped. Call it once at the
// most, while a [Loop] runs.
func (f *Firing) End() eventmeter.Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = f.o.Clock.Now()
	close(f.ended)
	return f.end
}

// due is an emission of the schedule.
type due struct {
	n        uint64
	intended eventmeter.Instant
	measured bool
}

// due returns when emission n is due and whether it is measured. ok is false if the
// period or the schedule ends before.
func (f *Firing) due(n uint64) (d due, ok bool) {
	at, ok := f.o.Schedule.At(n)
	if !ok || f.o.Duration > 0 && at >= f.o.Warmup+f.o.Duration {
		return due{}, false
	}
	return due{n, f.Start().Add(at), at >= f.o.Warmup}, true
}

// wait waits until emission n is due, and never returns before. ok is false if there
// is no emission n, or ctx or the period has ended.
func (f *Firing) wait(ctx context.Context, n uint64) (d due, ok bool) {
	f.start.CompareAndSwap(0, int64(f.o.Clock.Now()))
	d, ok = f.due(n)
	if !ok || ctx.Err() != nil {
		return due{}, false
	}
	if f.o.Clock.Now() < d.intended {
		if !f.sleep(ctx, d.intended) && ctx.Err() != nil {
			return due{}, false
		}
		f.slack.Store(int64(f.o.Clock.Now() - d.intended))
	}
	return d, f.includes(d.intended)
}

// Timers of the Go runtime are up to a millisecond late. So a long sleep ends a little early, a nap
// follows that ends a little early, too, and other goroutines run for the rest. Short sleeps are
// not followed by these: yielding would take a processor that the target may need.
const (
	napTime    = time.Millisecond
	yieldTime  = 100 * time.Microsecond
	yieldAbove = 10 * time.Millisecond
)

func (f *Firing) sleep(ctx context.Context, until eventmeter.Instant) bool {
	d := until.Sub(f.o.Clock.Now())
	if d > yieldAbove {
		if !f.sleepFor(ctx, d-napTime) {
			return false
		}
		if left := until.Sub(f.o.Clock.Now()) - yieldTime; left > 0 {
			nap(left)
		}
		f.yield(until)
	}
	for d := until.Sub(f.o.Clock.Now()); d > 0; d = until.Sub(f.o.Clock.Now()) {
		if !f.sleepFor(ctx, d) {
			return false
		}
	}
	return true
}

// yield lets other goroutines run until that time, or until the clock stands still:
// some clocks move in steps, and the clock of a test does not move at all
// while a goroutine runs.
func (f *Firing) yield(until eventmeter.Instant) {
	const limit = 100
	last := f.o.Clock.Now()
	for still := 0; last < until && still < limit; {
		runtime.Gosched()
		now := f.o.Clock.Now()
		if now == last {
			still++
		} else {
			still, last = 0, now
		}
	}
}

func (f *Firing) sleepFor(ctx context.Context, d time.Duration) bool {
	if f.timer == nil {
		f.timer = time.NewTimer(d)
	} else {
		f.timer.Reset(d)
	}
	select {
	case <-f.timer.C:
		return true
	case <-ctx.Done():
	case <-f.ended:
	}
	f.timer.Stop()
	return false
}

// includes reports whether the period was not ended before an emission was due.
func (f *Firing) includes(intended eventmeter.Instant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return intended < f.end
}

// admit puts a token into busy for an emission that is due. The capacity of busy is
// the number of workers, so room in it means a free worker; the worker takes the
// token out when the emission is resolved. admit waits for room until the tolerance
// is over. Then it counts the emission as dropped and returns false. If ctx ends, it
// returns false and counts nothing.
//
// An admitted emission is sent even if the machine takes longer than the tolerance
// to run its worker. That delay belongs to the generator: it is part of the latencies
// and of the lag from scheduled to published, and must not look like a lack of
// workers.
func (f *Firing) admit(ctx context.Context, d due, busy chan struct{}) bool {
	if f.reserve(ctx, d.intended, busy) {
		return true
	}
	if ctx.Err() == nil {
		f.drop(d)
	}
	return false
}

func (f *Firing) reserve(ctx context.Context, intended eventmeter.Instant, busy chan struct{}) bool {
	select {
	case busy <- struct{}{}:
		return true
	default:
	}
	wait := f.deadline(intended).Sub(f.o.Clock.Now())
	if wait <= 0 {
		return false
	}
	if f.free == nil {
		f.free = time.NewTimer(wait)
	} else {
		f.free.Reset(wait)
	}
	defer f.free.Stop()
	select {
	case busy <- struct{}{}:
		if ctx.Err() != nil { // a worker became free because of it
			<-busy
			return false
		}
		return true
	case <-f.free.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// deadline returns until when an emission waits for a worker.
func (f *Firing) deadline(intended eventmeter.Instant) eventmeter.Instant {
	return intended.Add(f.o.Tolerance + time.Duration(f.slack.Load()))
}

func (f *Firing) stamp(d due) Emission {
	f.fired.Add(1)
	return f.o.Stamper.Stamp(f.number(d.n), d.intended, d.measured)
}

func (f *Firing) number(n uint64) uint64 {
	if f.o.Number == nil {
		return n
	}
	return f.o.Number(n)
}

// drop counts an emission as not published.
func (f *Firing) drop(d due) {
	f.dropped.Add(1)
	n := f.number(d.n)
	f.o.Recorder.Dropped(eventmeter.Drop{Emission: n, Source: f.o.Stamper.source(n), Intended: d.intended, Measured: d.measured})
}

// resolve records the outcome of an emission.
func (f *Firing) resolve(emission Emission, outcome eventmeter.Outcome) {
	f.o.Recorder.Resolved(emission.Stamp, outcome, f.o.Clock.Now())
	switch outcome {
	case eventmeter.Accepted:
		f.accepted.Add(1)
	case eventmeter.Refused:
		f.refused.Add(1)
	default:
		f.uncertain.Add(1)
	}
}

// Counts returns the counts so far. Those of a running firing are not of the same
// instant.
func (f *Firing) Counts() Counts {
	return Counts{
		Fired:     f.fired.Load(),
		Dropped:   f.dropped.Load(),
		Accepted:  f.accepted.Load(),
		Uncertain: f.uncertain.Load(),
		Refused:   f.refused.Load(),
	}
}

// LoopOptions are the options of a [Loop].
type LoopOptions struct {
	// Fire sends one emission and returns its outcome. Up to Workers goroutines
	// call it at once. It must return by itself: its context has the values of
	// the loop's context but not its cancellation, so that the outcome is known
	// even when a run is cancelled.
	Fire func(ctx context.Context, emission Emission) eventmeter.Outcome
	// Workers bounds the emissions in flight; 0 means [DefaultWorkers].
	Workers int
}

// Loop publishes the emissions of f, each at its time, until the schedule or ctx
// ends. It waits for the emissions in flight and returns the counts of f. An emission
// that is due while all workers are busy waits for one of them for f's tolerance and
// is then dropped.
//
// The goroutine of the caller does the pacing. Workers are started when they are
// needed and end before Loop returns.
func Loop(ctx context.Context, f *Firing, o LoopOptions) Counts {
	p := newPool(ctx, f, o)
	for n := uint64(0); ; n++ {
		d, ok := f.wait(ctx, n)
		if !ok {
			break
		}
		if f.admit(ctx, d, p.busy) {
			p.send(d)
		}
	}
	return p.end()
}

// pool is the workers of one loop.
type pool struct {
	f    *Firing
	fire func(context.Context, Emission) eventmeter.Outcome
	ctx  context.Context
	wg   sync.WaitGroup

	// busy holds a token for every emission that was admitted and is not resolved;
	// its capacity is Workers. queue has the same capacity, so sends never block.
	busy  chan struct{}
	queue chan due

	started int // workers; used by the pacing goroutine only
}

func newPool(ctx context.Context, f *Firing, o LoopOptions) *pool {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	return &pool{
		f:     f,
		fire:  o.Fire,
		ctx:   context.WithoutCancel(ctx),
		busy:  make(chan struct{}, o.Workers),
		queue: make(chan due, o.Workers),
	}
}

// end waits for the emissions in flight.
func (p *pool) end() Counts {
	close(p.queue)
	p.wg.Wait()
	return p.f.Counts()
}

// send passes an emission that has a token to a worker. Only workers take tokens
// out, so with at least as many workers as tokens each emission has a worker.
func (p *pool) send(d due) {
	if p.started < len(p.busy) {
		p.started++
		p.wg.Go(crash.Guarded(p.work))
	}
	p.queue <- d
}

func (p *pool) work() {
	for d := range p.queue {
		emission := p.f.stamp(d)
		p.f.resolve(emission, p.fire(p.ctx, emission))
		<-p.busy
	}
}
