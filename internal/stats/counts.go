package stats

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
	"github.com/eventmeter/eventmeter/results"
)

// tallied is a counting figure in one run: count out of whole, in clusters of related events.
type tallied struct{ count, whole, clusters float64 }

// leastCount returns the smallest p-value that n events in all can give, if b is B's
// share of the exposure.
func leastCount(n, b float64) float64 {
	return min(1, 2*math.Pow(min(b, 1-b), n))
}

// thin adds the runs of each side and returns the size of the clusters, by which the
// counts must be divided to count independent incidents. It is larger if the runs of
// a side differ by more than independent counts would.
func thin(a, b []tallied) (sa, sb tallied, size float64) {
	spread, df := 0.0, 0.0
	for i, side := range [][]tallied{a, b} {
		var s tallied
		for _, r := range side {
			s.count, s.whole, s.clusters = s.count+r.count, s.whole+r.whole, s.clusters+r.clusters
		}
		if s.count > 0 {
			for _, r := range side {
				if want := r.whole * s.clusters / s.whole; want > 0 {
					spread += (r.clusters - want) * (r.clusters - want) / want
				}
			}
			df += float64(len(side) - 1)
		}
		if i == 0 {
			sa = s
		} else {
			sb = s
		}
	}
	size = 1
	if n := sa.clusters + sb.clusters; n > 0 {
		size = max(1, (sa.count+sb.count)/n)
	}
	if df > 0 {
		size *= max(1, spread/df)
	}
	return sa, sb, size
}

// countEstimate compares two rates of rare events exactly: given how many there
// were in all, B's share is binomial when the rates are equal. The interval of
// the ratio is Clopper and Pearson's; where A has none, that of the difference
// combines Garwood's intervals of the two rates. alpha is for detectable.
func countEstimate(a, b []tallied, alpha float64) estimate {
	sa, sb, size := thin(a, b)
	ka, kb := sa.count/size, sb.count/size
	share := sb.whole / (sa.whole + sb.whole)
	e := estimate{a: sa.count / sa.whole, b: sb.count / sb.whole, p: 1}
	if ka+kb > 0 {
		lower, upper := binomialTails(kb, ka+kb, share)
		e.p = min(1, 2*min(lower, upper))
	}
	tail := (1 - confidence) / 2
	if ka > 0 {
		odds := sa.whole / sb.whole
		e.effect = e.b/e.a - 1
		e.low, e.high = -1, math.Inf(1)
		lo, hi := dist.BetaQuantile(tail, kb, ka+1), dist.BetaQuantile(1-tail, kb+1, ka)
		e.low = lo/(1-lo)*odds - 1
		if hi < 1 {
			e.high = hi/(1-hi)*odds - 1
		}
		e.noise = math.Sqrt(1/ka + 1/(ka*sb.whole/sa.whole))
		return e
	}
	e.absolute, e.effect = true, e.b-e.a
	la, ua := poissonBounds(ka, confidence)
	lb, ub := poissonBounds(kb, confidence)
	scaleA, scaleB := size/sa.whole, size/sb.whole
	e.low = e.effect - math.Hypot((kb-lb)*scaleB, (ua-ka)*scaleA)
	e.high = e.effect + math.Hypot((ub-kb)*scaleB, (ka-la)*scaleA)
	// need counts in B and none in A are significant. The detectable rate is the one at which at
	// least need are counted with probability power.
	need := math.Ceil(math.Log(alpha/2) / math.Log(share))
	e.detectable = scaleB * dist.Bisect(0, 10*need+100, func(m float64) float64 { return dist.GammaInc(need, m) - power })
	return e
}

// tally counts one of a lane's counts. Consecutive misses of a subscription are one incident.
// What one event causes at all subscriptions is about one, too.
func tally(l *results.Lane, n results.LaneCount) tallied {
	t := tallied{count: float64(n.Read(l)), whole: float64(n.Of(l))}
	switch {
	case t.count == 0:
	case n.Loss:
		incidents := float64(max(l.Gaps.Incidents, 1)) * t.count / float64(l.Lost())
		t.clusters = clustersOf(l.Examples, string(n.Example), min(incidents, t.count))
	case n.Example != "":
		t.clusters = clustersOf(l.Examples, string(n.Example), t.count)
	default:
		t.clusters = max(1, t.count/float64(max(l.Ready.Active, 1)))
	}
	return t
}

// duplicatesOf counts the unrequested copies of a lane.
func duplicatesOf(l *results.Lane) tallied {
	t := tallied{count: float64(l.Duplicates.SameEvent + l.Duplicates.SameEmission), whole: float64(l.Delivered)}
	if t.count > 0 {
		t.clusters = clustersOf(l.Examples, "duplicate", t.count)
	}
	return t
}

// clustersOf estimates in how many independent clusters n incidents came, from
// the examples that were kept: the same emissions at several subscriptions are
// one, and so are neighbours at one subscription.
func clustersOf(examples []results.Example, kind string, n float64) float64 {
	var of []results.Example
	for _, e := range examples {
		if e.Kind == kind || strings.HasPrefix(e.Kind, kind+":") {
			of = append(of, e)
		}
	}
	if len(of) == 0 {
		return max(n, 1)
	}
	slices.SortFunc(of, func(x, y results.Example) int {
		return cmp.Or(cmp.Compare(x.Subscription, y.Subscription), cmp.Compare(x.Source, y.Source), cmp.Compare(x.FromSeq, y.FromSeq))
	})
	type place struct {
		source int
		seq    int64
	}
	places := map[place]bool{}
	for i, e := range of {
		if i > 0 && of[i-1].Subscription == e.Subscription && of[i-1].Source == e.Source && e.FromSeq <= of[i-1].ToSeq+1 {
			continue
		}
		places[place{e.Source, e.FromSeq}] = true
	}
	distinct := float64(len(places))
	share := distinct / float64(len(of))
	if share < 0.2 || float64(len(of)) >= n {
		// All alike, or complete: the kept examples represent everything.
		return min(max(distinct, 1), max(n, 1))
	}
	return max(1, n*share)
}
