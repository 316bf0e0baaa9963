// Package calibrate holds the ledger against faults: it runs each case of a profile on
// the reference server, works out from the definition of its faults what must be
// counted, and compares.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// sideBySide is how many cases run at once, each with a target of its own. They
// wait most of their time: a case keeps a tenth of a core busy.
const sideBySide = 6

// Run runs every case of opts.Profile on the embedded target, each with
// its faults, and compares the ledger with the plan, lane by lane and
// subscription by subscription. The plan is drawn up from the faults alone, by
// the definitions of docs/figures.md. Cases run side by side, with a target
// each; tell is called after each of them, in the order of the profile. The
// error is that of the first case that has one.
func Run(ctx context.Context, opts run.Options, tell func([]Row)) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	cases := opts.Profile.Cases
	ends := make([]chan error, len(cases))
	rows := make([][]Row, len(cases))
	next := make(chan int, len(cases))
	for i := range cases {
		ends[i] = make(chan error, 1)
		next <- i
	}
	close(next)
	for range sideBySide {
		work.Go(func() {
			defer crash.Guard()
			for i := range next {
				var err error
				rows[i], err = calibrateCase(ctx, opts, cases[i])
				ends[i] <- err
			}
		})
	}
	for i, c := range cases {
		if err := <-ends[i]; err != nil {
			return fmt.Errorf("case %s: %w", c.Name, err)
		}
		tell(rows[i])
	}
	return nil
}

// calibrateCase runs one case. A plan may rest on each source's events being
// over before the next begins, and rests on each having been taken; a run in
// which a busy machine had it otherwise says nothing about the ledger, and is
// repeated with the same events at half the rate, a few times at most.
func calibrateCase(ctx context.Context, opts run.Options, c profiles.Case) (rows []Row, err error) {
	const tries = 5
	var unsound string
	for n := range tries {
		if rows, unsound, err = calibrateOnce(ctx, opts, c, 1<<n); err != nil || unsound == "" {
			return rows, err
		}
	}
	return nil, fmt.Errorf("%w: in each of %d tries, the last time %s: this machine is too busy to calibrate on", errBusy, tries, unsound)
}

var errBusy = errors.New("no calibration")

// slowed is a profile with the same events at a rate that is so many times
// lower.
func slowed(p *profiles.Profile, times int) *profiles.Profile {
	slow := *p
	slow.Schedule.Rate /= profiles.Rate(times)
	slow.Phases.Warmup *= time.Duration(times)
	slow.Phases.Measure *= time.Duration(times)
	return &slow
}

// inOrder says whether a plan rests on the order in which the target took the
// events of a source: an announcement speaks of what lies beside it, an event
// that is held back waits for the next ones, and a list shows the newest change.
// All else is counted event by event, in whatever order they came.
func inOrder(p *profiles.Profile, spec faults.Spec) bool {
	return slices.ContainsFunc(spec, func(f faults.Fault) bool { return f.Kind == faults.Reorder || f.Kind == faults.Announce }) ||
		slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return calibrations[l.System].inOrder })
}

// calibrateOnce runs a case once, so many times slower than it says. unsound
// says why its plan does not hold, if so.
func calibrateOnce(ctx context.Context, opts run.Options, c profiles.Case, slower int) (rows []Row, unsound string, err error) {
	p, err := opts.Profile.With(c)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", run.ErrProfile, err)
	}
	spec, err := faults.Load(c.Faults)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", run.ErrProfile, err)
	}
	nothing := !slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return !l.HasNoSources() })
	if !nothing {
		p = slowed(p, slower)
	}
	opts.Profile = p
	record := newTape()
	opts.Recorder, opts.Subscriptions, opts.Measured = record, true, record.askTarget
	outcome, err := run.Run(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	switch {
	case nothing: // is expected, whatever is fired
	case outcome.Result.Upstream.Dropped > 0:
		return nil, fmt.Sprintf("%d events could not be published in time", outcome.Result.Upstream.Dropped), nil
	default:
		if unsound := record.unsound(inOrder(p, spec)); unsound != "" {
			return nil, unsound, nil
		}
	}
	for i := range outcome.Accounts[0].Lanes {
		m, err := newExpectedCounts(p, i, calibrations[p.Lanes[i].System], spec, record)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", run.ErrProfile, err)
		}
		m.result, m.applied = outcome.Result.Lanes[i], record.applied
		m.tokens = outcome.Result.Target.Tokens
		if ripe := m.system.ripe; ripe != nil && !ripe(m, outcome) {
			return nil, "requests ended before the measured part began", nil
		}
		rows = append(rows, m.compare(c.Name, &outcome.Accounts[0].Lanes[i], outcome.Subscriptions[i]))
	}
	return rows, "", nil
}

// compare holds the account of a lane, and of each of its subscriptions, to
// the forecast.
func (m *expectedCounts) compare(name string, lane *ledger.LaneAccount, subs []ledger.SubCounts) Row {
	row := Row{Case: name, Lane: lane.Name, Passed: true}
	var sum planned
	for i := range subs {
		want := m.subscription(i)
		sum.plus(want)
		for _, d := range want.against(&subs[i], m.mode) {
			if !d.Passed {
				d.Name = fmt.Sprintf("subscription %d: %s", i, d.Name)
				row.add(d)
			}
		}
	}
	for _, d := range sum.against(&lane.SubCounts, m.mode) {
		row.add(d)
	}
	for _, d := range m.lane(lane) {
		row.add(d)
	}
	return row
}

func (r *Row) add(c Check) {
	if !c.Passed {
		r.Passed = false
	}
	if !c.Passed || c.Notice {
		r.Checks = append(r.Checks, c)
	}
}
