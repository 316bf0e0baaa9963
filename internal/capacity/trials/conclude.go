package trials

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/results"
)

// lawSeed makes the resampling of a fit reproducible.
const lawSeed = 1

// finish sets what follows from the steps.
func (s *finder) finish(err error) {
	s.summarise(err)
	s.law()
	s.warnings()
}

// summarise sets the state of the search in the result.
func (s *finder) summarise(err error) {
	c := s.out
	c.Finished = time.Now().UTC()
	if err != nil {
		c.Partial, c.Reason = true, err.Error()
	}
	c.Outcome = string(s.search.Outcome())
	s.maximum()
	c.Stopped = s.stopped()
}

// maximum sets the maximum load so far.
func (s *finder) maximum() {
	k := s.search.Maximum()
	out := results.CapacityMaximum{Load: k.Load, Above: k.Above, From: k.From, To: k.To, Limits: []string{}}
	for _, p := range s.search.Points() {
		switch p.Load {
		case k.Load:
			out.Passed, out.Failed = p.Passed, p.Failed
		case k.Above:
			out.AbovePassed, out.AboveFailed = p.Passed, p.Failed
		}
	}
	n := 0.0
	for _, step := range s.out.Steps {
		switch {
		case !judged(&step):
		case step.Load == k.Load && step.Verdict == verdictPassed:
			out.Events += step.Events
			out.FanOut += step.FanOut
			n++
		case step.Load == k.Above && step.Verdict != verdictPassed && len(out.Limits) == 0:
			out.Limits = step.Reasons
		}
	}
	if n > 0 {
		out.Events, out.FanOut = out.Events/n, out.FanOut/n
		out.Deliveries = out.Events * out.FanOut
	}
	s.out.Maximum = out
}

// judged reports whether a step is a trial of the search, rather than a step beside
// it.
func judged(s *results.CapacityStep) bool { return s.Verdict != verdictAside }

// stopped returns a sentence on why the search ended.
func (s *finder) stopped() string {
	c, k := s.out, s.out.Maximum
	load := func(v float64) string { return fmt.Sprintf("%.4g %s", v, c.Unit) }
	limits := strings.Join(k.Limits, "; ")
	switch capacity.Outcome(c.Outcome) {
	case capacity.Found:
		return fmt.Sprintf("%s met the SLO and %s did not: %s", load(k.Load), load(k.Above), limits)
	case capacity.None:
		return fmt.Sprintf("not even the lowest load of %s met the SLO: %s", load(k.Above), limits)
	case capacity.Bound:
		return fmt.Sprintf("the highest load of %s met the SLO, so the capacity is higher: %v", load(k.Load), s.higher)
	case capacity.Generator:
		if k.Load == 0 {
			return fmt.Sprintf("the lowest load of %s says nothing about the target: %s", load(k.Above), limits)
		}
		return fmt.Sprintf(
			"the capacity is at least %s; the load of %s says nothing about the target: %s",
			load(k.Load),
			load(k.Above),
			limits,
		)
	case capacity.Exhausted:
		return "too many trials disagreed"
	}
	return "it was interrupted: " + cmp.Or(c.Reason, "no reason is known")
}

// law fits the Universal Scalability Law to the trials in which the generator was not
// the limit.
func (s *finder) law() {
	var samples []capacity.Sample
	for _, step := range s.out.Steps {
		if judged(&step) && step.Verdict != verdictUnclear && step.Dir != "" {
			samples = append(samples, capacity.Sample{Load: step.Load, Achieved: step.Achieved})
		}
	}
	f, err := capacity.FitUSL(samples, lawSeed)
	if err != nil {
		s.out.LawRefused = err.Error()
		return
	}
	span := func(v float64, r capacity.Range) results.CapacityRange {
		return results.CapacityRange{Value: v, Low: r.Low, High: r.High}
	}
	law := &results.CapacityLaw{
		Unit: f.Unit, Lambda: span(f.Lambda, f.LambdaRange), Sigma: span(f.Sigma, f.SigmaRange), Kappa: span(f.Kappa, f.KappaRange),
		PeakShare: f.PeakShare, Points: f.Points, Loads: f.Loads, Low: f.Low, High: f.High,
		Residual: f.Residual, Worst: f.Worst, R2: f.R2, Doubts: append([]string{}, f.Doubts...),
	}
	if at, ok := f.Peak(); ok {
		peak := span(at, f.PeakRange)
		law.Peak = &peak
	}
	s.out.Law = law
}

func (s *finder) warnings() {
	warn := func(code, format string, args ...any) {
		s.out.Warnings = append(s.out.Warnings, results.Warning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	unclear, busy, recovered := 0, 0, 0
	for i, step := range s.out.Steps {
		if s.idleTarget {
			s.out.Steps[i].Target = nil // with too few deliveries to see it in this step
		}
		switch {
		case step.Verdict == verdictUnclear:
			unclear++
		case step.Verdict == verdictPassed && step.Generator.Bottleneck:
			busy++
		case step.Purpose == purposeRecover:
			recovered++
		}
	}
	if s.idleTarget {
		warn(results.TargetIdle, "the processes that were taken for the target hardly used CPU time while events were delivered, so others "+
			"do its work: there is no cost sheet of its CPU time and memory, and no plan; give the metrics of those: --target-metrics")
	}
	if unclear > 0 {
		warn(
			"unclear-steps",
			"in %d of %d steps the generator was the bottleneck and the SLO was not met: they say nothing about the target, and were not counted",
			unclear,
			len(s.out.Steps),
		)
	}
	if busy > 0 {
		warn(
			"busy-steps",
			"%d steps met the SLO although the generator was the bottleneck: they count, and their latencies are too high if anything",
			busy,
		)
	}
	if recovered > 0 {
		warn("recovered", "the target needed %d steps at the lowest load to recover from overloads that did not drain", recovered)
	}
	if k := s.out.Maximum; k.Failed > 0 || k.AbovePassed > 0 {
		warn("noisy-maximum", "trials of one load disagreed near the maximum load: the interval is what they leave")
	}
}
