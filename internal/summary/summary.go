// Package summary computes the result of a run from the accounts of its passes: it
// adds them up, judges the generator and the thresholds, and adds the warnings. Runs
// and merges of shards use it.
package summary

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/metrics"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Summary is a result to which passes are added. Only Warn is safe for concurrent
// use.
type Summary struct {
	// Result is the result so far.
	Result *results.Result
	// Accounts has one account, or one for each lane if lanes take turns.
	Accounts []ledger.Account
	// Judged is what each lane of the result saw of the rows of conformance; nil where
	// nobody judged.
	Judged []conform.Account
	// Until are the conditions that end the measured phase.
	Until []results.Condition
	// Upstream are the upstream's figures as metrics show them.
	Upstream metrics.Figures

	profile    *profiles.Profile
	thresholds []results.Threshold
	part       bool           // a shard: thresholds are judged on the merged run
	unfinished bool           // the run is in progress
	idle       bool           // the processes taken for the target were idle in a pass
	ends       map[string]end // of the lanes that were measured

	fireLag, fireLatency ledger.Timing // of all passes
	unsound              []string      // errors in the ledger itself
	conform              conform.Account

	mu sync.Mutex // guards Result.Warnings
}

// end is how the measured phase of a lane ended.
type end struct {
	measured time.Duration
	by       string
}

// Options are the options of a summary.
type Options struct {
	Profile    *profiles.Profile
	Thresholds []results.Threshold
	// Until are the conditions that end the measured phase.
	Until []results.Condition
	// Part marks a shard of a run; thresholds are judged on the merged run.
	Part bool
	// Result is the result before anything was measured.
	Result *results.Result
}

// New returns a summary without a pass.
func New(o Options) *Summary {
	return &Summary{Result: o.Result, profile: o.Profile, thresholds: o.Thresholds, Until: o.Until, ends: map[string]end{}, part: o.Part}
}

// Snapshot returns an independent copy, for a checkpoint. Only Warn may be called
// meanwhile.
func (s *Summary) Snapshot() *Summary {
	s.mu.Lock()
	res := *s.Result
	res.Warnings = slices.Clone(res.Warnings)
	s.mu.Unlock()
	res.Phases, res.Lanes = slices.Clone(res.Phases), slices.Clone(res.Lanes)
	return &Summary{
		Result:      &res,
		Accounts:    slices.Clone(s.Accounts),
		Judged:      slices.Clone(s.Judged),
		profile:     s.profile,
		thresholds:  s.thresholds,
		part:        s.part,
		unfinished:  true,
		idle:        s.idle,
		fireLag:     s.fireLag,
		fireLatency: s.fireLatency,
		unsound:     slices.Clone(s.unsound),
		conform:     s.conform,
	}
}

// Add adds a pass: its account, the figures that only the lanes' systems have, in the
// order of the lanes, the health of the generator, and the target's use of its
// machine. If lanes take turns there are several passes: counts add up, and of the
// generator's figures the worst is kept.
func (s *Summary) Add(a ledger.Account, own []results.PartFigures, generator results.Generator, target *results.Process) {
	s.Accounts = append(s.Accounts, a)
	res := s.Result
	u := &res.Upstream
	m := a.Measured
	// An emission without an answer at the end is uncertain.
	u.Published += m.Fired
	u.Accepted += m.Accepted
	u.Uncertain += m.Uncertain + m.Pending
	u.Refused += m.Refused
	u.Dropped += m.Dropped
	u.Scheduled = u.Published + u.Dropped
	u.Warmup += a.WarmUp.Fired
	s.fireLag = s.fireLag.Plus(a.FireLag)
	s.fireLatency = s.fireLatency.Plus(a.FireLatency)
	u.Lag, u.Answer = results.Summarise(s.fireLag), results.Summarise(s.fireLatency)
	turns := s.profile.Phases.Order == "turns"
	for i := range a.Lanes {
		l := results.NewLane(&a.Lanes[i])
		for name, v := range own[i].Values {
			l.Figures[name] = v
		}
		for name, t := range own[i].Timings {
			l.Timings[name] = results.Summarise(t)
		}
		if turns {
			l.Process = target
		}
		s.addConform(&l, own[i].Conform)
		res.Lanes = append(res.Lanes, l)
	}
	res.Generator = health.Worse(res.Generator, generator)
	res.Generator.DroppedEvents = results.ShareOf(u.Dropped, u.Scheduled)
	res.Target.Process = health.Together(res.Target.Process, target)
	if s.idle = s.idle || idle(target, res.Lanes[len(res.Lanes)-len(a.Lanes):]); s.idle {
		s.forgetTarget()
	}
	if s.unfinished && !s.part {
		// A checkpoint has no series to check; the whole account is checked at the
		// end.
	} else if err := a.Check(); err != nil {
		// A ledger that does not add up is our fault, and its figures are worth
		// nothing: say so as loudly as a result can.
		s.unsound = append(s.unsound, fmt.Sprintf("the ledger does not add up, which is a bug in eventmeter: %v", err))
	}
	s.judge(health.Bottlenecks(res.Generator, res.Host.CPUs, s.sending()))
}

// addConform adds what a lane saw of the rows of conformance.
func (s *Summary) addConform(l *results.Lane, seen conform.Account) {
	seen = seen.Of(l.Name, l.Duplicates.SameEmission)
	s.Judged = append(s.Judged, seen)
	if seen == nil {
		return
	}
	s.conform = s.conform.Plus(seen)
	s.Result.Conformance = results.NewConformance(s.conform)
}

// judge sets the reasons why the generator was the bottleneck: symptoms, what explains them,
// and errors in the ledger. A machine that is busy without symptoms is a warning.
func (s *Summary) judge(symptoms, busy []string) {
	g := &s.Result.Generator
	g.Reasons = append([]string{}, symptoms...)
	s.mu.Lock()
	s.Result.Warnings = slices.DeleteFunc(s.Result.Warnings, func(w results.Warning) bool { return w.Code == results.MachineBusy })
	s.mu.Unlock()
	if len(symptoms) > 0 {
		g.Reasons = append(g.Reasons, busy...)
	} else {
		for _, text := range busy {
			s.Warn(results.MachineBusy, "", "%s. Counts are exact; thresholds on times are not evaluated", text)
		}
	}
	g.Reasons = append(g.Reasons, s.unsound...)
	g.Bottleneck = len(g.Reasons) > 0
}

// JudgeMachines judges the generators of several machines: publishing over all of
// them, everything else per machine.
func (s *Summary) JudgeMachines(machines []Machine) {
	symptoms, busy := health.Bottlenecks(results.Generator{DroppedEvents: s.Result.Generator.DroppedEvents}, 1, s.sending())
	for _, m := range machines {
		m.Generator.DroppedEvents = 0
		named := func(reasons []string) []string {
			for i := range reasons {
				if len(machines) > 1 {
					reasons[i] = m.Name + ": " + reasons[i]
				}
			}
			return reasons
		}
		its, used := health.Bottlenecks(m.Generator, m.CPUs, health.Sending{})
		symptoms, busy = append(symptoms, named(its)...), append(busy, named(used)...)
	}
	s.judge(symptoms, busy)
}

// Machine is the combined health of all generators of one machine.
type Machine struct {
	Name      string
	CPUs      int
	Generator results.Generator
}

// Measured says how long a lane was measured, and what ended that.
func (s *Summary) Measured(lane string, took time.Duration, by string) { s.ends[lane] = end{took, by} }

// SetUpstream puts the figures that only the upstream has into the result.
func (s *Summary) SetUpstream(f results.PartFigures) {
	s.Upstream = metrics.FiguresOf(f.Values, f.Timings)
	u := &s.Result.Upstream
	if len(f.Values) > 0 {
		u.Figures = f.Values
	}
	for name, t := range f.Timings {
		if u.Timings == nil {
			u.Timings = map[string]results.Quantiles{}
		}
		u.Timings[name] = results.Summarise(t)
	}
}

// sending returns the figures of publishing so far that the generator is judged by.
func (s *Summary) sending() health.Sending {
	u := &s.Result.Upstream
	out := health.Sending{Workers: s.profile.Upstream.Workers, Lag: u.Lag, Answer: u.Answer}
	if s.profile.Schedule.Kind == "burst" {
		out.Burst = s.profile.Schedule.Burst
	}
	return out
}

// Warn adds a warning to the result. It is safe for concurrent use.
func (s *Summary) Warn(code, lane, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Result.Warnings = append(s.Result.Warnings, results.Warning{Code: code, Lane: lane, Text: fmt.Sprintf(format, args...)})
}
