package refserver

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

// TestCapacityOfACrowd: however many callers wait or give up, the others get
// exactly the rate, in the order of their arrival.
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
		if first, second := <-over, <-over; first || second {
			t.Error("a token after the end")
		}
		if !(*capacity)(nil).take(t.Context(), nil, 1000) {
			t.Error("no capacity is unlimited")
		}
	})
}

// TestCapacityIsOfAllModes: streams, webhooks and polls share the tokens, and
// together get exactly the rate.
func TestCapacityIsOfAllModes(t *testing.T) {
	bubble(t, Options{Capacity: 10, CapacityBurst: 1, Heartbeat: time.Hour}, func(t *testing.T, s *Server, f *fakeReceiver) {
		result(t, s, "t", "events/subscribe", subscription("tick", testSecret, ""))
		w, stop := openStream(s, `{"name":"tick","cursor":null}`)
		defer stop()
		synctest.Wait()
		cursor := result(t, s, "t", "events/poll", `{"name":"tick","cursor":null}`)["cursor"].(string)
		start := time.Now()
		for range 10 {
			publish(t, s, "tick", `{}`)
		}
		got := result(t, s, "t", "events/poll", `{"name":"tick","cursor":"`+cursor+`"}`)
		if n := len(got["events"].([]any)); n != 10 {
			t.Errorf("%d events polled", n)
		}
		// Twenty more wait behind these: 30 deliveries at 10 per second, the
		// first at once.
		time.Sleep(2900*time.Millisecond - time.Since(start))
		synctest.Wait()
		if d := s.Stats().Deliveries; d != (ByMode{Poll: 10, Push: 10, Webhook: 10}) {
			t.Errorf("after 2.9 s: %+v", d)
		}
		f.mu.Lock()
		last := f.at[len(f.at)-1].Sub(start)
		f.mu.Unlock()
		if last > 2900*time.Millisecond || w.kinds() != "active e-1 e-2 e-3 e-4 e-5 e-6 e-7 e-8 e-9 e-10" {
			t.Errorf("the last webhook after %v, streamed %s", last, w.kinds())
		}
	})
}

// TestOverCapacityQueuesUpToTheBound: events that do not fit a subscriber's
// queue are skipped, counted and announced. A subscriber that leaves has no
// further effect.
func TestOverCapacityQueuesUpToTheBound(t *testing.T) {
	bubble(t, Options{Capacity: 10, CapacityBurst: 1, QueueLen: 3, Heartbeat: time.Hour}, func(t *testing.T, s *Server, _ *fakeReceiver) {
		w, stop := openStream(s, `{"name":"tick","cursor":null}`)
		synctest.Wait()
		for range 10 {
			publish(t, s, "tick", `{}`)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if n := s.Stats().QueueOverflow; n == 0 {
			t.Error("nothing was skipped")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Stats(); n.Deliveries.Push+n.QueueOverflow != 10 {
			t.Errorf("%d delivered and %d skipped of 10: %s", n.Deliveries.Push, n.QueueOverflow, w.kinds())
		}
		for range 10 {
			publish(t, s, "tick", `{}`)
		}
		stop()
		time.Sleep(100 * time.Millisecond)
		v, stop := openStream(s, `{"name":"tick","cursor":null}`)
		defer stop()
		synctest.Wait()
		publish(t, s, "tick", `{}`)
		synctest.Wait()
		if got := v.kinds(); got != "active e-21" {
			t.Errorf("after an overload: %s", got)
		}
	})
}

func TestCapacityOptions(t *testing.T) {
	for _, o := range []Options{{Capacity: -1}, {Capacity: 2e6}, {CapacityBurst: 3}, {Capacity: 5, CapacityBurst: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
