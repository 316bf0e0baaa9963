// Package duet measures two targets at once. Both get the same events, in random
// order, from one process, and what each delivery took is compared with what it took
// at the other target: what the machine did at that time delayed both.
package duet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/profiles"
)

// Sides are the names of the two sides of a duet.
var Sides = [2]string{"base", "against"}

// Options are the options of a duet.
type Options struct {
	// Runs are the options of the two runs. Their profiles differ in the target and
	// the upstream alone.
	Runs [2]run.Options
	// Stop ends both runs early but in order when it is closed.
	Stop <-chan struct{}
}

// Outcome is the outcome of a duet.
type Outcome struct {
	// Runs are the outcomes of the runs; nil = nothing was measured.
	Runs [2]*run.Outcome
	// Pairs is nil unless both runs measured something.
	Pairs *stats.Duet
}

// CheckBase refuses profiles that cannot be run on two targets. Errors wrap
// [run.ErrProfile].
func CheckBase(p *profiles.Profile) error {
	switch {
	case len(p.Cases) > 0:
		return fmt.Errorf("%w: a calibration starts its own targets; run it without --against", run.ErrProfile)
	case p.Target.IsEmbedded():
		return fmt.Errorf(
			"%w: a duet needs two targets, and the first one is not given; name it with --target or --command",
			run.ErrProfile,
		)
	case len(p.Phases.Until) > 0:
		return fmt.Errorf(
			"%w: phases.until: a duet judges pairs of deliveries, not the latencies of one run; remove it and set phases.measure",
			run.ErrProfile,
		)
	case p.Phases.Order == "turns":
		return fmt.Errorf("%w: phases.order: turns: the lanes of a duet run together; write together", run.ErrProfile)
	case p.Upstream.Kind == "none" || p.Upstream.Kind == "feed":
		return fmt.Errorf(
			"%w: upstream.kind %s: a duet publishes each event to both targets; use another kind",
			run.ErrProfile,
			p.Upstream.Kind,
		)
	}
	for _, l := range p.Lanes {
		if l.Webhook.Listen != "" || l.Webhook.Callback != "" {
			return fmt.Errorf(
				"%w: lanes.%s.webhook: a duet has a listener for each target, so that listen and callback cannot be given; leave them out",
				run.ErrProfile,
				l.Name,
			)
		}
	}
	return nil
}

// Check refuses profiles that cannot be run as a duet. Errors wrap [run.ErrProfile].
func Check(base, against *profiles.Profile) error {
	if err := CheckBase(base); err != nil {
		return err
	}
	if base.Target.URL != "" && base.Target.URL == against.Target.URL {
		return fmt.Errorf("%w: --against is the URL of the first target; name another one", run.ErrProfile)
	}
	a, b := publishesTo(&base.Upstream), publishesTo(&against.Upstream)
	for i := range a {
		if a[i] != "" && a[i] == b[i] {
			return fmt.Errorf(
				"%w: both targets would get their events through the same URL; name that of the second one with --against-upstream-url",
				run.ErrProfile,
			)
		}
	}
	return nil
}

// CheckGates refuses gates for which the profile has no lane or publishes too few events. Errors wrap
// [run.ErrProfile].
func CheckGates(p *profiles.Profile, gates []stats.Gate) error {
	for _, g := range gates {
		known, need := g.Where() == "run", g.Events()
		for _, l := range p.Lanes {
			if g.Where() != "*" && g.Where() != l.Name {
				continue
			}
			known = true
			have, long := run.Due(p, l), p.Phases.Measure
			if have >= need {
				continue
			}
			// A tenth more, because a busy machine drops some.
			longer := long*time.Duration(need+need/10)/time.Duration(max(1, have)) + time.Second - 1
			const text = "%w: gate %s: lane %s needs %d independent events, and %d are published in %v: raise the rate, or give --duration %v"
			return fmt.Errorf(
				text, run.ErrProfile, g, l.Name, need, have, long, longer.Truncate(time.Second),
			)
		}
		if !known {
			return fmt.Errorf("%w: gate %s: there is no lane %s", run.ErrProfile, g, g.Where())
		}
	}
	return nil
}

// publishesTo lists the URLs that an upstream sends events to.
func publishesTo(u *profiles.Upstream) []string {
	return []string{u.Admin, u.HTTP.URL, u.GitHub.URL, u.Slack.URL, u.Stripe.URL, u.Replay.URL}
}

// Run measures both targets. If a run ends early, so does the other; the error says
// which, and wraps what [run.Run] returns.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	if err := Check(o.Runs[0].Profile, o.Runs[1].Profile); err != nil {
		return nil, err
	}
	for i, side := range o.Runs { // both, before either is loaded
		if err := run.Check(ctx, side); err != nil {
			return nil, fmt.Errorf("%s: %w", Sides[i], err)
		}
	}
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	var both sync.WaitGroup
	ended := make(chan struct{})
	both.Go(crash.Guarded(func() {
		select {
		case <-o.Stop:
			end()
		case <-ended:
		}
	}))
	together := loadgen.NewTogether(len(Sides), o.Runs[0].Profile.Schedule.Seed)
	out := &Outcome{}
	var recorders [2]*recorder
	var errs [2]error
	var runs sync.WaitGroup
	for i := range Sides {
		side := o.Runs[i]
		recorders[i] = newRecorder(side.Profile)
		side.Recorder, side.Together, side.Stop = recorders[i], together, stop
		runs.Go(crash.Guarded(func() {
			out.Runs[i], errs[i] = run.Run(ctx, side)
			if errs[i] != nil {
				end() // the other has nothing to be paired with any more
			}
		}))
	}
	runs.Wait()
	close(ended)
	both.Wait()
	if out.Runs[0] != nil && out.Runs[1] != nil {
		out.Pairs = pairs(o.Runs[0].Profile, recorders)
	}
	return out, reasonOf(errs)
}

// reasonOf returns why a duet ended early: a run that was stopped because of the other
// one is not the reason.
func reasonOf(errs [2]error) error {
	var out []error
	for i, err := range errs {
		if err != nil && !errors.Is(err, run.ErrStopped) {
			out = append(out, fmt.Errorf("%s: %w", Sides[i], err))
		}
	}
	if len(out) == 0 && (errs[0] != nil || errs[1] != nil) {
		return run.ErrStopped
	}
	return errors.Join(out...)
}
