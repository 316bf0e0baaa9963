package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/stats/dist"
	"github.com/eventmeter/eventmeter/results"
)

// Allowance is by how much the latencies of two processes of one build may differ for
// the whole length of a run, as the machine places them on its CPUs. The two targets
// of a duet are two processes; a difference that may be one of these is none.
const Allowance = time.Millisecond

// TypicalStretch is the method of a change whose effect is that of a typical stretch
// of a duet and not of the whole.
const TypicalStretch = "signed ranks of paired stretches"

// Duet is what is known of two runs that were measured together: both published the
// same events at the same instants.
type Duet struct {
	// Events is how many measured events both published; in FirstA of them A was the
	// first of the two.
	Events int `json:"events"`
	FirstA int `json:"firstA"`
	// Lanes are the pairs of each lane, by its name.
	Lanes map[string]*Pairs `json:"-"`
}

// Pairs are the latencies of a lane's deliveries that both sides received, in blocks
// of consecutive events: what delays the machine at a time delays neighbours alike,
// so that blocks and not events are independent of each other.
type Pairs struct {
	events int // of the duet
	blocks []pairBlock
	last   int // event of the last pair, plus 1
	Paired
}

// Paired counts the pairs of a lane.
type Paired struct {
	// Events is how many events have a delivery that both sides received, Deliveries
	// how many such deliveries there are.
	Events     int64 `json:"events"`
	Deliveries int64 `json:"deliveries"`
}

// pairBlock counts latencies by tag and side.
type pairBlock [2][2]map[results.Nanos]int64

// NewPairs returns the empty pairs of a lane in a duet of so many events.
func NewPairs(events int) *Pairs {
	return &Pairs{events: events, blocks: make([]pairBlock, min(events, maxUnits))}
}

// Add adds a delivery of an event, which is numbered from 0, with the latencies of A
// and B. Events must come in order.
func (p *Pairs) Add(event int, intended, sent [2]time.Duration) {
	if p.Deliveries++; p.last != event+1 {
		p.last = event + 1
		p.Events++
	}
	b := &p.blocks[event*len(p.blocks)/p.events]
	for side := range 2 {
		for tag, d := range [2]time.Duration{intended[side], sent[side]} {
			if b[tag][side] == nil {
				b[tag][side] = map[results.Nanos]int64{}
			}
			b[tag][side][coarse(d)]++
		}
	}
}

// coarse keeps eleven bits of a latency, about three digits, so that many deliveries
// have few values.
func coarse(d time.Duration) results.Nanos {
	n := uint64(max(d, 1))
	if drop := bits.Len64(n) - 11; drop > 0 {
		n = n >> drop << drop
	}
	return results.Nanos(n)
}

// pool makes the pool of a tag; block i of A stands beside block i of B.
func (p *Pairs) pool(tag string) *pool {
	at := 0
	if tag == results.TagSent {
		at = 1
	}
	var units [2][][]results.Bucket
	for i := range p.blocks {
		if p.blocks[i][at][0] == nil { // no delivery of these events
			continue
		}
		for side := range units {
			var of []results.Bucket
			for v, n := range p.blocks[i][at][side] {
				of = append(of, results.Bucket{Value: v, Count: n})
			}
			units[side] = append(units[side], addUp(of))
		}
	}
	n := len(units[0])
	runs := [][]int32{make([]int32, n), make([]int32, n)}
	for i := range n {
		runs[0][i], runs[1][i] = int32(i), int32(n+i)
	}
	out := poolOf(append(units[0], units[1]...), runs, 1)
	out.paired, out.allowance, out.events = true, float64(Allowance), float64(p.Paired.Events)
	out.time = correlationTime(func(q float64) [][]float64 {
		ratios := make([]float64, n)
		for i := range ratios {
			ratios[i] = math.Log(float64(valueAt(units[1][i], q)) / float64(valueAt(units[0][i], q)))
		}
		return [][]float64{ratios}
	})
	return out
}

// leastPaired is the smallest p-value that exchanging the sides of n blocks can give.
func leastPaired(n int) float64 { return math.Ldexp(1, 1-n) }

// dealtPairs exchanges the sides of each block, or does not, by chance: with equal
// targets both are as likely, because the order of publishing is random.
func (p *pool) dealtPairs(a, b []int32, rng *rand.Rand) {
	for i := range p.runs[0] {
		a[i], b[i] = p.runs[0][i], p.runs[1][i]
		if rng.Uint64()&1 == 1 {
			a[i], b[i] = b[i], a[i]
		}
	}
}

// drawnPairs draws blocks with replacement, the same for both sides.
func (p *pool) drawnPairs(a, b []int32, rng *rand.Rand) ([]int32, []int32) {
	n := len(p.runs[0])
	for range n {
		i := rng.IntN(n)
		a, b = append(a, p.runs[0][i]), append(b, p.runs[1][i])
	}
	return a, b
}

// typical judges a quantile by stretches of the run, each with an event beyond the
// quantile or more: their ratios of B to A are ranked by size, as F. Wilcoxon did
// (1945), so that a few stretches in which the machine stood still count no more than
// others. The estimate is the median of the mean ratios of any two stretches, after
// J. L. Hodges and E. L. Lehmann (1963).
func (p *pool) typical(rank int, level float64, e estimate) (estimate, bool) {
	n := min(len(p.runs[0]), int(p.events*(1-quantilesCompared[rank])+1e-6))
	if n < leastTail {
		return e, false
	}
	ds := make([]float64, n)
	for i := range ds {
		from, to := i*len(p.runs[0])/n, (i+1)*len(p.runs[0])/n
		ds[i] = logDistance(p.quantiles(p.runs[0][from:to]), p.quantiles(p.runs[1][from:to]))[rank]
	}
	// Neighbours that are alike are fewer than they seem.
	wide := math.Sqrt(correlationTime(func(float64) [][]float64 { return [][]float64{ds} }))
	means := make([]float64, 0, n*(n+1)/2)
	for i, x := range ds {
		for _, y := range ds[i:] {
			means = append(means, (x+y)/2)
		}
	}
	slices.Sort(means)
	d := median(means)
	m := float64(n)
	spread := wide * math.Sqrt(m*(m+1)*(2*m+1)/24)
	cut := m*(m+1)/4 - dist.NormalQuantile(1-(1-level)/2)*spread
	k := min(max(int(cut), 0), len(means)/2)
	lo, hi := means[k], means[len(means)-1-k]
	if cut < 0 {
		lo, hi = math.Inf(-1), math.Inf(1)
	}
	// The sum of the ranks of the positive ratios is the number of positive means, and
	// is tested for ratios that are nearer to 0 by the allowance.
	above := 0.0
	for _, x := range means {
		if x > math.Copysign(e.allowance, d) {
			above++
		} else if x == math.Copysign(e.allowance, d) {
			above += 0.5
		}
	}
	z := (above - m*(m+1)/4) / spread
	if math.Abs(d) <= e.allowance {
		z = 0
	}
	e.effect, e.low, e.high = relative(d), relative(lo-e.allowance), relative(hi+e.allowance)
	e.p, e.df, e.noise = math.Erfc(math.Abs(z)/math.Sqrt2), 0, (hi-lo)/2/dist.NormalQuantile(1-(1-level)/2)
	e.typical = true
	return e, true
}

// better returns the estimate with the smaller p-value of two that ask different
// questions about a figure, each at half of the level: of the whole run, and of a
// typical stretch of it.
func (p *pool) better(rank int, level float64, whole estimate) estimate {
	if stretch, ok := p.typical(rank, level, whole); ok && stretch.p < whole.p {
		whole = stretch
	}
	whole.p = min(1, 2*whole.p)
	return whole
}
