package loadgen

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAttachAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		at := make([]time.Duration, 50)
		stats, err := Attach(t.Context(), AttachOptions{N: 50, Rate: 100}, func(_ context.Context, i int) error {
			at[i] = time.Since(start)
			time.Sleep(15 * time.Millisecond)
			return nil
		})
		if err != nil || stats != (AttachStats{Begun: 50, Attached: 50}) {
			t.Errorf("%+v, %v", stats, err)
		}
		for i, d := range at {
			if d != time.Duration(i)*10*time.Millisecond {
				t.Fatalf("%d was opened at %v", i, d)
			}
		}
	})
}

func TestAttachConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var under, most atomic.Int64
		stats, err := Attach(t.Context(), AttachOptions{N: 40, Concurrency: 8}, func(context.Context, int) error {
			if n := under.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			under.Add(-1)
			return nil
		})
		if err != nil || stats.Attached != 40 || most.Load() != 8 || time.Since(start) != 5*time.Second {
			t.Errorf("%+v, %v, %d at once, in %v", stats, err, most.Load(), time.Since(start))
		}
	})
}

func TestAttachFailures(t *testing.T) {
	for _, goOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			stats, err := Attach(t.Context(), AttachOptions{N: 100, Rate: 10, Continue: goOn}, func(_ context.Context, i int) error {
				if i%10 == 5 {
					return errTest
				}
				return nil
			})
			switch {
			case goOn && (err != nil || stats != AttachStats{Begun: 100, Attached: 90, Failed: 10, FirstError: errTest}):
				t.Errorf("going on: %+v, %v", stats, err)
			case !goOn && (!errors.Is(err, errTest) || stats != AttachStats{Begun: 6, Attached: 5, Failed: 1, FirstError: errTest}):
				t.Errorf("stopping: %+v, %v", stats, err)
			}
		})
	}
}

func TestAttachCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		stats, err := Attach(ctx, AttachOptions{N: 100, Rate: 10}, func(ctx context.Context, _ int) error { return ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) || stats != (AttachStats{Begun: 10, Attached: 10}) {
			t.Errorf("%+v, %v", stats, err)
		}
	})
	if stats, err := Attach(t.Context(), AttachOptions{}, nil); err != nil || stats.Begun != 0 {
		t.Errorf("nobody: %+v, %v", stats, err)
	}
}

// visits checks that nobody is called twice at once, or out of turn.
type visits struct {
	mu    sync.Mutex
	away  map[int]bool
	order []int
	bad   int
}

func (v *visits) leave(_ context.Context, i int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away == nil {
		v.away = map[int]bool{}
	}
	if v.away[i] {
		v.bad++
	}
	v.away[i] = true
	v.order = append(v.order, i)
	return nil
}

func (v *visits) enter(_ context.Context, i int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.away[i] {
		v.bad++
	}
	v.away[i] = false
	return nil
}

func TestChurn(t *testing.T) {
	run := func(seed uint64) (order []int) {
		synctest.Test(t, func(t *testing.T) {
			v := &visits{}
			stop := make(chan struct{})
			time.AfterFunc(10050*time.Millisecond, func() { close(stop) })
			stats := Churn(
				t.Context(),
				ChurnOptions{N: 20, Rate: 4, Pause: 500 * time.Millisecond, Seed: seed, Stop: stop, Detach: v.leave, Attach: v.enter},
			)
			// The 40th leaves at 10 s; the last two are still away at the end.
			if stats != (ChurnStats{Detached: 40, Attached: 38}) || v.bad != 0 {
				t.Errorf("%+v, %d out of turn", stats, v.bad)
			}
			order = v.order
		})
		return order
	}
	a, b, c := run(1), run(1), run(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("order: %v, %v, %v", a, b, c)
	}
	first := slices.Clone(a[:20])
	slices.Sort(first)
	for i, n := range first {
		if i != n {
			t.Fatalf("not everyone was picked once: %v", first)
		}
	}
}

func TestChurnFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &visits{}
		stop := make(chan struct{})
		time.AfterFunc(4500*time.Millisecond, func() { close(stop) })
		stats := Churn(t.Context(), ChurnOptions{N: 2, Rate: 1, Stop: stop,
			Detach: func(ctx context.Context, i int) error {
				if i == 0 {
					return errTest
				}
				return v.leave(ctx, i)
			},
			Attach: func(context.Context, int) error { return errors.New("later") },
		})
		// 0 cannot leave and is tried again; 1 leaves once and stays away.
		if stats.Detached != 1 || stats.Attached != 0 || stats.Failed != 3 || stats.Skipped != 1 || stats.FirstError == nil {
			t.Errorf("%+v", stats)
		}
	})
}

func TestChurnCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		stats := Churn(ctx, ChurnOptions{N: 5, Rate: 1, Detach: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		if stats.Failed != 2 {
			t.Errorf("%+v", stats)
		}
	})
	if stats := Churn(t.Context(), ChurnOptions{N: 5}); stats != (ChurnStats{}) {
		t.Errorf("without a rate: %+v", stats)
	}
}
