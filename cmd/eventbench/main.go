// Command eventbench measures what eventmeter itself costs, beside its baselines and
// its peers. See docs/benchmarks.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/selfbench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "eventbench: %v\n", err)
		os.Exit(1)
	}
}

// run is the whole command, or a child process of it.
func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == selfbench.ChildArg {
		return selfbench.Child(ctx, in, out)
	}
	c := newCommand(out, progress)
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(progress)
	return c.ExecuteContext(ctx)
}

func newCommand(out, progress io.Writer) *cobra.Command {
	o := selfbench.Options{Progress: progress}
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "eventbench",
		Short: "Measure the cost of eventmeter itself",
		Long: `eventbench compares eventmeter's client side with minimal clients for the same job
and with the tools that people would use instead: memory per stream, CPU per
delivery, and the error of its times. Every client and every target runs in a
separate process. It prints each goal beside the measured value.

A full run takes about half an hour; the machine should otherwise be idle. Rows: ` + strings.Join(selfbench.RowNames(), ", ") + `.`,
		Example:       "  eventbench --out results/studies/2026-01-01-2-cores\n  eventbench --scale 0.1 --repeats 1 --only push1,error",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			report, err := selfbench.Run(c.Context(), o)
			if err != nil {
				return err
			}
			return deliver(report, dir, asJSON, out)
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&o.Only, "only", nil, "rows to measure, with commas between them (default all)")
	fl.Float64Var(&o.Scale, "scale", 1, "factor for numbers of streams and durations, 0.001 to 4")
	fl.IntVar(&o.Repeats, "repeats", 3, "how often each comparison is measured, alternately")
	fl.DurationVar(&o.RowTime, "row-time", 0, "longest time for a row (default 12m)")
	fl.StringVar(&o.Profiles, "profiles", "", "folder for CPU profiles of the clients while events arrive, and heap profiles before that")
	fl.StringVar(&dir, "out", "", "folder for bench.json and README.md")
	fl.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

// deliver prints and writes a report.
func deliver(r *selfbench.Report, dir string, asJSON bool, out io.Writer) error {
	if dir != "" {
		if err := r.Write(dir); err != nil {
			return err
		}
	}
	if !asJSON {
		return r.Text(out)
	}
	b, err := r.JSON()
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	return err
}
