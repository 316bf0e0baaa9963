// Package capacity finds the largest load that meets an SLO, and fits a scalability
// law to the measured loads. It runs nothing: the caller asks for the next load and
// records the verdict, so that real and simulated runs can drive it.
package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Verdict is the outcome of one trial of a load.
type Verdict string

// The verdicts.
const (
	// Passed: the load met the SLO.
	Passed Verdict = "passed"
	// Failed: the load did not meet the SLO, because of the target.
	Failed Verdict = "failed"
	// Unclear: the load did not meet the SLO, and the generator may be the cause.
	Unclear Verdict = "unclear"
)

// Outcome is the state of a search.
type Outcome string

// The outcomes.
const (
	// Searching: there is more to try.
	Searching Outcome = "searching"
	// Found: the maximum load lies between a load that passes and one that fails.
	Found Outcome = "found"
	// None: the lowest load fails.
	None Outcome = "none"
	// Bound: the highest load passes.
	Bound Outcome = "bound"
	// Generator: above the largest load that passes, the generator is the limit.
	Generator Outcome = "generator"
	// Exhausted: MaxTrials were not enough.
	Exhausted Outcome = "exhausted"
)

// Options bound a search. The zero value does not work: From and To must be
// given.
type Options struct {
	// From is the lowest load, which is tried first, and To the highest. 0 < From <
	// To.
	From, To float64
	// Integer restricts loads to whole numbers.
	Integer bool
	// Precision is the largest distance between the two ends of the bracket at the
	// end, as a share of the lower one. Default 0.02.
	Precision float64
	// Confirm is the lead that confirms a verdict: the lower end must have this many
	// more passes than fails, the upper end this many more fails than passes. Default
	// 2.
	Confirm int
	// Retries is how often a load without a clear verdict is tried again before
	// it counts as the generator's limit. Default 2, -1 = never.
	Retries int
	// MaxTrials bounds the whole search. Default 100.
	MaxTrials int
}

func (o Options) withDefaults() (Options, error) {
	if !(o.From > 0) || !(o.To > o.From) || math.IsInf(o.To, 0) {
		return o, fmt.Errorf("capacity: from %v to %v: want 0 < from < to", o.From, o.To)
	}
	if o.Integer && (o.From != math.Trunc(o.From) || o.To != math.Trunc(o.To)) {
		return o, fmt.Errorf("capacity: from %v to %v: want whole numbers", o.From, o.To)
	}
	if o.Precision == 0 {
		o.Precision = 0.02
	}
	if o.Confirm == 0 {
		o.Confirm = 2
	}
	switch {
	case o.Retries == 0:
		o.Retries = 2
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.MaxTrials == 0 {
		o.MaxTrials = 100
	}
	if !(o.Precision > 0 && o.Precision < 1) || o.Confirm < 1 || o.MaxTrials < 1 {
		return o, errors.New("capacity: precision must lie between 0 and 1, and confirm and max trials be 1 or more")
	}
	return o, nil
}

// Point is a load with all its trials.
type Point struct {
	Load                    float64
	Passed, Failed, Unclear int
}

// Trials returns the number of trials with a clear verdict.
func (p Point) Trials() int { return p.Passed + p.Failed }

// Search is a search in progress. It is not safe for concurrent use.
//
// It brackets the maximum load by doubling the load, bisects the bracket (on the
// logarithm of the load) until it is narrow enough, and then repeats both ends until
// their verdicts are confirmed. A load's verdict is that of the majority of its
// trials; if the majority changes, the bracket opens again, so a single bad trial
// does not decide.
type Search struct {
	o      Options
	points []Point // ascending
	trials int
}

// New begins a search.
func New(o Options) (*Search, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Search{o: o}, nil
}

// Record adds the verdict of one trial.
func (s *Search) Record(load float64, v Verdict) {
	s.trials++
	i, found := slices.BinarySearchFunc(s.points, load, func(p Point, l float64) int {
		switch {
		case p.Load < l:
			return -1
		case p.Load > l:
			return 1
		}
		return 0
	})
	if !found {
		s.points = slices.Insert(s.points, i, Point{Load: load})
	}
	switch v {
	case Passed:
		s.points[i].Passed++
	case Failed:
		s.points[i].Failed++
	default:
		s.points[i].Unclear++
	}
}

// stand is the combined verdict of all trials of a point.
type stand int

const (
	open stand = iota // more trials are needed
	holds
	fails
	blocked // by the generator
)

func (s *Search) stand(p Point) stand {
	switch {
	case p.Passed > p.Failed:
		return holds
	case p.Failed > p.Passed:
		return fails
	case p.Unclear > s.o.Retries:
		return blocked
	}
	return open
}

// confirmed reports whether more trials of a point are useless: its verdict leads by
// Confirm, or so many trials disagreed that it is noise.
func (s *Search) confirmed(p Point) bool {
	lead := p.Passed - p.Failed
	if lead < 0 {
		lead = -lead
	}
	return lead >= s.o.Confirm || p.Trials() >= 2*s.o.Confirm+3 || p.Unclear > s.o.Retries+s.o.Confirm
}

// bracket returns the index of the lowest point that does not hold, and of the
// highest that holds below it; -1 if there is none.
func (s *Search) bracket() (low, high int) {
	high = slices.IndexFunc(s.points, func(p Point) bool { st := s.stand(p); return st == fails || st == blocked })
	low = len(s.points) - 1
	if high >= 0 {
		low = high - 1
	}
	return low, high
}

// Next returns the load to try next. more is false when the search is over.
func (s *Search) Next() (load float64, more bool) {
	load, outcome := s.step()
	return load, outcome == Searching
}

// Outcome returns how the search ended, or [Searching].
func (s *Search) Outcome() Outcome {
	_, outcome := s.step()
	return outcome
}

func (s *Search) step() (load float64, outcome Outcome) {
	if len(s.points) == 0 {
		return s.o.From, Searching
	}
	if s.trials >= s.o.MaxTrials {
		return 0, Exhausted
	}
	for _, p := range s.points {
		if s.stand(p) == open {
			return p.Load, Searching
		}
	}
	low, high := s.bracket()
	if high < 0 {
		if p := s.points[low]; p.Load >= s.o.To {
			if !s.confirmed(p) {
				return p.Load, Searching
			}
			return 0, Bound
		}
		return min(2*s.points[low].Load, s.o.To), Searching
	}
	top := s.points[high]
	if low < 0 {
		switch {
		case s.stand(top) == blocked:
			return 0, Generator
		case !s.confirmed(top):
			return top.Load, Searching
		}
		return 0, None
	}
	bottom := s.points[low]
	if mid, ok := s.between(bottom.Load, top.Load); ok {
		return mid, Searching
	}
	switch {
	case !s.confirmed(bottom):
		return bottom.Load, Searching
	case s.stand(top) == blocked:
		return 0, Generator
	case !s.confirmed(top):
		return top.Load, Searching
	}
	return 0, Found
}

// between returns the middle of a bracket, and false if the bracket is narrow enough.
func (s *Search) between(low, high float64) (float64, bool) {
	if high <= low*(1+s.o.Precision) {
		return 0, false
	}
	mid := math.Sqrt(low * high)
	if s.o.Integer {
		mid = math.Round(mid)
	} else {
		mid = round(mid, low, high)
	}
	return mid, mid > low && mid < high
}

// round rounds mid to as few digits as distinguish it from its neighbours.
func round(mid, low, high float64) float64 {
	for digits := 2; digits < 15; digits++ {
		scale := math.Pow(10, float64(digits)-1-math.Floor(math.Log10(mid)))
		if r := math.Round(mid*scale) / scale; math.Abs(r-mid) <= (high-low)/100 {
			return r
		}
	}
	return mid
}

// Points returns all tried loads with their trials, ascending. The caller owns the
// slice.
func (s *Search) Points() []Point { return slices.Clone(s.points) }

// Maximum is the maximum load found so far.
type Maximum struct {
	// Load is the largest load that holds, below all that fail; 0 if there is none.
	Load float64
	// Above is the smallest load that fails; 0 if there is none. Load and Above are
	// the bracket.
	Above float64
	// From and To are the interval that repeated trials leave open: no trial at or
	// below From failed, and none at or above To passed. If trials disagreed, it is
	// wider than the bracket. 0 means that there is no such load.
	From, To float64
}

// Maximum returns the maximum load found so far. It may be called at any time.
func (s *Search) Maximum() Maximum {
	var k Maximum
	low, high := s.bracket()
	if low >= 0 {
		k.Load = s.points[low].Load
	}
	if high >= 0 {
		k.Above = s.points[high].Load
	}
	for _, p := range s.points {
		if p.Failed > 0 || p.Load > k.Load {
			break
		}
		if p.Passed > 0 {
			k.From = p.Load
		}
	}
	for _, p := range slices.Backward(s.points) {
		if p.Passed > 0 || p.Load <= k.Load {
			break
		}
		if p.Failed > 0 {
			k.To = p.Load
		}
	}
	return k
}
