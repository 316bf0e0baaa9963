package run

import (
	"testing"
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
