package ledger

import (
	"math"
	"testing"
	"time"
)

// TestTallyLaps counts one bucket past 2^32, in each of the ways in which that
// can come about.
func TestTallyLaps(t *testing.T) {
	const v = int64(5 * time.Millisecond)
	full := func() *tally {
		u := &tally{}
		u.add(v)
		for _, p := range u.pages {
			for i := 0; p != nil && i < len(p); i++ {
				if p[i] == 1 {
					p[i] = math.MaxUint32
				}
			}
		}
		u.n = math.MaxUint32
		return u
	}
	want := func(t *testing.T, u *tally, n int64) {
		t.Helper()
		var got, buckets int64
		u.each(func(_, c int64) { got += c; buckets++ })
		if got != n || buckets != 1 || u.n != n {
			t.Errorf("%d in %d buckets, %d in all; want %d in one", got, buckets, u.n, n)
		}
		if h := u.histogram(); h.TotalCount() != n {
			t.Errorf("the histogram holds %d, want %d", h.TotalCount(), n)
		}
		if q, top := u.quantile(0.5), u.quantile(1); q != top || q < 4*time.Millisecond || q > 6*time.Millisecond {
			t.Errorf("the median is %v, the maximum %v", q, top)
		}
	}
	t.Run("add", func(t *testing.T) {
		u := full()
		u.add(v)
		want(t, u, 1<<32)
		u.add(v)
		want(t, u, 1<<32+1)
	})
	t.Run("merge", func(t *testing.T) {
		u := full()
		u.merge(full())
		want(t, u, 2*math.MaxUint32)
		var all tally
		all.merge(u)
		all.merge(u)
		want(t, &all, 4*math.MaxUint32)
	})
	t.Run("clear", func(t *testing.T) {
		u := full()
		u.add(v)
		u.clear()
		u.add(v)
		want(t, u, 1)
	})
}
