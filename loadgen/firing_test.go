package loadgen

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a Recorder that keeps what happens to emissions.
type notes struct {
	mu       sync.Mutex
	fired    []eventmeter.Emission
	dropped  []eventmeter.Drop
	resolved map[eventmeter.Stamp]eventmeter.Outcome
	twice    int
}

func (r *notes) Fired(e eventmeter.Emission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired = append(r.fired, e)
}

func (r *notes) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, _ eventmeter.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resolved == nil {
		r.resolved = map[eventmeter.Stamp]eventmeter.Outcome{}
	}
	if _, ok := r.resolved[s]; ok {
		r.twice++
	}
	r.resolved[s] = o
}

func (r *notes) Dropped(d eventmeter.Drop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = append(r.dropped, d)
}

func (*notes) Delivered(eventmeter.Delivery) {}
func (*notes) Noticed(eventmeter.Notice)     {}
func (*notes) Changed(eventmeter.Transition) {}
func (*notes) Called(eventmeter.Call)        {}

// check holds what every run must have: each emission once, each resolved once,
// and sequence numbers that rise with time.
func (r *notes) check(t *testing.T, emissions int) {
	t.Helper()
	if len(r.resolved) != len(r.fired) || r.twice != 0 {
		t.Errorf("%d published, %d resolved, %d of them twice", len(r.fired), len(r.resolved), r.twice)
	}
	var numbers []uint64
	last := map[uint16]eventmeter.Emission{}
	for _, e := range r.fired {
		numbers = append(numbers, e.Number)
		before := last[e.Source]
		if e.Seq != before.Seq+1 || e.Fired < before.Fired || e.Fired < e.Intended {
			t.Errorf("source %d: %+v after %+v", e.Source, e, before)
		}
		last[e.Source] = e
	}
	for _, d := range r.dropped {
		numbers = append(numbers, d.Emission)
	}
	slices.Sort(numbers)
	if len(numbers) != emissions || len(slices.Compact(numbers)) != emissions ||
		emissions > 0 && numbers[emissions-1] != uint64(emissions-1) {
		t.Errorf("%d published and %d dropped, of %d events", len(r.fired), len(r.dropped), emissions)
	}
}

func firing(t *testing.T, r eventmeter.Recorder, sources int, o FiringOptions) *Firing {
	t.Helper()
	o.Clock, o.Recorder = eventmeter.NewClock(), r
	o.Stamper = NewStamper(o.Clock, r, 0xabc, sources)
	f, err := NewFiring(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLoopFiresAll(t *testing.T) {
	for name, c := range map[string]struct {
		schedule            Schedule
		emissions, measured int
	}{
		"bursts":   {Burst{Size: 10, Every: time.Second}, 120, 100},
		"constant": {Constant{Rate: 20}, 240, 200},
		"sine":     {Sine{Mean: 30, Amplitude: 20, Period: time.Second}, 360, 300},
		"ends":     {Ramp{From: 10, To: 0, Over: 4 * time.Second}, 20 + 1, 5 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &notes{}
				f := firing(t, r, 3, FiringOptions{Schedule: c.schedule, Warmup: 2 * time.Second, Duration: 10 * time.Second})
				stats := Loop(t.Context(), f, LoopOptions{Fire: func(_ context.Context, s Emission) eventmeter.Outcome {
					time.Sleep(30 * time.Millisecond)
					return eventmeter.Outcome(1 + s.Number%3)
				}})
				r.check(t, c.emissions)
				if stats.Fired != uint64(c.emissions) || stats.Dropped != 0 ||
					stats.Accepted+stats.Uncertain+stats.Refused != stats.Fired {
					t.Errorf("%+v", stats)
				}
				measured := 0
				for _, e := range r.fired {
					if e.Fired != e.Intended {
						t.Fatalf("event %d is %v late", e.Number, e.Fired.Sub(e.Intended))
					}
					if int(e.Source) != int(e.Number%3) || e.Run != 0xabc {
						t.Fatalf("%+v", e)
					}
					if e.Measured {
						measured++
					}
				}
				if measured != c.measured {
					t.Errorf("%d measured, want %d", measured, c.measured)
				}
			})
		})
	}
}

// One worker is busy for 250 ms with each emission, and one is due every 100 ms:
// emissions 0, 3, 6, ... are fired, two of three dropped.
func TestLoopDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &notes{}
		f := firing(t, r, 2, FiringOptions{Schedule: Constant{Rate: 10}, Duration: 3 * time.Second, Warmup: 150 * time.Millisecond})
		stats := Loop(t.Context(), f, LoopOptions{Workers: 1, Fire: func(context.Context, Emission) eventmeter.Outcome {
			time.Sleep(250 * time.Millisecond)
			return eventmeter.Accepted
		}})
		r.check(t, 32)
		if stats.Fired != 11 || stats.Dropped != 21 {
			t.Errorf("%+v", stats)
		}
		for _, e := range r.fired {
			if e.Number%3 != 0 || e.Fired != e.Intended {
				t.Errorf("%+v", e)
			}
		}
		if d := r.dropped[0]; d.Emission != 1 || d.Source != 1 || d.Measured || d.Intended != f.Start().Add(100*time.Millisecond) {
			t.Errorf("%+v", d)
		}
		if d := r.dropped[1]; d.Emission != 2 || d.Source != 0 || !d.Measured {
			t.Errorf("%+v", d)
		}
	})
}

// A burst of ten for four workers that need 2 ms each: within a tolerance of
// 5 ms each of them can take three.
func TestLoopTolerance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &notes{}
		f := firing(
			t,
			r,
			1,
			FiringOptions{Schedule: Burst{Size: 20, Every: time.Second}, Duration: 2 * time.Second, Tolerance: 5 * time.Millisecond},
		)
		stats := Loop(t.Context(), f, LoopOptions{Workers: 4, Fire: func(context.Context, Emission) eventmeter.Outcome {
			time.Sleep(2 * time.Millisecond)
			return eventmeter.Accepted
		}})
		r.check(t, 40)
		if stats.Fired != 24 || stats.Dropped != 16 {
			t.Errorf("%+v", stats)
		}
		for _, e := range r.fired {
			if late := e.Fired.Sub(e.Intended); late > 5*time.Millisecond {
				t.Errorf("event %d is %v late", e.Number, late)
			}
		}
	})
}

func TestLoopCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &notes{}
		f := firing(t, r, 1, FiringOptions{Schedule: Constant{Rate: 10}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(950*time.Millisecond, cancel)
		stats := Loop(ctx, f, LoopOptions{Fire: func(ctx context.Context, s Emission) eventmeter.Outcome {
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				t.Error("what has left was cancelled")
			}
			return eventmeter.Accepted
		}})
		r.check(t, 10)
		if stats.Accepted != 10 || stats.Dropped != 0 {
			t.Errorf("%+v", stats)
		}
		if _, ok := f.wait(ctx, 10); ok {
			t.Error("goes on after the end")
		}
	})
}

func TestLoopCancelledWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &notes{}
		f := firing(t, r, 1, FiringOptions{Schedule: Constant{Rate: 10}, Tolerance: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(150*time.Millisecond, cancel)
		stats := Loop(ctx, f, LoopOptions{Workers: 1, Fire: func(context.Context, Emission) eventmeter.Outcome {
			time.Sleep(time.Hour)
			return eventmeter.Refused
		}})
		r.check(t, 1)
		if stats.Refused != 1 {
			t.Errorf("%+v", stats)
		}
	})
}

// An emission is dropped when no worker becomes free within the tolerance. One
// that was admitted is sent, however late its worker runs.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &notes{}
		f := firing(t, r, 1, FiringOptions{Schedule: Constant{Rate: 10}, Duration: time.Second, Tolerance: time.Millisecond})
		busy := make(chan struct{}, 1)
		d, ok := f.wait(t.Context(), 0)
		if !ok || !f.admit(t.Context(), d, busy) {
			t.Fatal("no event 0")
		}
		time.Sleep(2 * time.Millisecond) // the worker is slow to run
		emission := f.stamp(d)
		d, _ = f.wait(t.Context(), 1)
		begun := time.Now()
		if f.admit(t.Context(), d, busy) {
			t.Error("event 1 was admitted without a free worker")
		}
		if waited := time.Since(begun); waited != time.Millisecond {
			t.Errorf("event 1 waited %v for a worker", waited)
		}
		f.resolve(emission, eventmeter.Uncertain)
		<-busy
		if _, ok := f.wait(t.Context(), 10); ok {
			t.Error("there is an event 10")
		}
		r.check(t, 2)
		if s := f.Counts(); s.Fired != 1 || s.Dropped != 1 || s.Uncertain != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestFiringStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := eventmeter.NewClock()
		r := &notes{}
		start := clock.Now().Add(time.Minute)
		f, err := NewFiring(
			FiringOptions{
				Clock:    clock,
				Recorder: r,
				Stamper:  NewStamper(clock, r, 1, 0),
				Schedule: Constant{Rate: 1},
				Start:    start,
				Duration: time.Second,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		Loop(t.Context(), f, LoopOptions{Fire: func(context.Context, Emission) eventmeter.Outcome { return eventmeter.Accepted }})
		if len(r.fired) != 1 || r.fired[0].Fired != start {
			t.Errorf("%+v", r.fired)
		}
	})
}

func TestNewFiringRefuses(t *testing.T) {
	clock, r := eventmeter.NewClock(), &notes{}
	good := FiringOptions{Clock: clock, Recorder: r, Stamper: NewStamper(clock, r, 1, 1), Schedule: Constant{1}}
	for _, change := range []func(*FiringOptions){
		func(o *FiringOptions) { o.Clock = nil },
		func(o *FiringOptions) { o.Recorder = nil },
		func(o *FiringOptions) { o.Stamper = nil },
		func(o *FiringOptions) { o.Schedule = nil },
		func(o *FiringOptions) { o.Warmup = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := NewFiring(bad); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

func TestStamperTogether(t *testing.T) {
	r := &notes{}
	clock := eventmeter.NewClock()
	s := NewStamper(clock, r, 1, 4)
	var wg sync.WaitGroup
	for w := range uint64(8) {
		wg.Go(func() {
			for n := w; n < 4000; n += 8 {
				emission := s.Stamp(n, 1, true)
				r.Resolved(emission.Stamp, eventmeter.Accepted, 1)
			}
		})
	}
	wg.Wait()
	r.check(t, 4000)
}

func BenchmarkStamp(b *testing.B) {
	clock := eventmeter.NewClock()
	s := NewStamper(clock, eventmeter.Tee(), 1, 10)
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		s.Stamp(n, 1, true)
		n++
	}
}

var errTest = errors.New("test")

// TestEnd: what was due before the end is published, and nothing that is due later.
func TestEnd(t *testing.T) {
	for name, busy := range map[string]time.Duration{"in time": 0, "behind": 250 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, r := eventmeter.NewClock(), &notes{}
				f, err := NewFiring(
					FiringOptions{
						Clock:    clock,
						Recorder: r,
						Stamper:  NewStamper(clock, r, 1, 1),
						Schedule: Constant{Rate: 10},
						Warmup:   time.Second,
						Duration: time.Hour,
					},
				)
				if err != nil {
					t.Fatal(err)
				}
				began := clock.Now()
				ended := make(chan eventmeter.Instant, 1)
				time.AfterFunc(3050*time.Millisecond, func() { ended <- f.End() })
				s := Loop(t.Context(), f, LoopOptions{Workers: 1, Fire: func(context.Context, Emission) eventmeter.Outcome {
					time.Sleep(busy)
					return eventmeter.Accepted
				}})
				end := <-ended
				if end.Sub(began) != 3050*time.Millisecond || clock.Now().Sub(end) > busy {
					t.Errorf("ended after %v, over %v later", end.Sub(began), clock.Now().Sub(end))
				}
				if s.Fired+s.Dropped != 31 || s.Accepted != s.Fired || busy == 0 && s.Dropped != 0 {
					t.Errorf("%+v", s)
				}
				r.check(t, 31)
			})
		})
	}
}
