package stats

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

func tailOf(r tResult) float64 {
	switch {
	case r.diff == 0:
		return 1
	case r.noise == 0:
		return 0
	}
	return dist.StudentTail(math.Abs(r.diff)/r.noise, r.df)
}

// leastU is the smallest p-value that Mann-Whitney's test can give.
func leastU(na, nb int) float64 { return min(1, 2/choose(na+nb, na)) }

// runEstimate judges a figure by its values in 4 or more runs on each side. The
// value of a side is the median of its runs. Positive figures are compared by
// ratio, others by difference. rank chooses Mann-Whitney's test, else Welch's.
func runEstimate(a, b []float64, rank bool) estimate {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	e := estimate{a: median(a), b: median(b)}
	e.absolute = a[0] <= 0 || b[0] <= 0
	d := e.b - e.a
	if !e.absolute {
		for _, xs := range [][]float64{a, b} {
			for i := range xs {
				xs[i] = math.Log(xs[i])
			}
		}
		d = math.Log(e.b) - math.Log(e.a)
	}
	t := welch(a, b)
	e.noise, e.df, e.p = t.noise, t.df, t.p
	half := t.noise * dist.StudentQuantile(1-(1-confidence)/2, t.df)
	lo, hi := t.diff-half, t.diff+half
	if rank {
		// benchmath asks for values of its own, and takes ties into account.
		limits := benchmath.DefaultThresholds
		x, y := benchmath.NewSample(slices.Clone(a), &limits), benchmath.NewSample(slices.Clone(b), &limits)
		e.p = benchmath.AssumeNothing.Compare(x, y).P
		lo, hi = rankInterval(a, b)
		// The rank test needs this many more runs where noise is normal.
		e.noise /= math.Sqrt(3 / math.Pi)
	}
	lo, hi = min(lo, d), max(hi, d)
	e.effect, e.low, e.high = d, lo, hi
	switch {
	case !e.absolute:
		e.effect, e.low, e.high = relative(d), relative(lo), relative(hi)
	case e.a > 0:
		// Some run had none, so there were no logarithms; the side as a whole
		// still has something to be relative to.
		e.effect, e.low, e.high, e.noise = d/e.a, lo/e.a, hi/e.a, e.noise/e.a
		e.absolute = false
	}
	return e
}

// rankInterval is the confidence interval of a shift that belongs to
// Mann-Whitney's test: of all differences between a run of b and one of a, so
// many are left out at each end as the test allows.
func rankInterval(a, b []float64) (lo, hi float64) {
	var ds []float64
	for _, x := range a {
		for _, y := range b {
			ds = append(ds, y-x)
		}
	}
	slices.Sort(ds)
	u := stats.UDist{N1: len(a), N2: len(b)}
	k := 0
	for k < len(ds)/2 && u.CDF(float64(k)) <= (1-confidence)/2 {
		k++
	}
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return ds[k-1], ds[len(ds)-k]
}
