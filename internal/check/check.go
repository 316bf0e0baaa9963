// Package check judges a server by what no client does by accident: each step sends
// something on purpose, and says what must follow. A check takes the steps twice, at
// rest and under load, beside a run, which judges what passes anyway.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// endTime is how long before the limit a stage stops publishing, to drain.
const endTime = 20 * time.Second

// Run checks a target. A check that ended early has a result and an error. Errors are
// those of [run.Run].
func Run(ctx context.Context, o Options) (*results.Check, error) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(o.Limit))
	defer cancel()
	out := &results.Check{
		Schema:  results.CheckSchema,
		Version: o.Run.Version,
		Started: began.UTC(),
		Event:   o.Run.Profile.Lanes[0].Event,
		Stages:  []results.CheckStage{},
	}
	var seen [2]results.CheckSeen
	var err error
	for i, name := range results.CheckStages {
		until := began.Add(o.Limit - endTime)
		if i == 0 {
			until = began.Add(o.Limit * 2 / 5)
		}
		if o.Entered != nil {
			o.Entered(name)
		}
		if seen[i], err = o.stage(ctx, name, until, out); err != nil {
			break
		}
	}
	out.Finished = time.Now().UTC()
	out.Judge(seen[0], seen[1])
	run.SecretsOf(o.Run.Profile).ScrubAll(out)
	if len(out.Stages) == 0 {
		return nil, err
	}
	return out, err
}

// stage runs a stage, and adds it to the result.
func (o *Options) stage(ctx context.Context, name string, until time.Time, out *results.Check) (results.CheckSeen, error) {
	p := o.profile(name)
	s := &stage{opts: o, again: name != results.CheckStages[0], found: newFindings(), done: make(chan struct{})}
	entry := results.CheckStage{Name: name, Rate: float64(p.Schedule.Rate)}
	for _, l := range p.Lanes {
		s.modes = append(s.modes, eventmeter.Mode(l.Mode))
		entry.Subscriptions += l.Subscriptions
	}
	of := o.Run
	of.Profile, of.Beside = p, s.beside
	early := conform.Account{}
	of.Unmeasured = func(seen conform.Account) { early = early.Plus(seen) }
	stop, over, release := s.stop(o.Run.Stop, until)
	of.Stop = stop
	outcome, err := run.Run(ctx, of)
	release()
	late := over()
	switch {
	case errors.Is(err, run.ErrStopped) && !stopped(o.Run.Stop):
		err = nil // the stage ended itself
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		err, late = nil, true
	}
	switch {
	case outcome == nil && err == nil && len(out.Stages) == 0:
		return results.CheckSeen{}, fmt.Errorf("%w: its subscriptions were not open in time; give more with --limit", run.ErrTarget)
	case outcome == nil && errors.Is(err, run.ErrTarget) && early.Broken():
		// What kept the run from its measurement may be what it broke.
		entry.Ended = errtext.Line(err.Error())
		out.Stages = append(out.Stages, entry)
		return results.CheckSeen{Account: early}, nil
	case outcome == nil && err == nil:
		entry.Ended = "the subscriptions were not open in time"
		out.Stages = append(out.Stages, entry)
		return results.CheckSeen{}, nil
	case outcome == nil:
		return results.CheckSeen{}, err
	}
	out.Target = outcome.Result.Target
	out.Target.Leak = nil // of one part; a check judges no leaks
	entry.Rounds = s.rounds
	if g := &outcome.Result.Generator; g.Bottleneck {
		entry.Bottleneck = g.Reasons
	}
	if late {
		entry.Ended = overTime
	}
	if err != nil {
		entry.Ended = errtext.Line(err.Error())
	}
	for _, l := range outcome.Result.Lanes {
		entry.Delivered += l.Delivered
	}
	out.Stages = append(out.Stages, entry)
	return results.CheckSeen{Account: s.found.account.Plus(accountOf(outcome.Result.Conformance)), Why: s.found.why}, err
}

// stopped reports whether a channel is closed.
func stopped(c <-chan struct{}) bool {
	select {
	case <-c:
		return c != nil
	default:
		return false
	}
}

// stop returns the channel that ends the run of a stage: when its steps are done, when
// the time is over, which over reports, or when the caller's stop is closed. release
// ends the wait.
func (s *stage) stop(caller <-chan struct{}, until time.Time) (stop <-chan struct{}, over func() bool, release func()) {
	end, released := make(chan struct{}), make(chan struct{})
	late := false
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer crash.Guard()
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		select {
		case <-s.done:
		case <-t.C:
			late = true
		case <-caller:
		case <-released:
			return
		}
		close(end)
	})
	return end, func() bool { waiting.Wait(); return late }, func() { close(released) }
}

// profile returns the profile of a stage, which ends when its steps are done. Under
// load, the lanes share the subscriptions.
func (o *Options) profile(stage string) *profiles.Profile {
	p := *o.Run.Profile
	p.Phases.Measure, p.Phases.Until, p.Phases.MeasureAtMost, p.Thresholds = o.Limit, nil, 0, nil
	if stage == results.CheckStages[0] {
		return &p
	}
	p.Lanes = slices.Clone(p.Lanes)
	for i := range p.Lanes {
		p.Lanes[i].Subscriptions = max(o.Subscriptions*(i+1)/len(p.Lanes)-o.Subscriptions*i/len(p.Lanes), 1)
	}
	if o.Rate > 0 {
		p.Schedule.Rate = o.Rate
	}
	return &p
}

// accountOf returns what a run saw.
func accountOf(c *results.Conformance) conform.Account {
	out := conform.Account{}
	if c == nil {
		return out
	}
	for _, row := range c.Rows {
		if row.Seen == 0 {
			continue
		}
		n := conform.Count{Seen: row.Seen, Broken: row.Broken}
		if x := row.First; x != nil {
			n.First = &conform.Example{Lane: x.Lane, Subscription: x.Subscription, At: eventmeter.Instant(x.At), Message: x.Message}
		}
		out[row.Row] = n
	}
	return out
}
