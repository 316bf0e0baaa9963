package loadgen

import (
	"context"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/defaults"
)

// DefaultConcurrency is how many subscriptions may be on their way at once.
const DefaultConcurrency = defaults.AttachConcurrency

// AttachOptions say how fast subscriptions are opened.
type AttachOptions struct {
	// N is how many there are: indices 0 to N-1.
	N int
	// Rate per second; 0 means as fast as Concurrency allows. Unlike emissions,
	// subscriptions that are due while all workers are busy are opened later,
	// not dropped.
	Rate float64
	// Concurrency bounds how many are on their way at once; 0 means
	// [DefaultConcurrency].
	Concurrency int
	// Continue opens the rest when one has failed. Otherwise no more are begun
	// after a failure, and those on their way are cancelled.
	Continue bool
}

// AttachStats counts what became of the subscriptions.
type AttachStats struct {
	// Begun = Attached + Failed.
	Begun, Attached, Failed int
}

// Attach calls attach for every index from 0 on, spread over time, and returns
// when all calls have returned. The error is that of the first failure, or of
// the context; with Continue the failures are only counted.
func Attach(ctx context.Context, o AttachOptions, attach func(ctx context.Context, i int) error) (AttachStats, error) {
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		stats AttachStats
	)
	next := make(chan int)
	work := func() {
		for i := range next {
			err := attach(ctx, i)
			mu.Lock()
			if err == nil {
				stats.Attached++
			} else {
				stats.Failed++
			}
			mu.Unlock()
			if err != nil && !o.Continue {
				cancel(err) // the first cause stays
			}
		}
	}
	pacing := Constant{Rate: o.Rate}
	start := time.Now()
	for i := range o.N {
		if at, ok := pacing.At(uint64(i)); ok && !pause(ctx, at-time.Since(start)) || ctx.Err() != nil {
			break
		}
		if i < o.Concurrency {
			wg.Go(crash.Guarded(work))
		}
		select {
		case next <- i:
			stats.Begun++
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return stats, context.Cause(ctx)
}

// pause returns false when ctx ended before d was over.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
