// Package trials searches for the largest load that a target can take: it runs a
// profile at the loads that [capacity.Search] asks for, judges each run, and measures
// what a subscription and a delivery cost.
package trials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/capacity"
	"github.com/eventmeter/eventmeter/internal/dialguard"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// maxRecover is the number of steps at the lowest load that a target gets to recover
// from an overload that did not drain.
const maxRecover = 5

// Find searches for the largest load on the profile's axis that meets its SLO, and
// draws up the cost sheet.
//
// If the search ended early, the capacity is partial and the error says why, as that
// of [run.Run] does; the capacity is nil if there was no step. A nil error means that
// the search is over; the outcome says how it ended.
func Find(ctx context.Context, opts Options) (*results.Capacity, error) {
	secrets := run.SecretsOf(opts.Profile)
	if save := opts.Checkpoint; save != nil {
		opts.Checkpoint = func(c *results.Capacity) error {
			secrets.ScrubAll(c)
			return save(c)
		}
	}
	out, err := search(ctx, opts, secrets)
	if out != nil {
		secrets.ScrubAll(out)
	}
	return out, secrets.ScrubError(err)
}

func search(ctx context.Context, opts Options, secrets *errtext.Secrets) (*results.Capacity, error) {
	s, err := newFinder(ctx, opts)
	if err != nil {
		return nil, err
	}
	s.secrets = secrets
	defer s.keep.Stop()
	s.shown = opts.Collector.Search(s.out.Started.Format("20060102T150405Z")+"-"+s.p.Name, s.opts.Name, s.p.Name, s.out.Axis)
	err = s.steps(ctx)
	if len(s.out.Steps) == 0 {
		return nil, err
	}
	s.finish(err)
	s.shown.Finish(s.out)
	return s.out, err
}

// newFinder checks everything that can be checked without contacting the target, at
// both ends of the range.
func newFinder(ctx context.Context, opts Options) (*finder, error) {
	p := opts.Profile
	c := p.Capacity
	if c.Axis == "" {
		return nil, fmt.Errorf("%w: it has no capacity section; add one, or give --axis and --from", run.ErrProfile)
	}
	guard := dialguard.New(nil)
	if opts.TargetMetrics != "" {
		if err := run.CheckHost(ctx, guard, opts.TargetMetrics, "--target-metrics", opts.AllowHosts); err != nil {
			return nil, err
		}
	}
	check := func(load float64) error {
		at, err := p.At(load)
		if err != nil {
			return fmt.Errorf("%w: %w", run.ErrProfile, err)
		}
		o := opts.Options
		o.Profile, o.Guard = at, guard
		if err := run.Check(ctx, o); err != nil {
			return fmt.Errorf("at a load of %v: %w", load, err)
		}
		return nil
	}
	if err := check(c.From); err != nil {
		return nil, err
	}
	to, higher := cmp.Or(c.To, 2*c.From), errors.New("raise capacity.to, or leave it out")
	if err := check(to); err != nil {
		return nil, err
	}
	if c.To == 0 { // up to the highest load that a run can have
		for higher = check(2 * to); higher == nil; higher = check(2 * to) {
			to *= 2
		}
	}
	search, err := capacity.New(capacity.Options{From: c.From, To: to, Integer: c.Axis != "rate", Precision: c.Precision, Confirm: c.Confirm})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", run.ErrProfile, err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write the profile into the result: %w", err)
	}
	opts.Options.Guard = guard // a name is resolved once for all steps
	s := &finder{opts: opts, p: p, search: search, higher: higher, run: run.Run}
	if p.Target.IsEmbedded() && !p.Target.OverStdio() && p.Upstream.Kind != "feed" {
		s.keep = &embedded.Keep{} // with a feed each step needs a new target, because the feed's address changes
	}
	if err := s.readBounds(); err != nil {
		return nil, err
	}
	l := c.SLO
	s.out = &results.Capacity{
		Schema:  results.CapacitySchema,
		Version: opts.Version,
		Name:    opts.Name,
		Started: time.Now().UTC(),
		Profile: text,
		Source:  opts.Source,
		Host:    health.Host(),
		Axis:    c.Axis,
		Unit:    profiles.Axes[c.Axis],
		SLO: results.CapacitySLO{
			P50:     results.Nanos(l.P50),
			P90:     results.Nanos(l.P90),
			P95:     results.Nanos(l.P95),
			P99:     results.Nanos(l.P99),
			P999:    results.Nanos(l.P999),
			Loss:    l.Loss,
			Backlog: l.Backlog,
			Metrics: l.Metrics,
		},
		Steps:    []results.CapacityStep{},
		Costs:    []results.CapacityCost{},
		Warnings: []results.Warning{},
	}
	return s, nil
}

// steps runs all steps. What idle subscriptions take is measured first, because a process does not
// give back at once what a load made it take; but not where a bound of the SLO may be on what they leave behind.
func (s *finder) steps(ctx context.Context) error {
	if len(s.bounds) == 0 {
		if err := s.hold(ctx); err != nil {
			return err
		}
		if s.p.Target.IsEmbedded() {
			s.keep.Stop()
		}
	}
	if err := s.loads(ctx); err != nil {
		return err
	}
	return s.costs(ctx)
}

// loads tries loads until the search is over.
func (s *finder) loads(ctx context.Context) error {
	for {
		load, more := s.search.Next()
		if !more {
			return nil
		}
		step, err := s.step(ctx, stepPlan{load: load, purpose: s.purpose(load)})
		if err != nil {
			return err
		}
		s.search.Record(load, capacity.Verdict(step.Verdict))
		if err := s.recover(ctx, step); err != nil {
			return err
		}
	}
}

// purpose names the purpose of a trial of a load.
func (s *finder) purpose(load float64) string {
	for _, p := range s.search.Points() {
		if p.Load != load {
			continue
		}
		if p.Trials() == 0 {
			return purposeRetry
		}
		return purposeConfirm
	}
	if s.search.Maximum().Above > 0 {
		return purposeBisect
	}
	return purposeBracket
}

// recover keeps an overload from affecting the next step. After a step that drained
// there is nothing to do. Otherwise an embedded target is restarted, and any other
// target gets the lowest load until it meets the SLO again.
func (s *finder) recover(ctx context.Context, after results.CapacityStep) error {
	if after.Undrained == 0 && after.Dir != "" {
		return nil
	}
	if s.p.Target.IsEmbedded() {
		s.keep.Stop()
		return nil
	}
	if s.p.Target.OverStdio() {
		return nil // each step starts the program anew
	}
	for range maxRecover {
		step, err := s.step(ctx, stepPlan{load: s.p.Capacity.From, purpose: purposeRecover})
		if err != nil {
			return err
		}
		if step.Undrained == 0 && len(step.Reasons) == 0 {
			return nil
		}
	}
	return fmt.Errorf(
		"%w: after an overload it no longer met the SLO at the lowest load, in %d tries; restart the target, or lower capacity.to",
		run.ErrTarget,
		maxRecover,
	)
}
