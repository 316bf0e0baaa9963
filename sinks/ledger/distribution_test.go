package ledger

import (
	"reflect"
	"testing"
	"time"
)

func TestDistributionsAddUp(t *testing.T) {
	d := func(pairs ...int) (out Distribution) {
		for i := 0; i < len(pairs); i += 2 {
			out.Buckets = append(
				out.Buckets,
				Bucket{Low: time.Duration(pairs[i]), High: time.Duration(pairs[i] + 1), Count: int64(pairs[i+1])},
			)
			out.Count += int64(pairs[i+1])
		}
		return out
	}
	for _, c := range []struct{ a, b, want Distribution }{
		{d(), d(), d()},
		{d(1, 2), d(), d(1, 2)},
		{d(), d(1, 2), d(1, 2)},
		{d(1, 2, 5, 1), d(3, 4, 5, 6, 9, 1), d(1, 2, 3, 4, 5, 7, 9, 1)},
	} {
		if got := c.a.Plus(c.b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v and %v are %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
