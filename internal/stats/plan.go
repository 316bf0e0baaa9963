package stats

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/eventmeter/eventmeter/results"
)

const (
	// manyRuns on both sides are enough to judge by runs alone.
	manyRuns = 4
	// leastUnits is the number of units on each side below which noise cannot be estimated.
	leastUnits = 5
	// mostDeals bounds the permutations of a lane with very many figures.
	mostDeals = 20000
)

// item is one figure and its Change in progress.
type item struct {
	lane   string
	figure compared
	// reason is set when there is nothing to test.
	reason string
	// values are those of each run, A's and B's, of figures that are judged by runs.
	values [2][]float64
	// group is set for latency judged by intervals.
	group *latencyGroup
	// counts are those of each run, A's and B's, of figures that are counted.
	counts [2][]tallied

	byRank bool
	least  float64 // the smallest p-value that the test can give
	tested bool
	est    estimate
	change Change
}

// latencyGroup is the quantiles of one lane and tag, which share their draws.
type latencyGroup struct {
	pool   *pool
	perRun [2][]quantileValues
	seed   uint64
	done   bool
	est    [len(quantilesCompared)]estimate
}

// plan decides what is tested and how, before any outcome is known.
type plan struct {
	a, b   *Side
	duet   *Duet // nil unless the sides were measured together
	opts   CompareOptions
	items  []*item
	family int
}

func newPlan(a, b *Side, duet *Duet, lanes []string, opts CompareOptions) *plan {
	p := &plan{a: a, b: b, duet: duet, opts: opts}
	for _, f := range runFigures {
		p.plain("", f)
	}
	for _, lane := range lanes {
		groups := map[string]*latencyGroup{}
		for _, f := range laneFigures {
			switch {
			case f.tag != "":
				p.latency(lane, f, groups)
			case f.count != nil:
				p.count(lane, f)
			default:
				p.plain(lane, f)
			}
		}
	}
	return p
}

func (p *plan) both(each func(side int, r *Run)) {
	for i, s := range []*Side{p.a, p.b} {
		for k := range s.Runs {
			each(i, &s.Runs[k])
		}
	}
}

func (p *plan) byRuns() bool { return len(p.a.Runs) >= manyRuns && len(p.b.Runs) >= manyRuns }

// fewRuns returns why a figure without intervals cannot be judged.
func (p *plan) fewRuns() string {
	if len(p.a.Runs) == 1 && len(p.b.Runs) == 1 {
		return "one run each: no noise estimate"
	}
	return fmt.Sprintf("fewer than %d runs on a side: no noise estimate", manyRuns)
}

// plain adds a figure that has one value in each run, if every run has it.
func (p *plan) plain(lane string, f compared) {
	it := &item{lane: lane, figure: f}
	all := true
	p.both(func(side int, r *Run) {
		v, ok := f.measured(r, lane)
		all = all && ok
		it.values[side] = append(it.values[side], v)
	})
	if !all {
		return
	}
	if !p.byRuns() {
		it.reason = p.fewRuns()
	}
	p.items = append(p.items, it)
}

func (p *plan) count(lane string, f compared) {
	it := &item{lane: lane, figure: f}
	p.both(func(side int, r *Run) {
		it.counts[side] = append(it.counts[side], f.count(r.lane(lane)))
	})
	sa, sb, size := thin(it.counts[0], it.counts[1])
	if sa.whole == 0 || sb.whole == 0 {
		it.reason = "nothing to count on a side"
	} else if p.receivedNothing(lane) {
		it.reason = "the lane received nothing in a run"
	} else {
		it.least = leastCount((sa.count+sb.count)/size, sb.whole/(sa.whole+sb.whole))
	}
	p.items = append(p.items, it)
}

// receivedNothing reports whether the lane received nothing in some run. Its losses then say nothing about
// the target.
func (p *plan) receivedNothing(lane string) bool {
	none := false
	p.both(func(_ int, r *Run) { none = none || r.lane(lane).ReceivedNothing() })
	return none
}

func (p *plan) latency(lane string, f compared, groups map[string]*latencyGroup) {
	it := &item{lane: lane, figure: f}
	p.items = append(p.items, it)
	if pairs := p.pairs(lane); pairs != nil {
		p.pairedLatency(it, pairs, groups)
		return
	}
	var tail [2]float64
	p.both(func(side int, r *Run) {
		q := summaryOf(r.lane(lane), f.tag)
		tail[side] += float64(q.Count) * (1 - quantilesCompared[f.rank])
		it.values[side] = append(it.values[side], valuesOf(q)[f.rank])
		switch {
		case q.Count == 0:
			it.reason = "a run has no samples"
		case !q.Has(f.quantile()):
			it.reason = "a run was measured before this figure existed"
		case r.Logs[lane] == nil && !p.byRuns():
			it.reason = "a run has no histogram log of this lane"
		}
	})
	if it.reason != "" {
		return
	}
	// The product of a count and a share is not exact in floating point.
	if t := min(tail[0], tail[1]); t < leastTail-1e-6 {
		it.reason = fmt.Sprintf("%.0f samples beyond this quantile; %d are needed", math.Floor(t+1e-6), leastTail)
		return
	}
	if p.byRuns() {
		return
	}
	g := groups[f.tag]
	if g == nil {
		g = p.group(lane, f.tag)
		groups[f.tag] = g
	}
	ua, ub := len(g.pool.side(false)), len(g.pool.side(true))
	if n := min(ua, ub); n < leastUnits {
		it.reason = fmt.Sprintf("%d intervals; %d are needed", n, leastUnits)
		return
	}
	it.group = g
	it.least = min(1, 2/choose(ua+ub, ua))
}

// pairs returns the pairs of a lane; nil if there are none.
func (p *plan) pairs(lane string) *Pairs {
	if p.duet == nil {
		return nil
	}
	if pairs := p.duet.Lanes[lane]; pairs != nil && pairs.Deliveries > 0 {
		return pairs
	}
	return nil
}

// pairedLatency adds a quantile of a lane that is judged by pairs. What counts as its
// tail is events: the deliveries of one event are late together.
func (p *plan) pairedLatency(it *item, pairs *Pairs, groups map[string]*latencyGroup) {
	g := groups[it.figure.tag]
	if g == nil {
		g = &latencyGroup{pool: pairs.pool(it.figure.tag), seed: p.seed(it.lane, it.figure.tag)}
		groups[it.figure.tag] = g
	}
	for side := range it.values {
		it.values[side] = []float64{g.pool.quantiles(g.pool.side(side == 1))[it.figure.rank]}
	}
	tail := float64(pairs.Paired.Events) * (1 - quantilesCompared[it.figure.rank])
	n := len(g.pool.runs[0])
	switch {
	case tail < leastTail-1e-6:
		it.reason = fmt.Sprintf("%.0f events beyond this quantile; %d are needed", math.Floor(tail+1e-6), leastTail)
	case n < leastUnits:
		it.reason = fmt.Sprintf("%d blocks of events; %d are needed", n, leastUnits)
	default:
		it.group, it.least = g, leastPaired(n)
	}
}

// seed returns the seed of a lane's draws, which the runs alone decide.
func (p *plan) seed(lane, tag string) uint64 {
	hash := fnv.New64a()
	p.both(func(side int, r *Run) {
		fmt.Fprintf(hash, "%d %s %s\n", side, r.Result.Run, r.Result.Started.UTC())
	})
	fmt.Fprintf(hash, "%s %s\n", lane, tag)
	return hash.Sum64()
}

func (p *plan) group(lane, tag string) *latencyGroup {
	g := &latencyGroup{seed: p.seed(lane, tag)}
	var logs [2][][]results.LogInterval
	p.both(func(side int, r *Run) {
		logs[side] = append(logs[side], r.Logs[lane].Of(tag))
		g.perRun[side] = append(g.perRun[side], valuesOf(summaryOf(r.lane(lane), tag)))
	})
	g.pool = newPool(logs[0], logs[1])
	return g
}

// run tests everything that can be tested, and corrects for the number of tests.
func (p *plan) run() {
	var ready []*item
	for _, it := range p.items {
		if it.reason == "" {
			ready = append(ready, it)
		}
	}
	least := make([]float64, len(ready))
	for i, it := range ready {
		if it.group == nil && it.counts[0] == nil {
			it.least = leastU(len(it.values[0]), len(it.values[1]))
			it.byRank = it.least <= p.opts.Alpha/float64(len(ready))
			if !it.byRank {
				it.least = 0
			}
		}
		least[i] = it.least
	}
	for i, ok := range testable(least, p.opts.Alpha) {
		ready[i].tested = ok
		if ok {
			p.family++
		}
	}
	var ps []float64
	for _, it := range ready {
		p.estimate(it)
		if it.tested {
			ps = append(ps, it.est.p)
		}
	}
	adjusted := holm(ps)
	for _, it := range p.items {
		p.finish(it)
		if it.tested {
			it.change.Adjusted = number(adjusted[0])
			adjusted = adjusted[1:]
		}
		p.judge(it)
	}
}

// level is the p-value that every figure of the family may have.
func (p *plan) level() float64 { return p.opts.Alpha / float64(max(p.family, 1)) }

func (p *plan) estimate(it *item) {
	switch {
	case it.counts[0] != nil:
		it.est = countEstimate(it.counts[0], it.counts[1], p.level())
		it.change.Method = "exact Poisson"
	case it.group != nil:
		g := it.group
		if !g.done {
			// Enough permutations for a p-value well below the corrected level.
			deals := min(max(p.opts.Resamples, int(math.Ceil(4/p.level()))), mostDeals)
			rng := rand.New(rand.NewPCG(g.seed, uint64(p.opts.Resamples)))
			g.est = g.pool.intervalEstimates(g.perRun, deals, p.opts.Resamples, rng)
			g.done = true
		}
		it.est = g.est[it.figure.rank]
		it.change.Method = "permutation of intervals"
		switch {
		case it.est.typical:
			it.change.Method = TypicalStretch
		case g.pool.paired:
			it.change.Method = "exchange of paired blocks of events"
		}
		if len(g.perRun[0])+len(g.perRun[1]) > 2 {
			it.change.Method += " and t test of runs"
		}
	default:
		it.est = runEstimate(it.values[0], it.values[1], it.byRank)
		it.change.Method = "Mann-Whitney U"
		if !it.byRank {
			it.change.Method = "Welch's t"
		}
	}
}

// changes returns the finished figures of a lane.
func (p *plan) changes(lane string) []Change {
	out := []Change{}
	for _, it := range p.items {
		if it.lane == lane {
			out = append(out, it.change)
		}
	}
	return out
}
