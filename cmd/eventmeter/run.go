package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

func newRunCommand(io streams) *cobra.Command {
	f := runFlags{reader: &profileReader{in: io.in}, profiles: []string{"compare"}, trials: 1}
	c := &cobra.Command{
		Use:   "run [PROFILE...]",
		Short: "Run a profile and report the result",
		Long: `Run opens the subscriptions of a profile, publishes stamped events, waits until they
have arrived or phases.drain is over, prints a summary of the lanes, and writes the
result with its report to a directory. Without --target it starts the embedded
reference server in a separate process.

The summary has at most 20 lines; --full prints all figures, as report.txt has them.

With --processes the run is split among several processes of this machine, to
exceed the limits of one process, and their results are merged. With --shard this
process is one part of a run on several machines. A shard does not judge
thresholds; eventmeter merge merges the parts and judges the thresholds.

With --against or --against-command the run is a duet: two targets, such as two
builds of one server, get the same events at the same time, in random order, and the
latencies of each event at both are compared as pairs. Other work of the machine delays
both, so a duet finds differences that two runs, one after the other, do not. The run
prints a comparison like that of eventmeter compare; the directory of --out has the
archives base and against. With --gate the exit code is 1 when a figure of the second
target is worse by more than a share. Thresholds judge each run.

With --until the measured phase goes on until a latency is known exactly enough: until
half the width of its 95 % interval is at most the given share of the latency. The
phase takes phases.measure at least and phases.measureAtMost at most, by default ten
times as long. The result says what ended the phase. If it was phases.measureAtMost, the
result has a warning, and the exit code stays the same.

Press Ctrl-C once to stop publishing, drain, and write a partial result; press it
twice to skip the drain.

` + exitCodesHelp,
		Example: `  eventmeter run
  eventmeter run push --subscriptions 2000 --rate 20/s --duration 30s
  eventmeter run mine.yaml --format json --format junit=junit.xml --quiet > result.json
  eventmeter run --target http://127.0.0.1:8080/mcp --token any --upstream-url http://127.0.0.1:8081
  eventmeter run push --set lanes.push.push.heartbeat=10s --until 'push.p99 ±5%'
  eventmeter run mine.yaml --command 'node server.js --verbose'
  eventmeter run --processes 4
  eventmeter run --target http://127.0.0.1:8080/mcp --upstream-url http://127.0.0.1:8081 \
      --against http://127.0.0.1:9080/mcp --against-upstream-url http://127.0.0.1:9081 \
      --gate 'push.p99 <= +5%'
  eventmeter run --shard 0/4 --start-at 2026-11-20T10:00:00Z --out part-0 \
      --target http://10.0.0.9/mcp --upstream-url http://10.0.0.9:8081 --allow-host 10.0.0.9`,
		RunE: func(c *cobra.Command, _ []string) error {
			f.variables = fromVariables(c)
			return runAll(c.Context(), f, io)
		},
	}
	f.add(c)
	return c
}

// add adds the flags of the run command.
func (f *runFlags) add(c *cobra.Command) {
	addFlags(c, []flagSpec{
		{&f.profiles, "profile,p", "built-in profile, file, or - for standard input, the same as the argument; several are run in turn"},
		{
			&f.trials, "trials",
			"number of runs of each profile; the trials of several profiles alternate, so that drift affects all of them equally",
		},
		{
			&f.upstream, "upstream",
			"kind of upstream: inject, http, github, slack, stripe, feed, tool, exec, replay or none (default: the profile's)",
		},
		{
			&f.upstreamURL, "upstream-url",
			"URL of the upstream: the admin address for inject and replay, otherwise the URL that requests are sent to",
		},
		{&f.record, "record", "write a trace of the published events to this file, or, with upstream none, of the received events"},
		{
			&f.until, "until",
			"measure until a latency is known this exactly, e.g. 'push.p99 ±5%' or '*.p50 +-2%', from phases.measure on, up to " +
				"phases.measureAtMost (repeatable: all must hold)",
		},
		{&f.out, "out,o", "directory for the result (default results/runs/<time>-<profile>)"},
		{&f.verbose, "verbose,v", "print the settings of flags and variables, and keep a line for each phase"},
		{&f.plain, "plain", plainHelp},
	})
	profileArgument(c, 0, func(names []string) { f.profiles = names })
	f.short.add(c)
	f.against.add(c)
	f.shards.add(c)
	f.output.add(c)
	f.addMeasured(c)
	f.addCommon(c, ", e.g. lanes.push.subscriptions=1000")
}

// runAll is the run command: every profile once, or as often as there are trials.
func runAll(ctx context.Context, f runFlags, io streams) error {
	if f.trials < 1 {
		return usagef("--trials %d: want 1 or more", f.trials)
	}
	if f.record != "" && (f.trials > 1 || len(f.profiles) > 1) {
		return usagef("--record takes one run: one profile, and no --trials")
	}
	if err := cmp.Or(f.checkName(), f.output.check(), f.shards.check(&f), f.metrics.check(), f.against.check(&f)); err != nil {
		return err
	}
	all, err := f.loadAll()
	if err != nil {
		return err
	}
	bases, releaseDirs, err := f.directories(all)
	defer releaseDirs()
	if err != nil {
		return err
	}
	if f.verbose {
		f.sayOverrides(io.err)
	}
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	shown, err := f.metrics.open(io, 0)
	if err != nil {
		return err
	}
	defer shown.close(ctx, stop)
	f.collector = shown.collector()
	var errs []error
	for trial := range f.trials {
		for i, p := range all {
			if f.trials > 1 && !f.quiet {
				fmt.Fprintf(io.err, "trial %d of %d, %s\n", trial+1, f.trials, p.Name)
			}
			switch {
			case f.against.wanted():
				err = runDuet(ctx, stop, &f, p, f.dir(bases[i], trial), io)
			case len(p.Cases) > 0:
				err = runCalibration(ctx, stop, f, p, io)
			default:
				err = runProfile(ctx, stop, &f, p, f.dir(bases[i], trial), io)
			}
			errs = append(errs, f.named(err, p.Name, trial))
			if code := exitCode(err); code == exitInterrupted || code == exitUsage {
				return errors.Join(errs...) // the next one would fail as well
			}
		}
	}
	return errors.Join(errs...)
}

// runProfile runs one profile once and writes its result to dir.
func runProfile(ctx context.Context, stop <-chan struct{}, f *runFlags, p *profiles.Profile, dir string, io streams) error {
	// Make the directory before the run, so that half an hour of measuring does not
	// end in an error about a path.
	if err := makeOut(dir); err != nil {
		return err
	}
	options := f.options(p, stop)
	var trace *traceFile
	if f.record != "" {
		var err error
		if trace, err = newTraceFile(f.record); err != nil {
			return err
		}
		defer trace.discard()
		options.Record = trace.file
	}
	view := newView(io.err, p, viewOptions{f.quiet, f.plain, f.verbose})
	options.Progress = view.update
	options.Checkpoint = func(o *run.Outcome) error { return checkpoint(dir, o) }
	outcome, runErr := f.shards.run(ctx, options, dir)
	view.close()
	if outcome == nil {
		_ = os.Remove(dir) // only if it is still empty
		return runErr
	}
	err := f.output.all(outcome, dir, io)
	if trace != nil {
		err = errors.Join(err, trace.keep(outcome, io))
	}
	if outcome.Part != nil && runErr == nil {
		return err // merge judges the thresholds
	}
	return verdict(outcome.Result, runErr, err)
}

// verdict returns the error that decides the exit code. The first of these wins: the
// run did not finish, a file was not written, the generator was the bottleneck, a
// threshold failed, a threshold was not evaluated.
func verdict(r *results.Result, runErr, writeErr error) error {
	if runErr != nil || writeErr != nil {
		return errors.Join(runErr, writeErr)
	}
	if r.Generator.Bottleneck {
		return errBottleneck
	}
	switch t := results.TallyOf(r.Thresholds); {
	case t.Failed > 0:
		return errThreshold
	case t.NotEvaluated > 0:
		return errUnjudged
	}
	return nil
}

// archive writes the files of a run. The part of a shard comes first: if the process
// is killed in between, the part is at least as new as the result.
func archive(dir string, o *run.Outcome) error {
	var err error
	if o.Part != nil {
		if err = os.MkdirAll(dir, 0o750); err == nil {
			err = results.SavePart(dir, o.Part)
		}
	}
	err = errors.Join(err, results.Save(dir, o.Result, o.Accounts))
	if err == nil {
		err = results.WriteFile(filepath.Join(dir, "report.txt"), reportOf(report.Text, o.Result))
	}
	if err == nil {
		err = writePage(dir)
	}
	return err
}

// checkpoint writes the measurements of a run in progress.
func checkpoint(dir string, o *run.Outcome) error {
	return results.SaveCheckpoint(dir, o.Result, o.Part)
}

// unsaved adds to an error about the archive which figures of the run are saved.
// printed says that the output has them.
func unsaved(dir string, err error, printed bool) error {
	if err == nil {
		return nil
	}
	kept, loadErr := results.Load(dir)
	switch {
	case loadErr == nil && !kept.Checkpoint:
		return fmt.Errorf("%w; %s is saved, but the other files of the archive are incomplete", err, filepath.Join(dir, results.File))
	case loadErr == nil:
		err = fmt.Errorf("%w; %s is a checkpoint from some seconds before the end", err, filepath.Join(dir, results.File))
	}
	if errors.Is(err, results.ErrFormat) {
		return fmt.Errorf("%w; the archive is not saved: this is a defect of eventmeter, please report it", err)
	}
	if printed {
		return fmt.Errorf("%w; the figures above are not saved: free some space or choose another --out, and run again", err)
	}
	return fmt.Errorf("%w; the figures are not saved: free some space or choose another --out, and run again", err)
}
