//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/upstream"
	"github.com/eventmeter/eventmeter/sinks"
)

const (
	// runID is the run of all probe ids. Each measurement has a target of its own.
	runID = 0x6d627631
	// eventName is the event type that every target offers.
	eventName = "tick"
	// token is any token: the reference server accepts all.
	token = "bench"
	// opening is the number of streams that are opened at a time.
	opening = 256
)

// client is a client in a child process of this program.
type client interface {
	// open returns when every stream is confirmed.
	open(ctx context.Context) error
	// received is the number of events received so far, on all streams.
	received() int64
	// recorder records the events that are published.
	recorder() eventmeter.Recorder
	// begin is called before the paced phase, finish after it, to fill in what only this client knows.
	begin()
	finish(o *outcome)
	close(ctx context.Context) error
}

// base is what reference clients have in common: they count what they receive.
type base struct {
	spec spec
	seen atomic.Int64
}

func (b *base) received() int64               { return b.seen.Load() }
func (b *base) recorder() eventmeter.Recorder { return eventmeter.Tee() }
func (b *base) begin()                        {}
func (b *base) finish(*outcome)               {}

// confirm waits until a counter says that all streams are confirmed.
func (b *base) confirm(ctx context.Context, confirmed *atomic.Int64) error {
	for confirmed.Load() < int64(b.spec.Streams) {
		if sinks.Sleep(ctx, 5*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("%d of %d streams were confirmed: %w", confirmed.Load(), b.spec.Streams, ctx.Err())
		}
	}
	return nil
}

// inside is the role of a client: what open makes counts as its memory.
func inside(open func(spec, *eventmeter.Clock) (client, error)) role {
	return func(ctx context.Context, s spec, send func(reply) error) error {
		if err := send(reply{PID: os.Getpid()}); err != nil {
			return err
		}
		collect()
		sinks.Sleep(ctx, 3*sampled)
		clock := eventmeter.NewClock()
		o := &outcome{Began: time.Now(), Values: map[string]float64{}}
		c, err := open(s, clock)
		if err != nil {
			return err
		}
		err = throughPhases(ctx, s, c, clock, o)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		if err == nil {
			err = send(reply{Outcome: o})
		}
		_ = c.close(closing) // everything is measured
		return err
	}
}

// throughPhases opens the streams, publishes an event that all receive, idles, and publishes at the rate
// of the spec until the last delivery.
func throughPhases(ctx context.Context, s spec, c client, clock *eventmeter.Clock, o *outcome) error {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	err := c.open(limited)
	cancel()
	if err != nil {
		return err
	}
	o.Opened = time.Now()
	p, err := newPublisher(s, clock, c.recorder())
	if err != nil {
		return err
	}
	defer p.inject.Close()
	n := int64(s.Streams)
	if err := p.publish(ctx, 1, loadgen.Trace{Offsets: make([]time.Duration, s.groups())}, time.Hour, 0); err != nil {
		return err
	}
	if got := until(ctx, c, n, s.Timeout); got < n {
		return fmt.Errorf("an event was published, and %d of %d streams received it in time", got, n)
	}
	sinks.Sleep(ctx, 3*sampled)
	o.Full = time.Now()
	if s.Collect {
		collect()
		sinks.Sleep(ctx, 3*sampled)
	}
	sinks.Sleep(ctx, s.Idle)
	o.Paced = time.Now()
	c.begin()
	before := mallocs()
	err = p.publish(ctx, 16, loadgen.Constant{Rate: s.Rate * float64(s.groups())}, 0, s.Paced)
	o.Delivered = until(ctx, c, n+p.reached.Load(), s.Timeout) - n
	o.Ended = time.Now()
	o.Lost = p.reached.Load() - o.Delivered + p.failed
	o.Values["allocations"] = float64(mallocs()-before) / float64(max(1, o.Delivered))
	c.finish(o)
	return err
}

// until waits for a number of deliveries and returns how many there are.
func until(ctx context.Context, c client, want int64, most time.Duration) int64 {
	for end := time.Now().Add(most); ; sinks.Sleep(ctx, 10*time.Millisecond) {
		if got := c.received(); got >= want || ctx.Err() != nil || time.Now().After(end) {
			return got
		}
	}
}

// publisher publishes as a run does.
type publisher struct {
	spec    spec
	clock   *eventmeter.Clock
	rec     eventmeter.Recorder
	stamper *loadgen.Stamper
	inject  *upstream.Inject
	reached atomic.Int64 // deliveries that accepted measured events cause
	failed  int64        // measured events that were not published
}

func newPublisher(s spec, clock *eventmeter.Clock, rec eventmeter.Recorder) (*publisher, error) {
	inject, err := upstream.NewInject(upstream.InjectOptions{
		Admin: s.Admin, Event: eventName,
		Payload: func(dst []byte, source int, _ uint32, probe string) []byte {
			dst = append(append(dst, `{"note":"`...), probe...)
			if s.Groups > 0 {
				dst = strconv.AppendInt(append(dst, `","group":"`...), int64(source), 10)
			}
			return append(dst, `"}`...)
		},
	})
	return &publisher{
		spec: s, clock: clock, rec: rec, stamper: loadgen.NewStamper(clock, rec, runID, s.groups()), inject: inject,
	}, err
}

// publish publishes the events of a schedule. Those that are due after the warm-up are measured.
func (p *publisher) publish(ctx context.Context, workers int, schedule loadgen.Schedule, warmup, duration time.Duration) error {
	firing, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: p.clock, Recorder: p.rec, Stamper: p.stamper, Schedule: schedule, Warmup: warmup, Duration: duration,
		Tolerance: time.Second, // a busy machine must not reduce the load
	})
	if err != nil {
		return err
	}
	stats := loadgen.Loop(ctx, firing, loadgen.LoopOptions{Workers: workers, Fire: p.fire})
	p.failed = int64(stats.Dropped + stats.Refused + stats.Uncertain)
	if stats.Accepted == 0 {
		return fmt.Errorf("the target accepted no event at %s", p.spec.Admin)
	}
	return nil
}

func (p *publisher) fire(ctx context.Context, e loadgen.Emission) eventmeter.Outcome {
	outcome := p.inject.Fire(ctx, e)
	if outcome == eventmeter.Accepted && e.Measured {
		p.reached.Add(int64((p.spec.Streams - int(e.Source) + p.spec.groups() - 1) / p.spec.groups()))
	}
	return outcome
}

// repeat does something at intervals, in a goroutine that ends with stop.
func repeat(every time.Duration, do func()) (stop func()) {
	over := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				do()
			}
		}
	})
	return func() {
		close(over)
		work.Wait()
	}
}

// collect collects garbage and returns its memory to the system.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// mallocs is the number of objects that were allocated so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
