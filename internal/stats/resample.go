package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

// estimate is what a method found out about one figure.
type estimate struct {
	a, b      float64
	effect    float64
	absolute  bool
	low, high float64 // of the effect; infinite: without bound
	p         float64
	// noise is the standard error of the effect, in logarithms where it is
	// relative; df are the degrees of freedom behind it, 0 for many.
	noise, df float64
	// allowance is how far equal sides may be apart, in logarithms.
	allowance float64
	// typical is set if the effect is that of a typical stretch of a duet.
	typical bool
	// detectable, where a method computes it itself, else 0.
	detectable float64
}

// relative turns a difference of logarithms into a relative change.
func relative(d float64) float64 { return math.Expm1(d) }

// permuted returns the two-sided p-value of a permutation test for each quantile. It is never 0,
// because the observed sides count as one permutation.
func (p *pool) permuted(deals int, rng *rand.Rand) quantileValues {
	a, b := p.side(false), p.side(true)
	cards := slices.Concat(a, b)
	observed := logDistance(p.quantiles(a), p.quantiles(b))
	n := min(len(a), len(b))
	var hits [len(quantilesCompared)]int
	for range deals {
		// Only the part of a shuffle that separates the sides is done.
		if p.paired {
			p.dealtPairs(cards[:n], cards[n:], rng)
		} else {
			for i := range n {
				j := i + rng.IntN(len(cards)-i)
				cards[i], cards[j] = cards[j], cards[i]
			}
		}
		d := logDistance(p.quantiles(cards[:n]), p.quantiles(cards[n:]))
		for i := range hits {
			if math.Abs(d[i]) >= math.Abs(observed[i])-1e-12 {
				hits[i]++
			}
		}
	}
	var out quantileValues
	for i, n := range hits {
		out[i] = float64(n+1) / float64(deals+1)
	}
	return out
}

// freedom is the degrees of freedom of all units together; pairs have one difference
// each.
func (p *pool) freedom() float64 {
	if p.paired {
		return max(1, float64(len(p.runs[0]))/p.time-1)
	}
	n := 0
	for _, run := range p.runs {
		n += len(run)
	}
	return max(1, float64(n)/p.time-2)
}

// logDistance is log(b/a).
func logDistance(a, b quantileValues) quantileValues {
	var out quantileValues
	for i := range out {
		out[i] = math.Log(max(b[i], 1)) - math.Log(max(a[i], 1))
	}
	return out
}

// bootstrapped draws runs, and of each drawn run its units, with replacement, or
// pairs of units, and returns log(b/a) of each draw, sorted, by quantile.
func (p *pool) bootstrapped(draws int, rng *rand.Rand) [len(quantilesCompared)][]float64 {
	var out [len(quantilesCompared)][]float64
	for i := range out {
		out[i] = make([]float64, draws)
	}
	var ua, ub []int32
	for d := range draws {
		if p.paired {
			ua, ub = p.drawnPairs(ua[:0], ub[:0], rng)
		} else {
			ua, ub = drawn(ua[:0], p.runs[:p.aRuns], rng), drawn(ub[:0], p.runs[p.aRuns:], rng)
		}
		for i, x := range logDistance(p.quantiles(ua), p.quantiles(ub)) {
			out[i][d] = x
		}
	}
	for i := range out {
		slices.Sort(out[i])
	}
	return out
}

func drawn(units []int32, runs [][]int32, rng *rand.Rand) []int32 {
	for range runs {
		run := runs[rng.IntN(len(runs))]
		for range run {
			units = append(units, run[rng.IntN(len(run))])
		}
	}
	return units
}

// percentiles are the bounds of the bootstrap interval. With few units plain
// percentiles are too narrow, as a normal interval is next to Student's: they
// are moved outwards by the same share (T. Hesterberg's expanded percentiles).
func percentiles(sorted []float64, units, level float64) (lo, hi float64) {
	n := max(units, 2)
	z := math.Sqrt(n/(n-1)) * dist.StudentQuantile(1-(1-level)/2, n-1)
	tail := math.Erfc(z/math.Sqrt2) / 2
	return quantileOf(sorted, tail), quantileOf(sorted, 1-tail)
}

// intervalEstimates judges the latency quantiles of a lane by its intervals.
// perRun are the quantiles of each run, A's and B's.
//
// The p-value is the larger of two: that of the permutations, and Student's for the distance in
// standard errors of the bootstrap, with as many units as are independent. Only the second accounts
// for correlated neighbouring units.
func (p *pool) intervalEstimates(perRun [2][]quantileValues, deals, draws int, rng *rand.Rand) [len(quantilesCompared)]estimate {
	a, b := p.side(false), p.side(true)
	qa, qb := p.quantiles(a), p.quantiles(b)
	ps := p.permuted(deals, rng)
	boot := p.bootstrapped(draws, rng)
	level := confidence
	if p.paired {
		level = 1 - (1-confidence)/2 // for each of two estimates
	}
	var out [len(quantilesCompared)]estimate
	for i := range out {
		e := estimate{a: qa[i], b: qb[i], effect: relative(logDistance(qa, qb)[i]), p: ps[i]}
		lo, hi := percentiles(boot[i], float64(min(len(a), len(b)))/p.time, level)
		// Draws of single units ignore that neighbours are correlated.
		d, wide := logDistance(qa, qb)[i], math.Sqrt(p.time)
		lo, hi = d+(lo-d)*wide, d+(hi-d)*wide
		e.noise, e.df = wide*math.Sqrt(squares(boot[i])/float64(len(boot[i])-1)), p.freedom()
		e.allowance = math.Log1p(p.allowance / max(min(qa[i], qb[i]), 1))
		if beyond := max(math.Abs(d)-e.allowance, 0); e.noise > 0 {
			e.p = max(e.p, dist.StudentTail(beyond/e.noise, e.df))
		} else if beyond == 0 {
			e.p = 1
		}
		lo, hi = lo-e.allowance, hi+e.allowance
		if len(perRun[0])+len(perRun[1]) > 2 {
			t := pooled(logs(perRun[0], i), logs(perRun[1], i))
			e.p = max(e.p, t.p)
			half := t.noise * dist.StudentQuantile(1-(1-confidence)/2, t.df)
			lo, hi = min(lo, d-half), max(hi, d+half)
			if t.noise > e.noise {
				e.noise, e.df = t.noise, t.df
			}
		}
		e.low, e.high = min(relative(lo), e.effect), max(relative(hi), e.effect)
		if p.paired {
			e = p.better(i, level, e)
		}
		out[i] = e
	}
	return out
}

func logs(runs []quantileValues, i int) []float64 {
	out := make([]float64, len(runs))
	for k, q := range runs {
		out[k] = math.Log(max(q[i], 1))
	}
	return out
}
