package stats

import (
	"math"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"
)

// power is how often an effect of the detectable size is found.
const power = 0.8

// confidence is the level of every interval that is shown.
const confidence = 0.95

// bisect finds where f, which rises, crosses 0 between lo and hi.
func bisect(lo, hi float64, f func(float64) float64) float64 {
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

// normalQuantile is the inverse of the standard normal distribution.
func normalQuantile(p float64) float64 { return stats.StdNormal.InvCDF(p) }

// studentTail is the chance that |t| with df degrees of freedom is at least t.
func studentTail(t, df float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return mathx.BetaInc(df/(df+t*t), df/2, 0.5)
}

// studentQuantile is the inverse of Student's distribution, for p above 0.5.
func studentQuantile(p, df float64) float64 {
	want := 2 * (1 - p)
	return bisect(0, 1e9, func(t float64) float64 { return want - studentTail(t, df) })
}

// betaQuantile is the inverse of the beta distribution. An argument of 0 is its
// limit, a point at that end.
func betaQuantile(p, a, b float64) float64 {
	switch {
	case a <= 0:
		return 0
	case b <= 0:
		return 1
	}
	return bisect(0, 1, func(x float64) float64 { return mathx.BetaInc(x, a, b) - p })
}

// binomialTails returns P(X <= k) and P(X >= k) for X of n draws with chance p.
// n and k need not be whole: the incomplete beta function interpolates.
func binomialTails(k, n, p float64) (lower, upper float64) {
	lower, upper = 1, 1
	if k < n {
		lower = 1 - mathx.BetaInc(p, k+1, n-k)
	}
	if k > 0 {
		upper = mathx.BetaInc(p, k, n-k+1)
	}
	return lower, upper
}

// poissonBounds is Garwood's exact confidence interval of a mean of which k
// were seen.
func poissonBounds(k, level float64) (lo, hi float64) {
	tail := (1 - level) / 2
	top := 10*(k+10) + 100
	if k > 0 {
		// P(X >= k | mean) = GammaInc(k, mean)
		lo = bisect(0, top, func(m float64) float64 { return mathx.GammaInc(k, m) - tail })
	}
	hi = bisect(0, top, func(m float64) float64 { return mathx.GammaInc(k+1, m) - (1 - tail) })
	return lo, hi
}

func mean(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s / float64(len(xs))
}

// squares is the sum of squared distances from the mean.
func squares(xs []float64) float64 {
	m := mean(xs)
	var s float64
	for _, x := range xs {
		s += (x - m) * (x - m)
	}
	return s
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantileOf sorted values, between the two nearest.
func quantileOf(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// choose is the number of ways to take k of n, as a float because it is large.
func choose(n, k int) float64 { return math.Exp(mathx.Lchoose(n, k)) }

// tResult is a t test of two means: of b less a.
type tResult struct{ diff, p, noise, df float64 }

// pooled is Student's test with one variance for both sides, so that a side of
// one run can be compared with one of several.
func pooled(a, b []float64) tResult {
	df := float64(len(a) + len(b) - 2)
	r := tResult{diff: mean(b) - mean(a), df: df}
	r.noise = math.Sqrt((squares(a) + squares(b)) / df * (1/float64(len(a)) + 1/float64(len(b))))
	r.p = tailOf(r)
	return r
}

// welch is the test with a variance for each side.
func welch(a, b []float64) tResult {
	na, nb := float64(len(a)), float64(len(b))
	va, vb := squares(a)/(na-1)/na, squares(b)/(nb-1)/nb
	r := tResult{diff: mean(b) - mean(a), noise: math.Sqrt(va + vb), df: na + nb - 2}
	if va+vb > 0 {
		r.df = (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	}
	r.p = tailOf(r)
	return r
}
