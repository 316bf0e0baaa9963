package stats

import (
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/eventmeter/eventmeter/results"
)

// quantilesCompared are the latency quantiles of a comparison.
var quantilesCompared = [...]float64{0.50, 0.90, 0.95, 0.99, 0.999}

// quantileValues has a value for each of quantilesCompared.
type quantileValues [len(quantilesCompared)]float64

// maxUnits is how many units one run is cut into at most. More would cost time
// and say no more about noise.
const maxUnits = 128

// leastTail is the number of samples, or of events, beyond a quantile on each side below
// which the quantile is mostly chance.
const leastTail = 10

// chunk is the number of values that are summed together in the search for a quantile.
const chunk = 16

// pool holds units of both sides in a form that is quick to add up: a unit is
// a run's interval, or several neighbours. The chunk of 16 values in which a
// quantile of any choice of units lies is found by bisection; only that chunk is
// added up value by value.
type pool struct {
	values []results.Nanos // ascending, every value that occurs
	chunks int
	// Entries of unit u in chunk c are at[u*(chunks+1)+c] up to the next.
	index  []uint32 // of values
	counts []int64
	at     []int32
	// Of unit u, below[u*(chunks+1)+c] samples are in the chunks before c.
	below []int64
	// runs are the units of each run; the first of them belong to side A.
	runs  [][]int32
	aRuns int
	// paired is set if there are two runs with as many units, and a unit of A was
	// measured at the same time as that of B with the same place.
	paired bool
	// allowance is how far equal sides may be apart, in ns; events is how many events
	// a side has.
	allowance, events float64
	// time is how many units in a row are worth one that is independent of all
	// others, see correlationTime.
	time float64
}

// newPool takes the intervals of one tag, run by run.
func newPool(a, b [][]results.LogInterval) *pool {
	var units [][]results.Bucket
	var runs [][]int32
	for _, run := range slices.Concat(a, b) {
		var of []int32
		for _, group := range grouped(run) {
			of = append(of, int32(len(units)))
			units = append(units, mergeBuckets(group))
		}
		runs = append(runs, of)
	}
	p := poolOf(units, runs, len(a))
	p.time = correlationTime(func(q float64) (series [][]float64) {
		for _, run := range runs {
			xs := make([]float64, len(run))
			for i, u := range run {
				xs[i] = math.Log(max(float64(valueAt(units[u], q)), 1))
			}
			series = append(series, xs)
		}
		return series
	})
	return p
}

// poolOf makes the pool of units, which belong to runs.
func poolOf(units [][]results.Bucket, runs [][]int32, aRuns int) *pool {
	p := &pool{runs: runs, aRuns: aRuns}
	places := map[results.Nanos]int{}
	for _, u := range units {
		for _, b := range u {
			places[b.Value] = 0
		}
	}
	p.values = slices.Sorted(maps.Keys(places))
	for i, v := range p.values {
		places[v] = i
	}
	p.chunks = (len(p.values) + chunk - 1) / chunk
	p.below = make([]int64, len(units)*(p.chunks+1))
	for u, buckets := range units {
		chunkOf := -1
		below := p.below[u*(p.chunks+1):][:p.chunks+1]
		for _, b := range buckets {
			place := places[b.Value]
			for ; chunkOf < place/chunk; chunkOf++ {
				p.at = append(p.at, int32(len(p.index)))
			}
			p.index = append(p.index, uint32(place))
			p.counts = append(p.counts, b.Count)
			below[chunkOf+1] += b.Count
		}
		for ; chunkOf < p.chunks; chunkOf++ {
			p.at = append(p.at, int32(len(p.index)))
		}
		for c := range p.chunks {
			below[c+1] += below[c]
		}
	}
	return p
}

// grouped makes the units of a run: its intervals, or where they are many, even
// groups of neighbours.
func grouped(run []results.LogInterval) [][]results.LogInterval {
	n := len(run)
	out := make([][]results.LogInterval, min(n, maxUnits))
	for i := range out {
		out[i] = run[i*n/len(out) : (i+1)*n/len(out)]
	}
	return out
}

func mergeBuckets(group []results.LogInterval) []results.Bucket {
	if len(group) == 1 {
		return group[0].Buckets
	}
	var all []results.Bucket
	for _, in := range group {
		all = append(all, in.Buckets...)
	}
	return addUp(all)
}

// addUp sorts buckets, and makes one of those of the same value.
func addUp(all []results.Bucket) []results.Bucket {
	counts := map[results.Nanos]int64{}
	for _, b := range all {
		counts[b.Value] += b.Count
	}
	out := make([]results.Bucket, 0, len(counts))
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, results.Bucket{Value: v, Count: counts[v]})
	}
	return out
}

// side returns all units of A or B.
func (p *pool) side(b bool) []int32 {
	runs := p.runs[:p.aRuns]
	if b {
		runs = p.runs[p.aRuns:]
	}
	return slices.Concat(runs...)
}

// quantiles returns the quantiles of all units together. A unit may occur more than once. Without
// samples they are zero.
func (p *pool) quantiles(units []int32) quantileValues {
	var out quantileValues
	total := p.before(units, p.chunks)
	if total == 0 {
		return out
	}
	c, loaded := 0, -1
	var fine [chunk]int64
	for i, q := range quantilesCompared {
		rank := results.Rank(q, total)
		// The quantiles ascend, and so do their chunks.
		c += sort.Search(p.chunks-1-c, func(n int) bool { return p.before(units, c+n+1) >= rank })
		if loaded != c {
			fine, loaded = p.load(units, c), c
		}
		left := rank - p.before(units, c)
		for j, n := range fine {
			if left -= n; left <= 0 {
				out[i] = float64(p.values[c*chunk+j])
				break
			}
		}
	}
	return out
}

// before is how many samples of the units are in the chunks before c.
func (p *pool) before(units []int32, c int) (n int64) {
	below, stride := p.below[c:], p.chunks+1
	for _, u := range units {
		n += below[int(u)*stride]
	}
	return n
}

// load adds up chunk c value by value.
func (p *pool) load(units []int32, c int) (fine [chunk]int64) {
	at, index, counts, stride := p.at[c:], p.index, p.counts, p.chunks+1
	for _, u := range units {
		k := int(u) * stride
		for e := at[k]; e < at[k+1]; e++ {
			fine[index[e]%chunk] += counts[e]
		}
	}
	return fine
}

// correlationTime estimates how many units in a row are worth an independent
// one, at least 1: 1 and twice the sum of the correlations of units that are 1,
// 2, … apart, as far as they are larger than half their standard error. It takes
// the worse of median and 90th percentile. of returns a quantile of the units, in
// order, run by run.
func correlationTime(of func(q float64) [][]float64) float64 {
	worst := 0.0
	for _, q := range []float64{0.5, 0.9} {
		series := of(q)
		longest, total := 0, 0
		for _, xs := range series {
			longest, total = max(longest, len(xs)), total+len(xs)
		}
		sum := 0.0
		for lag := 1; lag <= longest/4; lag++ {
			r := correlation(series, lag)
			if r*math.Sqrt(float64(total)) <= 0.5 {
				break
			}
			sum += r
		}
		worst = max(worst, sum)
	}
	return 1 + 2*worst
}

// correlation is that of values lag apart, over all series together, after
// Kendall's correction of its bias in short ones.
func correlation(series [][]float64, lag int) float64 {
	var same, apart float64
	longest := 0
	for _, xs := range series {
		if len(xs) == 0 {
			continue
		}
		longest = max(longest, len(xs))
		m := mean(xs)
		for i, x := range xs {
			same += (x - m) * (x - m)
			if i >= lag {
				apart += (x - m) * (xs[i-lag] - m)
			}
		}
	}
	if same == 0 {
		return 0
	}
	r := apart / same
	return r + (1+3*r)/float64(longest)
}

// valueAt is quantile q of one histogram that is not empty.
func valueAt(buckets []results.Bucket, q float64) results.Nanos {
	var total int64
	for _, b := range buckets {
		total += b.Count
	}
	left := results.Rank(q, total)
	for _, b := range buckets {
		if left -= b.Count; left <= 0 {
			return b.Value
		}
	}
	return 0
}
