package target

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestCapacity: a bucket gives its burst at once, then exactly its rate, and
// after a pause no more than its burst again.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(100, 5)
		start := time.Now()
		for i, want := range []time.Duration{0, 0, 0, 0, 0, 10, 20, 30} {
			if !c.take(t.Context(), nil, 1) {
				t.Fatal("refused")
			}
			if got := time.Since(start); got != want*time.Millisecond {
				t.Errorf("token %d after %v, want %v ms", i, got, want)
			}
		}
		time.Sleep(time.Hour)
		start = time.Now()
		if !c.take(t.Context(), nil, 25) {
			t.Fatal("refused")
		}
		if got := time.Since(start); got != 200*time.Millisecond {
			t.Errorf("25 tokens of a full bucket of 5 took %v, want 200 ms", got)
		}
	})
}

// TestCapacityOfACrowd: however many wait, and however many of them give up,
// the rest get exactly the rate, in the order in which they came.
func TestCapacityOfACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(100, 1)
		start := time.Now()
		var mu sync.Mutex
		var served []int
		var wg sync.WaitGroup
		for i := range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if i%3 == 2 { // gives up long before its turn
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond/2)
			}
			wg.Go(func() {
				defer cancel()
				if c.take(ctx, nil, 1) {
					mu.Lock()
					served = append(served, i)
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := time.Since(start); len(served) != 200 || got != 1990*time.Millisecond {
			t.Errorf("%d served in %v, want 200 in 1.99 s", len(served), got)
		}
		for i := 1; i < len(served); i++ {
			if served[i] < served[i-1] {
				t.Fatalf("%d was served after %d", served[i], served[i-1])
			}
		}
	})
}

func TestCapacityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(1, 1)
		stop := make(chan struct{})
		c.take(t.Context(), stop, 1)
		over := make(chan bool, 2)
		for range 2 { // one at the head of the line, one behind it
			go func() { over <- c.take(t.Context(), stop, 1) }()
		}
		synctest.Wait()
		close(stop)
		if <-over || <-over {
			t.Error("a token after the end")
		}
		if !(*capacity)(nil).take(t.Context(), nil, 1000) {
			t.Error("no capacity is unlimited")
		}
	})
}
