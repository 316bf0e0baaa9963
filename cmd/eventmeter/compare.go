package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// compareFlags are the flags of the compare command.
type compareFlags struct {
	format    formatFlags
	gates     []string
	alpha     float64
	minEffect float64
}

func newCompareCommand(io streams) *cobra.Command {
	f := compareFlags{alpha: 0.05, minEffect: 0.03}
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs or two groups of trials",
		Long: `Compare shows how B differs from A, lane by lane: latency quantiles, losses,
duplicates, overhead and cost, each with its effect, a 95 % confidence interval,
and the smallest effect that these runs could have shown. A and B are each the
directory of a run, a directory of several trials, or a comma-separated list of
such directories. Compare refuses an archive whose histograms or timelines do not
give the figures of its result.

With four or more trials a side, figures are compared as benchstat does
(Mann-Whitney U); with fewer, latencies by resampling their intervals. Equal sides
are called different in at most 5 % of comparisons, over all figures together.

With --gate, the exit code is 1 when a named figure got worse by more than the
given share.`,
		Example: `  eventmeter run --trials 5 --out before
  eventmeter run --trials 5 --out after
  eventmeter compare before after --gate 'push.p99 <= +5%'`,
		Args: twoSides,
		RunE: func(_ *cobra.Command, args []string) error { return compare(f, args, io) },
	}
	f.format.add(c, formatText, formatMarkdown, formatJSON, formatHTML)
	addFlags(c, []flagSpec{
		{&f.gates, "gate", "fail when this figure got worse by more than a share, e.g. 'push.p99 <= +5%' (repeatable)"},
		{&f.alpha, "alpha", "largest probability that equal sides are called different"},
		{&f.minEffect, "min-effect", "smallest relative effect that is called a difference"},
	})
	return c
}

// twoSides refuses all but two arguments.
func twoSides(_ *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	return fmt.Errorf("want two sides, A and B, and got %d; join the trials of a side with commas, or put them in one directory", len(args))
}

// compare is the compare command.
func compare(f compareFlags, args []string, io streams) error {
	if err := f.format.check(); err != nil {
		return err
	}
	gates, err := stats.ParseGates(f.gates)
	if err != nil {
		return usageError{err}
	}
	if !(f.alpha > 0 && f.alpha <= 0.5) {
		return usagef("--alpha %v: want a share above 0 and up to 0.5, such as 0.05", f.alpha)
	}
	if !(f.minEffect >= 0) {
		return usagef("--min-effect %v: want a share of 0 or more, such as 0.03", f.minEffect)
	}
	if f.minEffect == 0 {
		f.minEffect = -1 // the zero value of the option means the default
	}
	var sides [2]*stats.Side
	for i, arg := range args {
		if sides[i], err = stats.LoadSide(strings.Split(arg, ",")); err != nil {
			return usageError{err}
		}
	}
	c, err := stats.Compare(sides[0], sides[1], stats.CompareOptions{Alpha: f.alpha, MinEffect: f.minEffect})
	if err != nil {
		return usageError{err}
	}
	c.Gates = c.Judge(gates)
	if err := f.format.all(io, comparisonForms(c)); err != nil {
		return err
	}
	return gateErrors(c)
}

// comparisonForms are the formats of a comparison.
func comparisonForms(c *stats.Comparison) rendering {
	return rendering{
		formatText:     reportOf(report.CompareText, c),
		formatMarkdown: reportOf(report.CompareMarkdown, c),
		formatJSON:     c.Write,
		formatHTML:     reportOf(comparisonPage, c),
	}
}

// gateErrors returns an error for each gate that did not hold. If no figure got worse, it wraps
// errUnjudged.
func gateErrors(c *stats.Comparison) error {
	var errs []error
	for _, g := range c.Gates {
		if !g.Passed {
			errs = append(errs, fmt.Errorf("gate %s, %s: %s", g.Threshold, cmp.Or(g.Lane, "run"), g.Text))
		}
	}
	if errs != nil && results.TallyOf(c.Gates).Failed == 0 {
		errs = append(errs, errUnjudged)
	}
	return errors.Join(errs...)
}
