// Package calibrate checks the ledger against injected faults: it runs each case of a
// profile on the reference server, computes from the definitions of its faults what
// the ledger must count, and compares.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// sideBySide is how many cases run at once, each with a target of its own. They
// mostly wait: a case keeps a tenth of a core busy.
const sideBySide = 8

// Run runs every case of opts.Profile on the embedded target with the faults of the
// case, and compares the ledger with the plan, lane by lane and subscription by
// subscription. The plan follows from the faults alone, by the definitions in
// docs/figures.md. Cases run side by side, each with a target of its own. tell is
// called after each case, in the order of the profile. The error is that of the first
// case that has one.
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

// calibrateCase runs one case. Every plan requires that all events were accepted;
// some require that each event of a source is over before the next begins. A run on a
// busy machine that broke such a condition says nothing about the ledger. It is
// repeated, a few times at most, with the same events at half the rate.
func calibrateCase(ctx context.Context, opts run.Options, c profiles.Case) (rows []Row, err error) {
	const tries = 5
	var unsound string
	for n := range tries {
		if rows, unsound, err = calibrateOnce(ctx, opts, c, 1<<n); err != nil || unsound == "" {
			return rows, err
		}
	}
	return nil, fmt.Errorf(
		"%w: in each of %d tries, the last time because %s: this machine is too busy to calibrate on",
		errBusy,
		tries,
		unsound,
	)
}

var errBusy = errors.New("no calibration")

// slowed returns a profile with the same events at a rate that is lower by a factor
// of times.
func slowed(p *profiles.Profile, times int) *profiles.Profile {
	slow := *p
	slow.Schedule.Rate /= profiles.Rate(times)
	slow.Phases.Warmup *= time.Duration(times)
	slow.Phases.Measure *= time.Duration(times)
	return &slow
}

// inOrder reports whether a plan depends on the order in which the target accepted
// the events of a source: an announcement is about its neighbours, an event that is
// held back or swapped waits for the next ones, 410 ends a subscription at the first
// event, and a list shows the newest change. All other faults are counted per event,
// in any order.
func inOrder(p *profiles.Profile, spec faults.Spec) bool {
	return slices.ContainsFunc(spec, func(f faults.Fault) bool {
		return slices.Contains([]faults.Kind{faults.Reorder, faults.Swap, faults.Announce, faults.Gone}, f.Kind)
	}) ||
		slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return calibrations[l.System].inOrder })
}

// swapped returns a function that reports whether an event swaps places with the next
// one on some streams. The plan assumes that the next one is an event of another
// source.
func swapped(p *profiles.Profile, spec faults.Spec) func(eventmeter.Stamp) bool {
	return func(s eventmeter.Stamp) bool {
		return slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool {
			f, _ := spec.Event(eventmeter.Mode(l.Mode), s)
			return f.Kind == faults.Swap
		})
	}
}

// calibrateOnce runs a case once, slower than written by the factor slower. unsound
// is why the plan does not hold, or empty.
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
	if rows := endedRows(c.Name, p, record, err); rows != nil {
		return rows, "", nil
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, "the target did not answer in time", nil
	case err != nil:
		return nil, "", err
	}
	switch {
	case nothing: // is owed, whatever is published
	case outcome.Result.Upstream.Dropped > 0:
		return nil, fmt.Sprintf("%d events could not be published in time", outcome.Result.Upstream.Dropped), nil
	default:
		if unsound := record.unsound(inOrder(p, spec), swapped(p, spec)); unsound != "" {
			return nil, unsound, nil
		}
	}
	if t := outcome.Result.Target.Tokens; t != nil && t.Requests > record.applied.Tokens.Requests {
		return nil, "a token was renewed after the target was asked", nil
	}
	for i := range outcome.Accounts[0].Lanes {
		m, err := newExpectedCounts(p, i, calibrations[p.Lanes[i].System], spec, record)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", run.ErrProfile, err)
		}
		m.seen = outcome.Judged[i]
		m.result, m.applied = outcome.Result.Lanes[i], record.applied
		m.tokens = outcome.Result.Target.Tokens
		if check := m.system.unsound; check != nil {
			if unsound := check(m, outcome); unsound != "" {
				return nil, unsound, nil
			}
		}
		rows = append(rows, m.compare(c.Name, &outcome.Accounts[0].Lanes[i], outcome.Subscriptions[i]))
	}
	return rows, starved(rows, outcome.Result.Generator), nil
}

// starved says why rows that differ from the plan say nothing: by its own judgement,
// the generator was the bottleneck of the run. It is empty where they do.
func starved(rows []Row, g results.Generator) string {
	if !g.Bottleneck || !slices.ContainsFunc(rows, func(r Row) bool { return !r.Passed }) {
		return ""
	}
	return "rows differ, and the generator was the bottleneck: " + strings.Join(g.Reasons, "; ")
}

// compare compares the account of a lane, and of each of its subscriptions, with the
// expected counts.
func (m *expectedCounts) compare(name string, lane *ledger.LaneAccount, subs []ledger.SubCounts) Row {
	row := Row{Case: name, Lane: lane.Name, Passed: true}
	if len(m.spec.Breaches()) > 0 { // what these do to the counts of the ledger is not planned
		sum := exactly("delivered + lost", lane.Expected, lane.Delivered+lane.Lost())
		sum.Notice = false
		row.add(sum)
		for _, d := range m.broken() {
			row.add(d)
		}
		if lane.NotReplayed > 0 || m.settings.Churn.Rate > 0 {
			row.add(m.unreplayed(lane))
		}
		return row
	}
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
