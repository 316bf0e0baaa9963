// Package stats compares results: it estimates how the figures of two sides differ, and reports a
// difference only if it is significant. Its functions share no state.
package stats

import "fmt"

// Compare compares b with a: every figure of every lane that both sides have. It does not change
// the sides. Errors wrap [ErrCompare].
//
// The test of a figure depends on the runs, never on the outcome:
//
//   - latency, 4 or more runs on each side: Mann-Whitney's U test over the
//     runs; where so few runs can never pass it (see Alpha and Tested), Welch's
//     t test over the logarithms of the runs' quantiles.
//   - latency, fewer runs: a permutation test over the intervals of the runs,
//     and with more than one run on a side also a pooled t test over the runs:
//     the larger p-value counts. The confidence interval is a bootstrap over
//     runs and intervals, at least as wide as that of the t test.
//   - losses and duplicates: the exact test of two Poisson rates. Misses that
//     came together are counted once.
//   - overhead and cost: as latency with 4 or more runs; with fewer only the
//     difference is shown, because its noise within a run is not known.
func Compare(a, b *Side, opts CompareOptions) (*Comparison, error) {
	return compareSides(a, b, nil, opts)
}

// CompareDuet compares the two runs of a duet. It differs from [Compare] in the
// latencies of lanes with pairs:
//
//   - quantiles are of the deliveries that both sides received. The p-value is that
//     of exchanging the sides of blocks of consecutive events, or, if larger,
//     Student's for the distance in standard errors of the bootstrap; the confidence
//     interval is a bootstrap over the same blocks of both sides. What the machine did
//     to both cancels out. Beside it, stretches of the run are compared by Wilcoxon's
//     signed ranks; the smaller of the two p-values counts, twice. Both allow for a difference of [Allowance].
func CompareDuet(a, b *Side, duet *Duet, opts CompareOptions) (*Comparison, error) {
	if len(a.Runs) != 1 || len(b.Runs) != 1 {
		return nil, fmt.Errorf("%w: a duet has one run on each side", ErrCompare)
	}
	return compareSides(a, b, duet, opts)
}

func compareSides(a, b *Side, duet *Duet, opts CompareOptions) (*Comparison, error) {
	opts, err := opts.filled()
	if err != nil {
		return nil, err
	}
	if len(a.Runs) == 0 || len(b.Runs) == 0 {
		return nil, fmt.Errorf("%w: a side has no runs; load it with LoadSide", ErrCompare)
	}
	c := &Comparison{
		Schema: ComparisonSchema, A: a.info(), B: b.info(),
		Alpha: opts.Alpha, MinEffect: opts.MinEffect, Resolution: resolution,
		Duet: duet, Run: []Change{}, Lanes: []LaneChange{}, OnlyA: []string{}, OnlyB: []string{},
	}
	names := c.matchLanes(a, b)
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: no lane is in all runs of both sides: one has %s, the other %s; compare runs of the same profile",
			ErrCompare, nameList(c.OnlyA), nameList(c.OnlyB))
	}
	plan := newPlan(a, b, duet, names, opts)
	plan.run()
	c.Tested = plan.family
	for _, name := range names {
		l := a.Runs[0].lane(name)
		change := LaneChange{Name: l.Name, System: l.System, Mode: l.Mode, Figures: plan.changes(name)}
		if pairs := plan.pairs(name); pairs != nil {
			change.Paired = &pairs.Paired
		}
		c.Lanes = append(c.Lanes, change)
	}
	c.Run = append(c.Run, plan.changes("")...)
	c.Upstream = shownUpstream(a, b)
	c.Warnings = validity(a, b, duet != nil)
	return c, nil
}
