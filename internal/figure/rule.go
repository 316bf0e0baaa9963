package figure

import (
	"maps"
	"slices"
)

// Rule says how the values of a figure in several parts of a run, measured at the
// same time, are merged.
type Rule struct {
	kind ruleKind
	// of and per are the figures of a quotient; per is also the weight of a mean.
	of, per string
	percent float64
}

type ruleKind uint8

const (
	sum ruleKind = iota
	largest
	least
	peak
	ratio
	mean
	percentile
)

var (
	// Sum adds the values. It is the rule of counts.
	Sum = Rule{kind: sum}
	// Max takes the largest value, Min the smallest.
	Max, Min = Rule{kind: largest}, Rule{kind: least}
	// Peak is for the largest value at one moment. The parts may not have had their
	// peaks at the same moment, so the peak of the whole lies between the largest and
	// the sum: the largest is shown, and [Tables.Merge] reports it.
	Peak = Rule{kind: peak}
)

// Ratio computes a quotient from the merged figures named of and per.
func Ratio(of, per string) Rule { return Rule{kind: ratio, of: of, per: per} }

// Mean weights the values by the figure named weight.
func Mean(weight string) Rule { return Rule{kind: mean, per: weight} }

// Percentile computes a percentile, in milliseconds, from the merged timing named of.
func Percentile(of string, percent float64) Rule {
	return Rule{kind: percentile, of: of, percent: percent}
}

// parts are the names of the figures that the rule needs.
func (r Rule) parts() []string {
	switch r.kind {
	case ratio:
		return []string{r.of, r.per}
	case mean:
		return []string{r.per}
	}
	return nil
}

// Merge merges the values of several parts of a run. If there are several parts, it
// also returns the names of the peaks among the figures, of which only a bound is
// known. The parts are not changed. quantile returns a percentile of a merged timing,
// in milliseconds.
func (ts Tables) Merge(
	quantile func(timing string, percent float64) float64,
	parts ...map[string]float64,
) (all map[string]float64, peaks []string) {
	all = map[string]float64{}
	weights := map[string]float64{}
	for _, p := range parts {
		for name, v := range p {
			old, had := all[name]
			switch r := ts.Rule(name); r.kind {
			case ratio, percentile:
				all[name] = 0 // computed below
			case mean:
				w := p[r.per]
				all[name] = old + v*w
				weights[name] += w
			case largest, peak:
				if !had {
					old = v
				}
				all[name] = max(old, v)
			case least:
				if !had {
					old = v
				}
				all[name] = min(old, v)
			default:
				all[name] = old + v
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch r := ts.Rule(name); r.kind {
		case mean:
			if w := weights[name]; w > 0 {
				all[name] /= w
			}
		case ratio:
			if all[r.per] > 0 {
				all[name] = all[r.of] / all[r.per]
			}
		case percentile:
			all[name] = quantile(r.of, r.percent)
		case peak:
			if len(parts) > 1 {
				peaks = append(peaks, name)
			}
		}
	}
	return all, peaks
}
