package stats

import (
	"math"

	"github.com/aclements/go-moremath/mathx"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

// power is how often an effect of the detectable size is found.
const power = 0.8

// confidence is the level of every interval that is shown.
const confidence = 0.95

// binomialTails returns P(X <= k) and P(X >= k) for X of n draws with chance p.
// n and k need not be whole: the incomplete beta function interpolates.
func binomialTails(k, n, p float64) (lower, upper float64) {
	lower, upper = 1, 1
	if k < n {
		lower = 1 - dist.BetaInc(p, k+1, n-k)
	}
	if k > 0 {
		upper = dist.BetaInc(p, k, n-k+1)
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
		lo = dist.Bisect(0, top, func(m float64) float64 { return dist.GammaInc(k, m) - tail })
	}
	hi = dist.Bisect(0, top, func(m float64) float64 { return dist.GammaInc(k+1, m) - (1 - tail) })
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
