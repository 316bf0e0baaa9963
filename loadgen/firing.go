package loadgen

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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
	// Start is when the schedule begins; 0 means when the first emission is waited
	// for. It may lie in the future.
	Start eventmeter.Instant
	// Emissions due before Warmup are published but not measured. Publishing ends
	// just before Warmup+Duration. With a Duration of 0 or less it ends with the
	// schedule.
	Warmup, Duration time.Duration
	// Tolerance is how long a due emission waits for a free worker before it is
	// dropped; 0 means [DefaultTolerance].
	Tolerance time.Duration
	// Number, if not nil, maps the number of an emission of Schedule to its number
	// in the schedule that Schedule is a [Part] of. Stamps and drops have the
	// latter.
	Number func(n uint64) uint64
	// Lag, if not nil, is called for every emission with the delay of the pacing. It
	// is called by the pacing goroutine and must return at once.
	Lag func(time.Duration)
}

// Firing tracks the emissions of one period: when each is due, whether it was
// published, and its outcome. A [Loop] runs it once. Its exported
// methods may be called at any time by any goroutine.
type Firing struct {
	o     FiringOptions
	start atomic.Int64
	timer *time.Timer // of wait
	free  *time.Timer // of reserve

	// slack is how late the last timer fired. The workers are not the cause, so it
	// is added to their tolerance.
	slack atomic.Int64

	fired, dropped               atomic.Uint64
	accepted, uncertain, refused atomic.Uint64

	mu  sync.Mutex
	lag *hdrhistogram.Histogram // ns; guarded by mu
}

// Stats counts the emissions of a firing.
type Stats struct {
	// Scheduled is how many were due: Fired + Dropped.
	Scheduled, Fired, Dropped uint64
	// Accepted, Uncertain and Refused add up to Fired when all are resolved.
	Accepted, Uncertain, Refused uint64
	// Lag is the delay of the pacing, before any wait for a worker.
	LagP50, LagP99, LagMax time.Duration
}

// NewFiring checks the options.
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
	f := &Firing{o: o, lag: hdrhistogram.New(1, int64(time.Minute), 3)}
	f.start.Store(int64(o.Start))
	return f, nil
}

// Start returns when the schedule began, or 0 when it has not.
func (f *Firing) Start() eventmeter.Instant { return eventmeter.Instant(f.start.Load()) }

// due is an emission of the schedule.
type due struct {
	n        uint64
	intended eventmeter.Instant
	measured bool
}

// due returns when emission n is intended and whether it is measured. ok is
// false when the period or the schedule ends before it.
func (f *Firing) due(n uint64) (d due, ok bool) {
	at, ok := f.o.Schedule.At(n)
	if !ok || f.o.Duration > 0 && at >= f.o.Warmup+f.o.Duration {
		return due{}, false
	}
	return due{n, f.Start().Add(at), at >= f.o.Warmup}, true
}

// wait returns when emission n is due, never early. ok is false when firing is
// over or ctx is.
func (f *Firing) wait(ctx context.Context, n uint64) (d due, ok bool) {
	f.start.CompareAndSwap(0, int64(f.o.Clock.Now()))
	d, ok = f.due(n)
	if !ok || ctx.Err() != nil {
		return due{}, false
	}
	now := f.o.Clock.Now()
	if now < d.intended {
		if !f.sleep(ctx, d.intended) {
			return due{}, false
		}
		now = f.o.Clock.Now()
		f.slack.Store(int64(now - d.intended))
	}
	f.lagged(now.Sub(d.intended))
	return d, true
}

// Timers of the Go runtime are up to a millisecond late. So a long sleep ends
// a little early, and other goroutines run for the rest. Short sleeps do not:
// yielding would take a processor that the target may need.
const (
	yieldTime  = time.Millisecond
	yieldAbove = 10 * time.Millisecond
)

func (f *Firing) sleep(ctx context.Context, until eventmeter.Instant) bool {
	d := until.Sub(f.o.Clock.Now())
	if d > yieldAbove {
		if !f.sleepFor(ctx, d-yieldTime) {
			return false
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

// yield lets other goroutines run until then, or until the clock stands still:
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
		f.timer.Stop()
		return false
	}
}

func (f *Firing) lagged(d time.Duration) {
	f.mu.Lock()
	// Clamped instead of omitted, so that the worst delay is included.
	_ = f.lag.RecordValue(min(max(int64(d), 0), f.lag.HighestTrackableValue()))
	f.mu.Unlock()
	if f.o.Lag != nil {
		f.o.Lag(d)
	}
}

// admit takes a place in busy for an emission that is due. The capacity of busy
// is the number of workers, so a place stands for a free worker; whoever sends
// takes the token out when the emission is resolved. admit waits for a place
// until the tolerance is over. Then it counts the emission as dropped and
// returns false. It also returns false, and counts nothing, when ctx is over.
//
// An emission that is admitted is sent, even if the machine takes longer than
// the tolerance to run its worker: that delay belongs to the generator. It is in
// the latencies and in the lag from scheduled to published, and it must not look
// like a lack of workers.
func (f *Firing) admit(ctx context.Context, d due, busy chan<- struct{}) bool {
	if f.reserve(ctx, d.intended, busy) {
		return true
	}
	if ctx.Err() == nil {
		f.drop(d)
	}
	return false
}

func (f *Firing) reserve(ctx context.Context, intended eventmeter.Instant, busy chan<- struct{}) bool {
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
		return true
	case <-f.free.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// deadline is until when an emission waits for a worker.
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

// Stats may be called at any time; the figures of a running firing are each
// right but not of one instant.
func (f *Firing) Stats() Stats {
	s := Stats{
		Fired:     f.fired.Load(),
		Dropped:   f.dropped.Load(),
		Accepted:  f.accepted.Load(),
		Uncertain: f.uncertain.Load(),
		Refused:   f.refused.Load(),
	}
	s.Scheduled = s.Fired + s.Dropped
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lag.TotalCount() > 0 {
		s.LagP50 = time.Duration(f.lag.ValueAtQuantile(50))
		s.LagP99 = time.Duration(f.lag.ValueAtQuantile(99))
		s.LagMax = time.Duration(f.lag.Max())
	}
	return s
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
// ends. It waits for those in flight and returns the figures of f. An emission that is due while all
// workers are busy waits for one of them for f's tolerance and is then dropped;
// it is never sent later than that.
//
// The pacing goroutine is the caller's. Workers are started when they are
// needed and end with the loop.
func Loop(ctx context.Context, f *Firing, o LoopOptions) Stats {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	p := &pool{
		f:     f,
		fire:  o.Fire,
		ctx:   context.WithoutCancel(ctx),
		busy:  make(chan struct{}, o.Workers),
		queue: make(chan due, o.Workers),
	}
	for n := uint64(0); ; n++ {
		d, ok := f.wait(ctx, n)
		if !ok {
			break
		}
		if f.admit(ctx, d, p.busy) {
			p.send(d)
		}
	}
	close(p.queue)
	p.wg.Wait()
	return f.Stats()
}

// pool is the workers of one loop.
type pool struct {
	f    *Firing
	fire func(context.Context, Emission) eventmeter.Outcome
	ctx  context.Context
	wg   sync.WaitGroup

	// busy holds a token for every emission that was handed over and is not done;
	// its capacity is the bound. queue is as long, so it never blocks.
	busy  chan struct{}
	queue chan due

	started int // workers; used by the pacing goroutine only
}

// send gives an emission to a worker, for which it has a token. Only workers return
// tokens, so when there are at least as many workers as tokens, each emission that
// is not done has a worker.
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
