// Package dist has the distributions that the statistics of this program need.
package dist

import (
	"math"

	"github.com/aclements/go-moremath/stats"
)

// Bisect finds where f, which rises, crosses 0 between lo and hi.
func Bisect(lo, hi float64, f func(float64) float64) float64 {
	for range 200 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if f(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + (hi-lo)/2
}

// NormalQuantile is the inverse of the standard normal distribution.
func NormalQuantile(p float64) float64 { return stats.StdNormal.InvCDF(p) }

// StudentTail is the chance that |t| with df degrees of freedom is at least t.
func StudentTail(t, df float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return BetaInc(df/(df+t*t), df/2, 0.5)
}

// StudentQuantile is the inverse of Student's distribution, for p above 0.5.
func StudentQuantile(p, df float64) float64 {
	want := 2 * (1 - p)
	return Bisect(0, 1e9, func(t float64) float64 { return want - StudentTail(t, df) })
}

// BetaQuantile is the inverse of the beta distribution. An argument of 0 is its
// limit, a point at that end.
func BetaQuantile(p, a, b float64) float64 {
	switch {
	case a <= 0:
		return 0
	case b <= 0:
		return 1
	}
	return Bisect(0, 1, func(x float64) float64 { return BetaInc(x, a, b) - p })
}
