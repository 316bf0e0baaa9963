package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ measure, want, recorded time.Duration }{
		{0, 100 * time.Millisecond, 100 * time.Millisecond},
		{time.Second, 100 * time.Millisecond, 100 * time.Millisecond},
		{30 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond},
		{2 * time.Minute, time.Second, time.Second},
		{2*time.Minute + 1, time.Second, 2 * time.Second},
		{10 * time.Minute, time.Second, 5 * time.Second},
		{time.Hour, time.Second, 30 * time.Second},
		{24 * time.Hour, time.Second, 12 * time.Minute},
	} {
		if got := interval(c.measure); got != c.want {
			t.Errorf("%v: got %v, want %v", c.measure, got, c.want)
		}
		if got := recorded(c.measure); got != c.recorded {
			t.Errorf("%v: got recorded intervals of %v, want %v", c.measure, got, c.recorded)
		}
	}
}

// TestAwaitKnown: the phase ends when a condition held while it became longer by a quarter, not
// before it is as long as it has to be at the least.
func TestAwaitKnown(t *testing.T) {
	const warmup = 2 * time.Second
	for _, c := range []struct {
		name        string
		least, most time.Duration
		narrowFrom  time.Duration
		cost        time.Duration // of a look
		wideAt      int           // number of a look that finds nothing; 0 = none
		want        time.Duration // 0 = it is not known before most
		looks       int
	}{
		{name: "at once", least: 10 * time.Second, most: time.Minute, want: 10 * time.Second, looks: 3},
		{name: "short", least: 100 * time.Millisecond, most: time.Minute, want: 1080 * time.Millisecond, looks: 2},
		{name: "long", least: 100 * time.Second, most: time.Hour, want: 102102525 * time.Microsecond, looks: 6},
		{name: "later", least: 10 * time.Second, most: time.Minute, narrowFrom: 13500 * time.Millisecond, want: 18 * time.Second, looks: 11},
		{name: "chance", least: 10 * time.Second, most: time.Minute, wideAt: 2, want: 13 * time.Second, looks: 6},
		{name: "never", least: 10 * time.Second, most: 100 * time.Second, narrowFrom: time.Hour, looks: 45},
		{name: "costly", least: 10 * time.Second, most: time.Hour, cost: 100 * time.Millisecond, want: 18200 * time.Millisecond, looks: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), warmup+c.most)
				defer cancel()
				from, looks := time.Now().Add(warmup), 0
				known := awaitKnown(ctx, from, c.least, func() bool {
					looks++
					time.Sleep(c.cost)
					return looks != c.wideAt && time.Since(from) >= c.narrowFrom
				})
				if known != (c.want != 0) || known && time.Since(from) != c.want || looks != c.looks {
					t.Errorf("known %v after %v and %d looks; want %v and %d", known, time.Since(from), looks, c.want, c.looks)
				}
			})
		})
	}
}
