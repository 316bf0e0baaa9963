package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goio "io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/duet"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// againstFlags are the flags of the run command for a second target.
type againstFlags struct {
	url, command, upstreamURL string
	gates                     []string

	parsed []stats.Gate // of gates
}

func (a *againstFlags) add(c *cobra.Command) {
	addFlags(c, []flagSpec{
		{&a.url, "against", "URL of a second target, which gets the same events at the same time and is compared with the first one"},
		{&a.command, "against-command", "instead of --against: a program, with its arguments, that is the second target"},
		{
			&a.upstreamURL, "against-upstream-url",
			"with --against: URL of the upstream of the second target; --upstream-url is that of the first",
		},
		{
			&a.gates, "gate",
			"with --against: fail when this figure is worse at the second target by more than a share, e.g. 'push.p99 <= +5%' (repeatable)",
		},
	})
}

// wanted reports whether there is a second target.
func (a *againstFlags) wanted() bool { return a.url != "" || a.command != "" }

// check reads the flags, and refuses what a run with two targets cannot do.
func (a *againstFlags) check(f *runFlags) error {
	if !a.wanted() {
		if a.upstreamURL != "" || len(a.gates) > 0 {
			return usagef("--against-upstream-url and --gate are about a second target: name it with --against or --against-command")
		}
		return nil
	}
	if a.url != "" && a.command != "" {
		return usagef("--against and --against-command: give one of the two")
	}
	for _, other := range []struct {
		given     bool
		flag, why string
	}{
		{f.shards.processes > 1, "--processes", "one process publishes to both targets; leave it out"},
		{f.shards.shard != "", "--shard", "one process publishes to both targets; leave it out"},
		{f.trials > 1 || len(f.profiles) > 1, "--trials or several --profile",
			"a comparison of two targets is of one run; measure longer with --set phases.measure=1m"},
		{f.record != "", "--record", "a trace is of one target; record it in a run of its own"},
		{f.ofTarget != "", "--target-metrics", "they are of one target; leave it out"},
		{f.metrics.wanted(), "live metrics", "they show one target; leave --metrics, --remote-write and --otlp out"},
	} {
		if other.given {
			return usagef("--against beside %s: %s", other.flag, other.why)
		}
	}
	var err error
	if a.parsed, err = stats.ParseGates(a.gates); err != nil {
		return usageError{err}
	}
	return nil
}

// profile reads the profile again, for the second target.
func (a *againstFlags) profile(f runFlags, base *profiles.Profile) (*profiles.Profile, error) {
	if err := duet.CheckBase(base); err != nil {
		return nil, err
	}
	f.target.url, f.target.command = a.url, a.command
	if a.upstreamURL != "" {
		f.upstreamURL = a.upstreamURL
	}
	p, err := loadProfile(f, f.profiles[0])
	if err != nil {
		return nil, fmt.Errorf("the second target: %w", err)
	}
	return p, cmp.Or(duet.Check(base, p), duet.CheckGates(p, a.parsed))
}

// runDuet runs a profile on two targets at once, and compares them. Its archive has a
// directory for each run, and the comparison.
func runDuet(ctx context.Context, stop <-chan struct{}, f *runFlags, base *profiles.Profile, dir string, io streams) error {
	against, err := f.against.profile(*f, base)
	if err != nil {
		return err
	}
	view := newView(io.err, base, viewOptions{f.quiet, f.plain, f.verbose})
	shown := &duetView{view: view}
	o := duet.Options{Stop: stop}
	var dirs [2]string
	for i, p := range []*profiles.Profile{base, against} {
		dirs[i] = filepath.Join(dir, duet.Sides[i])
		if err := makeOut(dirs[i]); err != nil {
			return err
		}
		o.Runs[i] = f.options(p, nil)
		o.Runs[i].Progress = func(p run.Progress) { shown.update(i, p) }
		o.Runs[i].Checkpoint = func(o *run.Outcome) error { return checkpoint(dirs[i], o) }
	}
	outcome, runErr := duet.Run(ctx, o)
	view.close()
	if outcome == nil {
		outcome = &duet.Outcome{}
	}
	saved := 0
	var writeErr error
	for i, one := range outcome.Runs {
		if one == nil {
			_ = os.Remove(dirs[i]) // only if it is still empty
			continue
		}
		saved++
		writeErr = errors.Join(writeErr, unsaved(dirs[i], archive(dirs[i], one), false))
	}
	if saved == 0 {
		_ = os.Remove(dir)
		return runErr
	}
	if outcome.Pairs == nil || writeErr != nil {
		return errors.Join(runErr, writeErr)
	}
	return f.judgeDuet(outcome, dir, dirs, runErr, io)
}

// judgeDuet compares the two archives, writes the comparison, and returns the error
// that decides the exit code.
func (f *runFlags) judgeDuet(o *duet.Outcome, dir string, dirs [2]string, runErr error, io streams) error {
	c, err := compareDuet(dirs, o.Pairs)
	if err != nil {
		return errors.Join(runErr, err)
	}
	c.Gates = c.Judge(f.against.parsed)
	// For CI systems, gates are thresholds of the second run.
	gated := *o.Runs[1].Result
	gated.Thresholds = slices.Concat(gated.Thresholds, c.Gates)
	shown := []*results.Result{o.Runs[0].Result, &gated}
	format, out := &f.output.format, f.output.format.notes(io)
	forms := comparisonForms(c)
	forms[formatMarkdown] = func(w goio.Writer) error {
		err := report.CompareMarkdown(w, c)
		for _, one := range o.Runs {
			err = errors.Join(err, report.Markdown(w, one.Result))
		}
		return err
	}
	forms[formatJUnit] = func(w goio.Writer) error { return report.JUnit(w, shown...) }
	err = errors.Join(format.all(io, forms), saveDuet(dir, c))
	var unmet []error
	for i, one := range o.Runs {
		if f.output.annotate != "" {
			err = errors.Join(err, report.Annotations(out, shown[i], f.output.annotate))
		}
		for _, t := range one.Result.Thresholds {
			if !t.Passed {
				fmt.Fprintf(out, "%s: threshold %s: %s\n", duet.Sides[i], report.Clean(t.Threshold), report.Clean(t.Text))
			}
		}
		// A slow generator delays both targets alike, which makes no comparison wrong. It
		// may be the reason why a threshold is not met.
		if tally := results.TallyOf(one.Result.Thresholds); tally.Failed+tally.NotEvaluated > 0 {
			unmet = append(unmet, fmt.Errorf("%s: %w", duet.Sides[i], verdict(one.Result, nil, nil)))
		}
	}
	if err == nil && format.isText() {
		fmt.Fprintf(out, "\nresults in %s\n", dir)
	}
	if runErr != nil || err != nil {
		return errors.Join(runErr, err)
	}
	if failed := gateErrors(c); failed != nil {
		return failed
	}
	return errors.Join(unmet...)
}

func compareDuet(dirs [2]string, pairs *stats.Duet) (*stats.Comparison, error) {
	var sides [2]*stats.Side
	for i, dir := range dirs {
		var err error
		if sides[i], err = stats.LoadSide([]string{dir}); err != nil {
			return nil, err
		}
	}
	return stats.CompareDuet(sides[0], sides[1], pairs, stats.CompareOptions{})
}

// saveDuet writes the comparison beside the archives of its two runs.
func saveDuet(dir string, c *stats.Comparison) error {
	var err error
	forms := comparisonForms(c)
	for name, format := range map[string]string{
		"comparison.json": formatJSON,
		"comparison.txt":  formatText,
		"comparison.md":   formatMarkdown,
		reportPage:        formatHTML,
	} {
		err = errors.Join(err, results.WriteFile(filepath.Join(dir, name), forms[format]))
	}
	return err
}

// duetView shows the lanes of both runs in one view, in the phase of the first.
type duetView struct {
	view *view

	mu   sync.Mutex
	last [2]run.Progress
}

func (d *duetView) update(side int, p run.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last[side] = p; side != 0 {
		return
	}
	var lanes []ledger.LiveLane
	for i, of := range d.last {
		for _, l := range of.Live.Lanes {
			d.view.frames.modes[duet.Sides[i]+"/"+l.Name] = d.view.frames.modes[l.Name]
			l.Name = duet.Sides[i] + "/" + l.Name
			lanes = append(lanes, l)
		}
	}
	p.Live.Lanes = lanes
	if p.Trouble == "" {
		p.Trouble = d.last[1].Trouble
	}
	d.view.update(p)
}
