package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

// finish sets the figure's change, except for the finding.
func (p *plan) finish(it *item) {
	c := &it.change
	c.Figure, c.Per, c.Unit = it.figure.path, it.figure.per, it.figure.unit
	if it.reason != "" {
		p.show(it)
		return
	}
	e := &it.est
	c.A, c.B = number(e.a), number(e.b)
	c.Effect, c.Absolute = number(e.effect), e.absolute
	c.Low, c.High, c.P = number(e.low), number(e.high), number(e.p)
	c.Detectable = number(p.detectable(e))
}

// show sets the values of a figure that cannot be tested.
func (p *plan) show(it *item) {
	c := &it.change
	c.Reason = it.reason
	a, b := it.values[0], it.values[1]
	if it.counts[0] != nil || len(a) == 0 || len(b) == 0 {
		return
	}
	if it.figure.tag != "" && (slices.Contains(a, 0) || slices.Contains(b, 0)) {
		return // a quantile of nothing
	}
	ma, mb := median(slices.Sorted(slices.Values(a))), median(slices.Sorted(slices.Values(b)))
	c.A, c.B = &ma, &mb
	c.Absolute = ma == 0
	if c.Absolute {
		c.Effect = number(mb - ma)
	} else {
		c.Effect = number(mb/ma - 1)
	}
}

// detectable is the smallest effect that would be found with probability power at the given noise:
// it must be significant within the family, and at least MinEffect.
func (p *plan) detectable(e *estimate) float64 {
	if e.detectable > 0 {
		return e.detectable
	}
	quantile := func(q float64) float64 {
		if e.df > 0 {
			return dist.StudentQuantile(q, e.df)
		}
		return dist.NormalQuantile(q)
	}
	often := quantile(power) * e.noise
	d := quantile(1-p.level()/2)*e.noise + often
	if e.absolute {
		return d
	}
	return math.Expm1(max(d+e.allowance, math.Log1p(p.opts.MinEffect)+often))
}

// judge sets the finding.
func (p *plan) judge(it *item) {
	c, o := &it.change, p.opts
	c.Finding = NotEnough
	if c.Effect == nil {
		return
	}
	if *c.A == 0 && *c.B == 0 {
		c.Finding = Same
		c.Reason = "none on either side"
		return
	}
	if it.reason != "" {
		return
	}
	small := !c.Absolute && math.Abs(*c.Effect) < o.MinEffect
	significant := c.Adjusted != nil && *c.Adjusted <= o.Alpha
	within := !c.Absolute && c.Low != nil && c.High != nil && *c.Low >= -resolution && *c.High <= resolution
	switch {
	case significant && !small && *c.Effect < 0:
		c.Finding = Better
	case significant && !small:
		c.Finding = Worse
	case significant:
		c.Finding = Same
		c.Reason = fmt.Sprintf("a difference below %.3g %%, which does not matter", 100*o.MinEffect)
	case within:
		c.Finding = Same
	case !it.tested:
		c.Reason = "so little data that no difference could be significant"
	default:
		c.Reason = fmt.Sprintf("neither a difference nor the lack of one above %.3g %% can be shown", 100*resolution)
	}
}

// testable returns which tests can pass at all when alpha is shared between
// those that can, after R. E. Tarone (1990): a test whose smallest possible
// p-value is too large only costs the others their share. least are those
// p-values; they depend on the amount of data, never on the outcome, which is
// what makes it right to leave a test out.
func testable(least []float64, alpha float64) []bool {
	out := make([]bool, len(least))
	for k := 1; k <= len(least); k++ {
		n := 0
		for i, p := range least {
			out[i] = p <= alpha/float64(k)
			if out[i] {
				n++
			}
		}
		if n <= k {
			break
		}
	}
	return out
}

// holm returns p-values adjusted for all of them together, after S. Holm
// (1979): those up to alpha are significant, and the chance that any of them
// is so by accident is at most alpha.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	out := make([]float64, len(ps))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = largest
	}
	return out
}
