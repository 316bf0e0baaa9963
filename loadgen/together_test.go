package loadgen_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// order notes which of two firings published each emission first.
type order struct {
	mu    sync.Mutex
	first []int
	seen  map[uint64][]eventmeter.Instant
}

func (o *order) fire(side int) func(context.Context, loadgen.Emission) eventmeter.Outcome {
	return func(_ context.Context, e loadgen.Emission) eventmeter.Outcome {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.seen[e.Number] = append(o.seen[e.Number], e.Intended); len(o.seen[e.Number]) == 1 {
			o.first = append(o.first, side)
		}
		return eventmeter.Accepted
	}
}

func newFiring(t *testing.T, at time.Time, schedule loadgen.Schedule) *loadgen.Firing {
	t.Helper()
	clock := eventmeter.NewClock()
	rec := eventmeter.Tee()
	f, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: clock, Recorder: rec, Stamper: loadgen.NewStamper(clock, rec, 1, 1),
		Schedule: schedule, Start: clock.Instant(at), Duration: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTogether: both firings publish every emission, at the same instants, and each of
// them is the first about as often.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &order{seen: map[uint64][]eventmeter.Instant{}}
		both := loadgen.NewTogether(2, 1)
		var wg sync.WaitGroup
		for side := range 2 {
			wg.Go(func() {
				at, err := both.Meet(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				f := newFiring(t, at.Add(time.Millisecond), loadgen.Constant{Rate: 400})
				if s := both.Loop(
					t.Context(),
					f,
					loadgen.LoopOptions{Fire: o.fire(side)},
				); s.Fired != 400 || s.Dropped != 0 ||
					s.Accepted != 400 {
					t.Errorf("side %d: %+v", side, s)
				}
			})
		}
		wg.Wait()
		for n, at := range o.seen {
			if len(at) != 2 || at[0] != at[1] {
				t.Fatalf("emission %d was due at %v", n, at)
			}
		}
		second := 0
		for _, side := range o.first {
			second += side
		}
		if second < 120 || second > 280 { // 8 standard deviations
			t.Errorf("side 1 came first in %d of %d", second, len(o.first))
		}
	})
}

// TestTogetherBusy: a firing without a free worker drops its own emissions and none
// of the other's.
func TestTogetherBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := loadgen.NewTogether(2, 1)
		at := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			s := both.Loop(
				t.Context(),
				newFiring(t, at, loadgen.Constant{Rate: 10}),
				loadgen.LoopOptions{Workers: 1, Fire: func(context.Context, loadgen.Emission) eventmeter.Outcome {
					time.Sleep(2 * time.Second)
					return eventmeter.Accepted
				}},
			)
			if s.Fired != 1 || s.Dropped != 9 {
				t.Errorf("busy: %+v", s)
			}
		})
		wg.Go(func() {
			var late atomic.Int64
			s := both.Loop(
				t.Context(),
				newFiring(t, at, loadgen.Constant{Rate: 10}),
				loadgen.LoopOptions{Fire: func(_ context.Context, e loadgen.Emission) eventmeter.Outcome {
					late.Store(max(late.Load(), int64(e.Fired.Sub(e.Intended))))
					return eventmeter.Accepted
				}},
			)
			if s.Fired != 10 || time.Duration(late.Load()) > loadgen.DefaultTolerance {
				t.Errorf("free: %+v, up to %v late", s, time.Duration(late.Load()))
			}
		})
		wg.Wait()
	})
}

// TestTogetherEnds: the end of one side's context ends both, before and after the
// pacing began.
func TestTogetherEnds(t *testing.T) {
	reason := errors.New("gone")
	for _, late := range []time.Duration{0, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			both := loadgen.NewTogether(2, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			loop := func(ctx context.Context) loadgen.Counts {
				return both.Loop(
					ctx,
					newFiring(t, time.Now(), loadgen.Constant{Rate: 100}),
					loadgen.LoopOptions{Fire: func(context.Context, loadgen.Emission) eventmeter.Outcome {
						return eventmeter.Accepted
					}},
				)
			}
			var wg sync.WaitGroup
			wg.Go(func() { loop(ctx) })
			synctest.Wait()
			if late == 0 {
				cancel(reason)
				synctest.Wait()
			} else {
				time.AfterFunc(late, func() { cancel(reason) })
			}
			if s := loop(t.Context()); s.Fired > 60 || late == 0 && s.Fired > 0 {
				t.Errorf("after %v: %+v", late, s)
			}
			wg.Wait()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		if _, err := loadgen.NewTogether(2, 1).Meet(ctx); !errors.Is(err, reason) {
			t.Error(err)
		}
	})
}
