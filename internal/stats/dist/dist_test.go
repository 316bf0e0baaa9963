package dist

import (
	"math"
	"testing"
)

// Values from tables.
func TestDistributions(t *testing.T) {
	for _, c := range []struct {
		what              string
		got, want, within float64
	}{
		{"t, 0.975, 10 df", StudentQuantile(0.975, 10), 2.2281, 1e-4},
		{"t, 0.975, 1 df", StudentQuantile(0.975, 1), 12.7062, 1e-3},
		{"tail of t 2.2281", StudentTail(2.2281, 10), 0.05, 1e-5},
		{"normal 0.975", NormalQuantile(0.975), 1.95996, 1e-5},
		{"beta(2,3) median", BetaQuantile(0.5, 2, 3), 0.38573, 1e-5},
		{"beta at 0", BetaQuantile(0.5, 0, 3), 0, 0},
		{"beta at 1", BetaQuantile(0.5, 3, 0), 1, 0},
	} {
		if !(math.Abs(c.got-c.want) <= c.within) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}
