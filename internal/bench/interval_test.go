package bench

import (
	"testing"
	"time"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ measure, want time.Duration }{
		{time.Second, 100 * time.Millisecond},
		{30 * time.Second, 300 * time.Millisecond},
		{10 * time.Minute, time.Second},
		{time.Hour, time.Second},
		{time.Hour + 1, 2 * time.Second},
		{2 * time.Hour, 2 * time.Second},
		{24 * time.Hour, 24 * time.Second},
	} {
		if got := interval(c.measure); got != c.want {
			t.Errorf("%v: got %v, want %v", c.measure, got, c.want)
		}
	}
}
