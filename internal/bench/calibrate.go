package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// CalibrationRow is one lane of one case: what the faults' plan says, and what
// the ledger counted.
type CalibrationRow struct {
	Case, Lane string
	// Checks are the figures that the faults change, and those that differ.
	Checks []Check
	Passed bool
}

// Check is one figure, planned and measured.
type Check struct {
	Name           string
	Want           string // "12", or a bound such as ">= 4"
	Got            int64
	Passed, Notice bool // Notice: worth showing although it passed
}

// sideBySide is how many cases run at once, each with a target of its own. They
// wait most of their time: a case keeps a tenth of a core busy.
const sideBySide = 6

// Calibrate runs every case of opts.Profile on the embedded target, each with
// its faults, and compares the ledger with the plan, lane by lane and
// subscription by subscription. The plan is drawn up from the faults alone, by
// the definitions of docs/figures.md. Cases run side by side, with a target
// each; tell is called after each of them, in the order of the profile. The
// error is that of the first case that has one.
func Calibrate(ctx context.Context, opts Options, tell func([]CalibrationRow)) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	cases := opts.Profile.Cases
	ends := make([]chan error, len(cases))
	rows := make([][]CalibrationRow, len(cases))
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
func calibrateCase(ctx context.Context, opts Options, c profiles.Case) (rows []CalibrationRow, err error) {
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
		slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return l.System == faults.SEP2549 })
}

// calibrateOnce runs a case once, so many times slower than it says. unsound
// says why its plan does not hold, if so.
func calibrateOnce(ctx context.Context, opts Options, c profiles.Case, slower int) (rows []CalibrationRow, unsound string, err error) {
	p, err := opts.Profile.With(c)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrProfile, err)
	}
	spec, err := faults.Load(c.Faults)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrProfile, err)
	}
	deaf := !slices.ContainsFunc(p.Lanes, func(l profiles.Lane) bool { return !l.HearsNone() })
	if !deaf {
		p = slowed(p, slower)
	}
	opts.Profile = p
	opts.tape = newTape()
	outcome, err := Run(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	switch {
	case deaf: // whatever is fired
	case outcome.Result.Upstream.Dropped > 0:
		return nil, fmt.Sprintf("%d events could not be published in time", outcome.Result.Upstream.Dropped), nil
	default:
		if unsound := opts.tape.unsound(inOrder(p, spec)); unsound != "" {
			return nil, unsound, nil
		}
	}
	for i := range outcome.Accounts[0].Lanes {
		m, err := newExpectedCounts(p, i, spec, opts.tape)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrProfile, err)
		}
		m.result, m.told = outcome.Result.Lanes[i], opts.tape.told
		if !m.ripe(outcome) {
			return nil, "requests ended before the measured part began", nil
		}
		rows = append(rows, m.compare(c.Name, &outcome.Accounts[0].Lanes[i], outcome.subs[i]))
	}
	return rows, "", nil
}

// unsound says why no plan can be drawn up from what was fired, "" if one can:
// an event was not taken for sure, or, where order matters, two of a source were
// on their way at once.
func (t *tape) unsound(order bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, e := range t.fired {
		if e.outcome != eventmeter.Accepted {
			return fmt.Sprintf("event %d of source %d was %s", s.Seq, s.Source, e.outcome)
		}
		s.Seq++
		if next := t.fired[s]; next != nil && next.Fired <= e.acked && order {
			return fmt.Sprintf("event %d of source %d was not over when the next began", s.Seq-1, s.Source)
		}
	}
	return ""
}

// tape is a Recorder that keeps, for the plan, what was fired, and when gaps
// were announced.
type tape struct {
	eventmeter.Recorder // ignores all else

	mu    sync.Mutex
	fired map[eventmeter.Stamp]*taped
	gaps  map[eventmeter.Sub][]eventmeter.Instant
	told  appliedFaults // what the target says in the end
}

// taped is one emission.
type taped struct {
	eventmeter.Emission
	outcome eventmeter.Outcome
	acked   eventmeter.Instant
}

func newTape() *tape {
	return &tape{Recorder: eventmeter.Tee(), fired: map[eventmeter.Stamp]*taped{}, gaps: map[eventmeter.Sub][]eventmeter.Instant{}}
}

// Fired implements [eventmeter.Recorder].
func (t *tape) Fired(e eventmeter.Emission) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fired[e.Stamp] = &taped{Emission: e}
}

// Resolved implements [eventmeter.Recorder].
func (t *tape) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, at eventmeter.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.fired[s]; e != nil {
		e.outcome, e.acked = o, at
	}
}

// Noticed implements [eventmeter.Recorder].
func (t *tape) Noticed(n eventmeter.Notice) {
	if n.Kind != eventmeter.Truncated {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gaps[n.Sub] = append(t.gaps[n.Sub], n.At)
}

// gapsOf lists when the subscriptions of a lane read that there was a gap.
func (t *tape) gapsOf(lane, subscriptions int) [][]eventmeter.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([][]eventmeter.Instant, subscriptions)
	for i := range out {
		out[i] = slices.Clone(t.gaps[eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)}])
	}
	return out
}

// of lists the accepted emissions of a source in order.
func (t *tape) of(source uint16) []*taped {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*taped
	for s, e := range t.fired {
		if s.Source == source && e.outcome == eventmeter.Accepted {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *taped) int { return int(a.Seq) - int(b.Seq) })
	return out
}

// compare holds the account of a lane, and of each of its subscriptions, to
// the forecast.
func (m *expectedCounts) compare(name string, lane *sinks.LaneAccount, subs []sinks.SubCounts) CalibrationRow {
	row := CalibrationRow{Case: name, Lane: lane.Name, Passed: true}
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

func (r *CalibrationRow) add(c Check) {
	if !c.Passed {
		r.Passed = false
	}
	if !c.Passed || c.Notice {
		r.Checks = append(r.Checks, c)
	}
}

func exactly(name string, want, got int64) Check {
	return Check{Name: name, Want: fmt.Sprint(want), Got: got, Passed: got == want, Notice: want != 0}
}

func atLeast(name string, want, got int64) Check {
	return Check{Name: name, Want: fmt.Sprintf(">= %d", want), Got: got, Passed: got >= want, Notice: want != 0}
}

// millis compares latencies in whole milliseconds.
func millis(n results.Nanos) int64 { return int64(n) / 1e6 }
