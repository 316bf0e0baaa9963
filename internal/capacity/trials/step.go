package trials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// profile returns the profile of a step.
func (s *finder) profile(plan stepPlan) (*profiles.Profile, error) {
	p := *s.p
	if plan.lane != "" {
		p = *p.Only(plan.lane)
	}
	at, err := p.At(plan.load)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", run.ErrProfile, err)
	}
	at.Phases.Cooldown = 0 // a search judges no leaks
	if plan.held > 0 {
		at.Lanes[0].Subscriptions = plan.held
	}
	if plan.idle {
		at.Phases.Warmup, at.Phases.Measure = 0, s.p.Capacity.Idle
	}
	return at, nil
}

// step runs one step, judges it and adds it to the curve. It returns an error if the
// search must end: the target is gone, or the search was stopped.
func (s *finder) step(ctx context.Context, plan stepPlan) (results.CapacityStep, error) {
	step, _, err := s.stepWith(ctx, plan)
	return step, err
}

func (s *finder) stepWith(ctx context.Context, plan stepPlan) (results.CapacityStep, *run.Outcome, error) {
	step := results.CapacityStep{
		Number: len(s.out.Steps) + 1, Purpose: plan.purpose, Lane: plan.lane, Load: plan.load,
		Verdict: verdictAside, Reasons: []string{}, Lanes: []results.CapacityStepLane{},
	}
	p, err := s.profile(plan)
	if err != nil {
		return step, nil, err
	}
	o := s.opts.Options
	o.Profile, o.Keep, o.Backlog, o.Idle, o.Record = p, s.keep, true, plan.idle, nil
	sampled := s.sample(&o)
	outcome, err := s.run(ctx, o)
	if ended(err) || outcome == nil && !s.isLimit(plan, err) {
		return step, nil, err
	}
	if outcome == nil {
		step.Generator.Reasons = []string{}
		step.Reasons = append(step.Reasons, err.Error())
		if plan.lane == "" && plan.purpose != purposeRecover {
			step.Verdict = verdictFailed
		}
		s.add(step)
		return step, nil, nil
	}
	s.out.Target = outcome.Result.Target
	s.out.Target.Process, s.out.Target.Leak = nil, nil // each step has its own
	s.measure(&step, p, outcome)
	if s.idleTarget = s.idleTarget || results.Warned(outcome.Result.Warnings, results.TargetIdle); s.idleTarget {
		step.Target = nil
	}
	step.Metrics = sampled.judged(step.Target)
	if !plan.idle {
		verdict, reasons := s.judge(&step, outcome.Result, err)
		step.Reasons = append(step.Reasons, reasons...)
		if plan.purpose != purposeRecover && plan.purpose != purposeCost {
			step.Verdict = verdict
		}
	}
	step.Dir = fmt.Sprintf("steps/%03d", step.Number)
	if s.opts.Archive != nil {
		if err := s.opts.Archive(step.Dir, outcome); err != nil {
			step.Dir = "" // the search has its figures, but there is no archive
			s.add(step)
			return step, nil, err
		}
	}
	s.add(step)
	return step, outcome, nil
}

// ended reports whether the error means that the caller ended the search.
func ended(err error) bool {
	return errors.Is(err, run.ErrStopped) || errors.Is(err, context.Canceled) || errors.Is(err, run.ErrProfile)
}

// isLimit reports whether a failed step shows a limit of the target: it did not
// accept that many subscriptions, but accepted fewer before.
func (s *finder) isLimit(plan stepPlan, err error) bool {
	var attach run.AttachError
	return errors.As(err, &attach) && (s.search.Maximum().Load > 0 || plan.held > 1)
}

// measure sets the figures of a step.
func (s *finder) measure(step *results.CapacityStep, p *profiles.Profile, o *run.Outcome) {
	r := o.Result
	step.Fill(r)
	step.Usage = usage(o)
	if r.Upstream.Scheduled > 0 {
		step.Events = eventRate(p, r.Upstream.Scheduled)
	}
	step.Offered = step.Events * step.FanOut
	if o.Backlog != nil {
		fillBacklog(step, o.Backlog, period(p))
	}
}

// fillBacklog sets the backlog of a step that has the figures of the result. period
// is the schedule's period.
func fillBacklog(s *results.CapacityStep, b *run.Backlog, period time.Duration) {
	s.Achieved, s.Undrained, s.Backlog.Most = b.Achieved, b.Undrained, b.Most
	if growth, off, ok := capacity.Growth(b.Readings, period); ok {
		s.Backlog.Growth, s.Backlog.Error = growth, off
		if s.Offered > 0 {
			s.Backlog.Share = growth / s.Offered
		}
	}
}

// eventRate returns the events per second of the schedule. For a schedule without a
// constant rate, it is the number of events that were due over the time.
func eventRate(p *profiles.Profile, emissions int64) float64 {
	switch s := p.Schedule; s.Kind {
	case "constant", "poisson":
		return float64(s.Rate)
	case "burst":
		return float64(s.Burst) / s.Every.Seconds()
	}
	return float64(emissions) / p.Phases.Measure.Seconds()
}

// period returns the time after which the schedule repeats itself.
func period(p *profiles.Profile) time.Duration {
	if p.Schedule.Kind == "burst" {
		return p.Schedule.Every
	}
	if p.Schedule.Rate > 0 {
		return time.Duration(float64(time.Second) / float64(p.Schedule.Rate))
	}
	return 0
}

// judge compares a step with the SLO. runErr is why the run ended early, or nil: a
// target that stopped accepting events has reached its limit.
func (s *finder) judge(step *results.CapacityStep, r *results.Result, runErr error) (string, []string) {
	u := r.Upstream
	m := capacity.Measured{
		Expected: step.Expected, Lost: step.Lost, Fired: u.Published, Failed: u.Refused + u.Uncertain, Dropped: r.Generator.DroppedEvents,
		Offered: step.Offered, Growth: step.Backlog.Growth, GrowthError: step.Backlog.Error, Bottleneck: r.Doubts(),
	}
	for _, lane := range step.Lanes {
		q, worst := lane.FromIntended, &m.Latency
		worst.P50, worst.P90, worst.P95 = max(worst.P50, q.P50), max(worst.P90, q.P90), max(worst.P95, q.P95)
		worst.P99, worst.P999 = max(worst.P99, q.P99), max(worst.P999, q.P999)
	}
	for i := range r.Lanes {
		if why := unjudgedLane(&r.Lanes[i], s.p.Lanes); why != "" {
			m.Unjudged = append(m.Unjudged, fmt.Sprintf("lane %s: %s", r.Lanes[i].Name, why))
		}
	}
	for _, b := range s.bounds {
		v, ok := step.Metrics[b.String()]
		if !ok {
			m.Unjudged = append(m.Unjudged, fmt.Sprintf("%s: the metric could not be read while the step published", b))
		} else if why := b.Broken(v); why != "" {
			m.Broken = append(m.Broken, why)
		}
	}
	verdict, reasons := capacity.Judge(&s.out.SLO, &m)
	if runErr != nil {
		return verdictFailed, append(reasons, runErr.Error())
	}
	return string(verdict), reasons
}

// unjudgedLane returns why a step says nothing about a lane; empty if it does, or if
// nothing is owed to the lane.
func unjudgedLane(l *results.Lane, lanes []profiles.Lane) string {
	if l.ReceivedNothing() {
		return fmt.Sprintf("it received nothing at all, and %d deliveries were owed", l.Expected)
	}
	of := slices.IndexFunc(lanes, func(p profiles.Lane) bool { return p.Name == l.Name })
	if l.Expected > 0 || of < 0 || lanes[of].HasNoSources() {
		return ""
	}
	return "nothing was owed to it"
}

func (s *finder) add(step results.CapacityStep) {
	s.secrets.ScrubAll(&step) // before anything else reads the step
	s.out.Steps = append(s.out.Steps, step)
	s.shown.Step(step)
	s.checkpoint()
	if s.opts.OnStep != nil {
		s.opts.OnStep(step)
	}
}

// checkpoint passes on the search so far. The scalability law is fitted only at the
// end.
func (s *finder) checkpoint() {
	if s.opts.Checkpoint == nil {
		return
	}
	out := *s.out
	out.Warnings = slices.Clone(out.Warnings)
	c := &finder{opts: s.opts, p: s.p, search: s.search, higher: s.higher, out: &out}
	c.summarise(errSearchCheckpoint)
	out.LawRefused = "the law is fitted when the search is over"
	if err := s.opts.Checkpoint(&out); err != nil && !s.checkpointFailed {
		s.checkpointFailed = true
		s.out.Warnings = append(
			s.out.Warnings,
			results.Warning{
				Code: "checkpoint",
				Text: fmt.Sprintf("a checkpoint could not be written, so less is left if the search is killed: %v", err),
			},
		)
	}
}

var errSearchCheckpoint = errors.New("this is a checkpoint, written after a step: the search was killed, or is not over")
