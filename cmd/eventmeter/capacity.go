package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/capacity/trials"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// capacityFlags are the flags of the capacity command.
type capacityFlags struct {
	run      runFlags // the flags shared with the run command
	profile  string
	axis     string
	from, to *float64 // nil = the profile's
	slo      []string
	format   formatFlags
}

func newCapacityCommand(io streams) *cobra.Command {
	f := capacityFlags{run: runFlags{reader: &profileReader{in: io.in}}, profile: "capacity"}
	var from, to float64
	c := &cobra.Command{
		Use:   "capacity [PROFILE]",
		Short: "Find the largest load that meets an SLO",
		Long: `Capacity raises the load of a profile along an axis (events per second,
subscriptions, or the size of a burst) until the target breaks its SLO, narrows the
range by bisection, and repeats the loads on both sides of the limit until their
verdicts are confirmed. It prints the maximum load with its interval, all
measured steps, a fit of the Universal Scalability Law with its uncertainty, and the
cost of an idle subscription and of a delivered event in each delivery mode.

A step in which the generator was the bottleneck never counts as the target's
limit. Without --target, the search runs against the embedded target, whose
capacity is known.

` + exitCodesHelp,
		Example: `  eventmeter capacity
  eventmeter capacity push --target http://127.0.0.1:8080/mcp --token any --upstream-url http://127.0.0.1:8081 \
      --axis subscriptions --from 100 --slo 'p99 < 250ms' --slo 'loss <= 0.1%'
  eventmeter capacity mine.yaml --target-metrics http://127.0.0.1:9090/metrics --format json > capacity.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			f.run.variables = fromVariables(c)
			if c.Flags().Changed("from") {
				f.from = &from
			}
			if c.Flags().Changed("to") {
				f.to = &to
			}
			return findCapacity(c.Context(), f, io)
		},
	}
	addFlags(c, []flagSpec{
		{&f.profile, "profile,p", "built-in profile, file, or - for standard input, the same as the argument"},
		{&f.axis, "axis", "load to raise: rate, subscriptions or burst (default: the profile's)"},
		{&from, "from", "lowest load (default: the profile's)"},
		{&to, "to", "highest load (default: the profile's, or as high as the target and the generator get)"},
		{
			&f.slo, "slo",
			"limit that a load must meet: p50, p90, p95, p99 or p999 < DURATION, loss <= SHARE, backlog <= SHARE, or a bound of a " +
				"metric of the target such as process_resident_memory_bytes < 500MiB (repeatable)",
		},
		{&f.run.upstream, "upstream", "kind of upstream (default: the profile's)"},
		{&f.run.upstreamURL, "upstream-url", "URL of the upstream, as for eventmeter run"},
		{&f.run.out, "out,o", "directory for the result (default results/runs/<time>-capacity-<profile>)"},
		{&f.run.verbose, "verbose,v", "print the settings of flags and variables, and the progress of each step"},
	})
	profileArgument(c, 1, func(names []string) { f.profile = names[0] })
	f.run.short.add(c, "duration")
	_ = c.RegisterFlagCompletionFunc("axis", fixed("rate", "subscriptions", "burst"))
	f.run.addMeasured(c)
	f.run.addCommon(c, ", e.g. capacity.step=10s")
	f.format.add(c, formatText, formatJSON, formatMarkdown, formatHTML)
	return c
}

// overrides are the flags that stand for values of the profile.
func (f *capacityFlags) overrides() ([]string, error) {
	var set []string
	if f.axis != "" {
		set = append(set, "capacity.axis="+f.axis)
	}
	for _, b := range []struct {
		key   string
		value *float64
	}{{"from", f.from}, {"to", f.to}} {
		if b.value != nil {
			set = append(set, "capacity."+b.key+"="+strconv.FormatFloat(*b.value, 'f', -1, 64))
		}
	}
	var metrics []string
	for _, s := range f.slo {
		if b, err := results.ParseMetricBound(s); err == nil && !isFigure(b.Metric) {
			metrics = append(metrics, strconv.Quote(b.String()))
			continue
		}
		o, err := sloOverride(s)
		if err != nil {
			return nil, usageError{err}
		}
		set = append(set, o)
	}
	if len(metrics) > 0 {
		set = append(set, "capacity.slo.metrics=["+strings.Join(metrics, ", ")+"]")
	}
	return set, nil
}

// isFigure reports whether an SLO on this name is on a figure of the run: p and digits
// are one that may not exist, and not a metric.
func isFigure(name string) bool {
	digits, percentile := strings.CutPrefix(name, "p")
	_, err := strconv.Atoi(digits)
	return name == "loss" || name == "backlog" || percentile && err == nil
}

// sloOverride turns p99<250ms into an override.
func sloOverride(text string) (string, error) {
	b, ok := results.SplitBound(text)
	figure, value := b.Figure, b.Value
	bad := fmt.Errorf(
		"--slo %q: want p50, p90, p95, p99 or p999 < DURATION, loss <= SHARE, backlog <= SHARE, METRIC OP VALUE or "+
			"rate(METRIC) OP VALUE, such as 'p99 < 250ms' or 'process_resident_memory_bytes < 500MiB'",
		text,
	)
	switch {
	case !ok || b.Op != "<" && b.Op != "<=":
		return "", bad
	case b.Where != "" && b.Where != "*":
		return "", fmt.Errorf("--slo %q: every lane must meet an SLO; write %s %s %s", text, figure, b.Op, value)
	}
	switch figure {
	case "p50", "p90", "p95", "p99", "p999":
		if _, err := time.ParseDuration(value); err != nil {
			return "", bad
		}
	case "loss", "backlog":
		v, err := share(value)
		if err != nil {
			return "", bad
		}
		value = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", bad
	}
	return "capacity.slo." + figure + "=" + value, nil
}

// findCapacity is the capacity command.
func findCapacity(ctx context.Context, f capacityFlags, io streams) error {
	if err := cmp.Or(f.format.check(), f.run.checkName(), f.run.metrics.check()); err != nil {
		return err
	}
	set, err := f.overrides()
	if err != nil {
		return err
	}
	f.run.set = append(set, f.run.set...)
	p, err := loadProfile(f.run, f.profile)
	if err != nil {
		return err
	}
	for _, flag := range []string{"rate", "subscriptions"} {
		if *f.run.short[flag] != "" && p.Capacity.Axis == flag {
			return usagef("--%s %s: the search raises it; give --from and --to, or another --axis", flag, *f.run.short[flag])
		}
	}
	if f.run.verbose {
		f.run.sayOverrides(io.err)
	}
	var out *outDir
	if f.run.out == "" {
		out, err = newOut(defaultOut("capacity-" + p.Name))
	} else if out, err = takeOut(f.run.out); err == nil {
		err = checkOut(out.path)
	}
	defer out.release()
	if err != nil {
		return err
	}
	dir := out.path
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	// Show only the newest runs: a search has many steps, and metrics of its own.
	shown, err := f.run.metrics.open(io, 2)
	if err != nil {
		return err
	}
	defer shown.close(ctx, stop)
	f.run.collector = shown.collector()
	c, runErr := trials.Find(ctx, f.options(p, dir, stop, io))
	if c == nil {
		return runErr
	}
	return errors.Join(runErr, f.write(c, dir, io), capacityVerdict(c, runErr))
}

// options returns the options of the search. It prints a line for every finished
// step.
func (f *capacityFlags) options(p *profiles.Profile, dir string, stop <-chan struct{}, io streams) trials.Options {
	o := trials.Options{
		Options: f.run.options(p, stop),
		Source:  f.profile,
		Archive: func(sub string, o *run.Outcome) error {
			return unsaved(filepath.Join(dir, sub), archive(filepath.Join(dir, sub), o), false)
		},
		Checkpoint: func(c *results.Capacity) error {
			return results.WriteFile(filepath.Join(dir, results.CapacityFile), c.Write)
		},
	}
	if f.run.verbose {
		o.Progress = newView(io.err, p, viewOptions{plain: true}).update
	}
	if !f.run.quiet {
		o.OnStep = func(s results.CapacityStep) { fmt.Fprintln(io.err, stepLine(s)) }
	}
	return o
}

func stepLine(s results.CapacityStep) string {
	text := fmt.Sprintf(
		"step %d, %s %.4g: offered %.4g/s, achieved %.4g/s, %s",
		s.Number,
		s.Purpose,
		s.Load,
		s.Offered,
		s.Achieved,
		s.Verdict,
	)
	if len(s.Reasons) > 0 {
		text += ": " + strings.Join(s.Reasons, "; ")
	}
	return report.Clean(text)
}

// write writes the result to its directory and to standard output.
func (f *capacityFlags) write(c *results.Capacity, dir string, io streams) error {
	// Save first, as after a run. A failure to write one file does not keep the
	// others from being written.
	forms := capacityForms(c)
	saved := errors.Join(results.WriteFile(filepath.Join(dir, results.CapacityFile), c.Write),
		results.WriteFile(filepath.Join(dir, reportPage), forms[formatHTML]),
		results.WriteFile(filepath.Join(dir, "report.txt"), forms[formatText]))
	err := f.format.all(io, forms)
	if saved == nil && f.format.isText() {
		fmt.Fprintf(io.out, "result in %s\n", dir)
	}
	return errors.Join(err, saved)
}

// capacityVerdict returns the error that decides the exit code of a search that ran
// to its end.
func capacityVerdict(c *results.Capacity, runErr error) error {
	if runErr != nil {
		return nil // the caller reports runErr
	}
	switch c.Outcome {
	case "found":
		return nil
	case "none":
		return fmt.Errorf("no load met the SLO: %w", errThreshold)
	case "generator":
		return fmt.Errorf("no limit of the target was found: %w", errBottleneck)
	}
	return errors.New(c.Stopped)
}

// capacityForms are the formats of a capacity search.
func capacityForms(c *results.Capacity) rendering {
	return rendering{
		formatText:     reportOf(report.Capacity, c),
		formatJSON:     c.Write,
		formatMarkdown: reportOf(report.CapacityMarkdown, c),
		formatHTML:     reportOf(report.CapacityHTML, c),
	}
}

// rebuildCapacity is the report command on the directory of a capacity search.
func rebuildCapacity(io streams, dir string, f *formatFlags) error {
	c, err := results.RebuildCapacity(dir)
	if err != nil {
		return usageError{err}
	}
	forms := capacityForms(c)
	for _, format := range f.can {
		if forms[format] == nil && f.has(format) {
			return usagef("--format %s: a capacity search is written as text, markdown, html or json", format)
		}
	}
	return f.all(io, forms)
}
