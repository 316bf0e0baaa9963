package figure

import (
	"maps"
	"slices"
)

// Rule says what the values of a figure in several parts of a run, which are
// measured side by side, are together.
type Rule struct {
	kind ruleKind
	// of and per are the names of the figures that a quotient is made of; per
	// is also what a mean is weighted by.
	of, per string
}

type ruleKind uint8

const (
	sum ruleKind = iota
	largest
	least
	peak
	ratio
	mean
)

var (
	// Sum adds. It is the rule of counts.
	Sum = Rule{kind: sum}
	// Max takes the largest, Min the least.
	Max, Min = Rule{kind: largest}, Rule{kind: least}
	// Peak is the most at one moment. No two parts need have shared that moment,
	// so that the value of all lies between the largest and the sum: the largest
	// is shown, and [Tables.Merge] says so.
	Peak = Rule{kind: peak}
)

// Ratio computes a quotient again from the merged figures of those names.
func Ratio(of, per string) Rule { return Rule{kind: ratio, of: of, per: per} }

// Mean is weighted by the figure of that name.
func Mean(weight string) Rule { return Rule{kind: mean, per: weight} }

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

// Merge returns what the values of parts of a run are together, and, where
// there are several parts, the names of the peaks among them, of which only a
// bound is known. The parts are not changed.
func (ts Tables) Merge(parts ...map[string]float64) (all map[string]float64, peaks []string) {
	all = map[string]float64{}
	weights := map[string]float64{}
	for _, p := range parts {
		for name, v := range p {
			old, had := all[name]
			switch r := ts.Rule(name); r.kind {
			case ratio:
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
		case peak:
			if len(parts) > 1 {
				peaks = append(peaks, name)
			}
		}
	}
	return all, peaks
}
