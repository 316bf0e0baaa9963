package loadgen

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/sinks"
)

// DefaultConcurrency is the number of subscriptions that may be opening at once.
const DefaultConcurrency = settings.AttachConcurrency

// AttachOptions are the options of [Attach].
type AttachOptions struct {
	// N is the number of subscriptions: indices 0 to N-1.
	N int
	// Rate per second; 0 means as fast as Concurrency allows. Unlike emissions,
	// subscriptions that are due while all workers are busy are opened later,
	// not dropped.
	Rate float64
	// Concurrency bounds the subscriptions that are opening at once; 0 means
	// [DefaultConcurrency].
	Concurrency int
	// Continue makes Attach open the rest after a failure. Otherwise a failure
	// cancels the subscriptions that are opening, and no more are begun.
	Continue bool
}

// AttachStats counts the outcomes of an [Attach].
type AttachStats struct {
	// Begun = Attached + Failed.
	Begun, Attached, Failed int
	// FirstError is the error of the first failure.
	FirstError error
}

// Attach calls attach for the indices 0 to N-1, spread over time, and returns when
// all calls have returned. The error is that of the first failure, or the cause of
// the context's end. With Continue failures are only counted.
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
				stats.FirstError = cmp.Or(stats.FirstError, err)
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
		if at, ok := pacing.At(uint64(i)); ok && !sinks.Sleep(ctx, at-time.Since(start)) || ctx.Err() != nil {
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

// ChurnOptions are the options of [Churn].
type ChurnOptions struct {
	// N is the number of subscriptions: indices 0 to N-1.
	N int
	// Rate is the number of subscriptions that are detached per second; 0 means
	// none.
	Rate float64
	// Pause is how long a subscription stays detached.
	Pause time.Duration
	// Seed determines the order in which subscriptions are picked. Every one is
	// picked once before any is picked again, in another order.
	Seed uint64
	// Stop, if not nil, ends the churn when it is closed: no more subscriptions are
	// detached, those that are detached stay so, and Churn waits for calls in flight.
	Stop <-chan struct{}
	// Detach and Attach end and reopen a subscription. There are never
	// two calls at once for the same index. Required.
	Detach, Attach func(ctx context.Context, i int) error
}

// ChurnStats counts what a churn did.
type ChurnStats struct {
	// Detached and Attached count calls that succeeded, Failed calls that did not.
	// A subscription that could not be detached stays attached. One that could not
	// be reopened stays detached and is not picked again.
	Detached, Attached, Failed int
	// Skipped is how often the picked subscription was still detached.
	Skipped int
	// FirstError is the error of the first failure.
	FirstError error
}

// Churn detaches subscriptions and reopens them until Stop is closed or ctx ends.
// The end of ctx also cancels the calls in flight. Churn returns when all its
// goroutines have ended.
func Churn(ctx context.Context, o ChurnOptions) ChurnStats {
	c := &churn{o: o, away: make([]bool, max(o.N, 0))}
	pacing := Constant{Rate: o.Rate}
	if o.N <= 0 || !positive(o.Rate) {
		return c.stats
	}
	gentle, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := make(chan struct{})
	go func() {
		defer crash.Guard()
		defer close(watch)
		select {
		case <-o.Stop:
			cancel()
		case <-gentle.Done():
		}
	}()
	defer func() { <-watch }()
	defer cancel()

	order := rand.New(rand.NewPCG(o.Seed, 0x636875726e)) // independent of other uses of the seed
	var picks []int
	start := time.Now()
	for n := uint64(1); ; n++ {
		// n begins at 1: the first subscription is detached after one interval.
		at, ok := pacing.At(n)
		if !ok || !sinks.Sleep(gentle, at-time.Since(start)) {
			break
		}
		if len(picks) == 0 {
			picks = order.Perm(o.N)
		}
		i := picks[0]
		picks = picks[1:]
		if c.leave(i) {
			c.wg.Go(func() {
				defer crash.Guard()
				c.cycle(ctx, gentle, i)
			})
		}
	}
	c.wg.Wait()
	return c.stats
}

type churn struct {
	o  ChurnOptions
	wg sync.WaitGroup

	mu    sync.Mutex
	away  []bool
	stats ChurnStats
}

// leave marks subscription i as away; false if it is away already.
func (c *churn) leave(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away[i] {
		c.stats.Skipped++
		return false
	}
	c.away[i] = true
	return true
}

func (c *churn) cycle(ctx, gentle context.Context, i int) {
	if !c.done(c.o.Detach(ctx, i), &c.stats.Detached) {
		c.back(i)
		return
	}
	if !sinks.Sleep(gentle, c.o.Pause) {
		return
	}
	if c.done(c.o.Attach(ctx, i), &c.stats.Attached) {
		c.back(i)
	}
}

func (c *churn) done(err error, count *int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		*count++
		return true
	}
	c.stats.Failed++
	if c.stats.FirstError == nil {
		c.stats.FirstError = err
	}
	return false
}

func (c *churn) back(i int) {
	c.mu.Lock()
	c.away[i] = false
	c.mu.Unlock()
}
