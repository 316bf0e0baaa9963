package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
)

// The search for changes of level in a series of runs is circular binary
// segmentation (Olshen and Venkatraman, 2004): of all stretches of a segment, the one
// whose mean differs most from the rest is tested against the same segment in random
// orders, and a segment that changes is searched again on both sides of the change.
// A stretch in the middle is two changes, so a rise that was taken back is found.

const (
	// farOut is how many robust standard deviations from the median a value is
	// taken for an outlier and moved to that distance, so that one bad night does not
	// hide a change.
	farOut = 6
	// laxer is by how much the tests of single places may be laxer than that of the
	// segment, which has already said that something changed.
	laxer = 10
)

// series searches one series of values for changes of level.
type series struct {
	values []float64 // with outliers moved
	sums   []float64 // scratch
	alpha  float64   // the chance of a change in a series without one
	rng    *rand.Rand
}

// shift is a change of level: the first value of the new level, and between which
// values it lies with a confidence of 95 %.
type shift struct{ at, earliest, latest int }

// levelChanges returns the changes of level in a series, in order. Positive values are
// compared by ratio, others by difference. In a series of independent values without a
// change, the chance that one is returned is at most alpha, however the values are
// distributed.
func levelChanges(values []float64, alpha float64, seed uint64) []shift {
	if len(values) < 2*LeastLevel || slices.Min(values) == slices.Max(values) {
		return nil
	}
	s := series{
		values: tamed(values),
		sums:   make([]float64, len(values)+1),
		alpha:  alpha,
		rng:    rand.New(rand.NewPCG(seed, uint64(len(values)))),
	}
	bounds := s.settled(s.search(0, len(values)))
	var out []shift
	for n := 1; n < len(bounds)-1; n++ {
		out = append(out, s.place(bounds, n))
	}
	return out
}

// tamed returns the logarithms of values, where all are positive, with outliers
// moved inwards.
func tamed(values []float64) []float64 {
	out := slices.Clone(values)
	if len(out) > 0 && slices.Min(out) > 0 {
		for i := range out {
			out[i] = math.Log(out[i])
		}
	}
	sorted := slices.Clone(out)
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return out
	}
	mid := median(sorted)
	away := slices.Clone(out)
	for i := range away {
		away[i] = math.Abs(away[i] - mid)
	}
	slices.Sort(away)
	const normal = 1.4826 // standard deviations of normal noise in a median distance
	if far := farOut * normal * median(away); far > 0 {
		for i := range out {
			out[i] = min(max(out[i], mid-far), mid+far)
		}
	}
	return out
}

// search returns candidates between from and to: where the values are best divided in
// two or, where that shows nothing, the ends of a stretch.
func (s *series) search(from, to int) []int {
	part := s.values[from:to]
	if len(part) < 2*LeastLevel {
		return nil
	}
	var found []int
	if k, gain := split(part); s.rare(part, gain, s.alpha/2, func(xs []float64) float64 { _, g := split(xs); return g }) {
		found = []int{k}
	} else if i, j, gain := s.stretch(part); gain > 0 && s.rare(part, gain, s.alpha/2, func(xs []float64) float64 { _, _, g := s.stretch(xs); return g }) {
		found = []int{i, j}
	}
	var out []int
	last := from
	for _, k := range found {
		if k += from; k > last && k < to {
			out = append(append(out, s.search(last, k)...), k)
			last = k
		}
	}
	if last > from {
		out = append(out, s.search(last, to)...)
	}
	return out
}

// settled moves each candidate to the best place between its neighbours, and drops
// those at which nothing changes then. It returns the bounds of the levels, both ends
// of the series included.
func (s *series) settled(at []int) []int {
	bounds := slices.Concat([]int{0}, at, []int{len(s.values)})
	for n := 1; n < len(bounds)-1; {
		from, to := bounds[n-1], bounds[n+1]
		k, _ := split(s.values[from:to])
		moved := bounds[n] != from+k
		bounds[n] = from + k
		switch {
		case !s.differ(s.values[from:to], k) || !s.beyondMemory(bounds, n):
			bounds = slices.Delete(bounds, n, n+1)
			n = 1
		case moved && n > 1:
			n-- // the place of the one before depends on this one
		default:
			n++
		}
	}
	return bounds
}

// place returns where the change at bounds[n] may lie: the fewest neighbouring places
// that hold 95 % of the likelihood, with normal noise.
func (s *series) place(bounds []int, n int) shift {
	from, to := bounds[n-1], bounds[n+1]
	part := s.values[from:to]
	at := shift{at: bounds[n] - from}
	_, noise := s.rest(bounds)
	if noise == 0 {
		return shift{bounds[n], bounds[n], bounds[n]}
	}
	weights := make([]float64, len(part))
	var all float64
	for k := 1; k < len(part); k++ {
		weights[k] = math.Exp((gainAt(part, k) - gainAt(part, at.at)) / (2 * noise))
		all += weights[k]
	}
	at.earliest, at.latest = at.at, at.at
	for held := weights[at.at]; held < confidence*all; {
		before, after := 0.0, 0.0
		if at.earliest > 1 {
			before = weights[at.earliest-1]
		}
		if at.latest < len(part)-1 {
			after = weights[at.latest+1]
		}
		if before == 0 && after == 0 {
			break
		}
		if before >= after {
			at.earliest--
		} else {
			at.latest++
		}
		held += max(before, after)
	}
	return shift{at: at.at + from, earliest: at.earliest + from, latest: at.latest + from}
}

// rest returns the distances of the values from their levels, and their variance.
func (s *series) rest(bounds []int) (rest []float64, noise float64) {
	for i := range len(bounds) - 1 {
		part := s.values[bounds[i]:bounds[i+1]]
		m := mean(part)
		for _, x := range part {
			rest = append(rest, x-m)
			noise += (x - m) * (x - m)
		}
	}
	return rest, noise / float64(len(rest)-len(bounds)+1)
}

// differ reports whether the values before and after k have different means.
func (s *series) differ(part []float64, k int) bool {
	return s.rare(part, gainAt(part, k), s.alpha*laxer, func(xs []float64) float64 { return gainAt(xs, k) })
}

// rare reports whether of so many random orders of the values, the observed one
// included, at most a share of alpha have as large a statistic. It stops as soon as
// more have.
func (s *series) rare(part []float64, observed, alpha float64, of func([]float64) float64) bool {
	const allowed = 3 // beside the observed order
	xs := slices.Clone(part)
	for as, n := 0, 1; float64(n)*alpha < allowed+1; n++ {
		s.rng.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		if of(xs) >= observed*(1-1e-9) {
			if as++; as > allowed {
				return false
			}
		}
	}
	return true
}

// beyondMemory reports whether the change at bounds[n] is larger than what a series
// shows whose values follow their predecessors, as those of a machine that is busy for
// some runs. Random orders do not show that.
func (s *series) beyondMemory(bounds []int, n int) bool {
	rest, noise := s.rest(bounds)
	if noise == 0 {
		return true
	}
	var with, all float64
	for i, x := range rest {
		all += x * x
		if i > 0 {
			with += x * rest[i-1]
		}
	}
	runs, levels := float64(len(rest)), float64(len(bounds)-1)
	// Means that are taken from the values themselves hide a part of the memory.
	memory := min(max(0, with/all+levels/runs), 0.95)
	fewer := (1 - memory) / (1 + memory)
	df := (runs - levels) * fewer
	if df < 1 {
		return false
	}
	from, k, to := bounds[n-1], bounds[n], bounds[n+1]
	t := math.Abs(mean(s.values[k:to])-mean(s.values[from:k])) / math.Sqrt(noise/fewer*(1/float64(k-from)+1/float64(to-k)))
	return dist.StudentTail(t, df)*float64(to-from) <= s.alpha*laxer
}

// stretch returns the stretch of xs whose mean differs most from that of the rest, and
// by how much it lowers the sum of squares.
func (s *series) stretch(xs []float64) (from, to int, gain float64) {
	n := len(xs)
	sums := s.sums[:n+1]
	m := mean(xs)
	for i, x := range xs {
		sums[i+1] = sums[i] + x - m
	}
	for i := 0; i <= n-LeastLevel; i++ {
		if i > 0 && i < LeastLevel {
			continue
		}
		for j := i + LeastLevel; j <= n; j++ {
			if rest := n - j; rest > 0 && rest < LeastLevel || j-i == n {
				continue
			}
			d := sums[j] - sums[i]
			if g := d * d * float64(n) / (float64(j-i) * float64(n-j+i)); g > gain {
				from, to, gain = i, j, g
			}
		}
	}
	return from, to, gain
}

// split returns the place at which xs is best divided in two, and by how much that
// lowers the sum of squares.
func split(xs []float64) (at int, gain float64) {
	n := float64(len(xs))
	m, before := mean(xs), 0.0
	for k, x := range xs[:max(0, len(xs)-LeastLevel)] {
		before += x - m
		if left := float64(k + 1); k+1 >= LeastLevel {
			if g := before * before * n / (left * (n - left)); g > gain || at == 0 {
				at, gain = k+1, g
			}
		}
	}
	return at, gain
}

// gainAt is by how much two means, before and after k, lower the sum of squares.
func gainAt(xs []float64, k int) float64 {
	d := mean(xs[k:]) - mean(xs[:k])
	return d * d * float64(k) * float64(len(xs)-k) / float64(len(xs))
}
