package main

import (
	"context"
	"errors"
	"fmt"
	goio "io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

func newDoctorCommand(io streams) *cobra.Command {
	var f formatFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can measure",
		Long: `Doctor observes the machine for about ten seconds: the time that this process takes
to read arrived data, the lowest latency of each mode on the embedded target, the
available files and ports, and the CPU use of other processes. It exits with 4
when figures measured on this machine could not be trusted.`,
		Example: "  eventmeter doctor",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return doctor(c.Context(), &f, io) },
	}
	f.add(c, formatText, formatJSON)
	return c
}

// doctor is the doctor command.
func doctor(ctx context.Context, f *formatFlags, io streams) error {
	if err := f.check(); err != nil {
		return err
	}
	p, err := profiles.Load("baseline", nil, systems.Table)
	if err != nil {
		return err
	}
	ctx, stop, release := onInterrupt(ctx, io)
	defer release()
	h, err := examine(ctx, run.Options{Profile: p, Embedded: startEmbedded, Stop: stop, Version: version()})
	if err != nil {
		return err
	}
	err = f.all(io, rendering{
		formatText: reportOf(prescribe, h),
		formatJSON: indented(h),
	})
	if err == nil && len(h.Baseline.Doubts()) > 0 {
		err = errUnfit
	}
	return err
}

var errUnfit = fmt.Errorf("this machine is not fit to measure now: %w", errBottleneck)

func prescribe(w goio.Writer, h *machineHealth) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	host := h.Host
	fmt.Fprintf(
		tw,
		"machine\t%s %s, %d CPUs (%s), %.1f GiB, %s\n",
		host.OS,
		host.Kernel,
		host.CPUs,
		host.CPU,
		float64(host.Memory)/(1<<30),
		host.Go,
	)
	if host.Files > 0 {
		fmt.Fprintf(tw, "open files\t%d, so about %d push streams over HTTP/1.1 in one process\n", host.Files, max(0, host.Files-256))
	}
	if h.Ports > 0 {
		fmt.Fprintf(tw, "ports\t%d connections from one address to another; more need further addresses\n", h.Ports)
	}
	fmt.Fprintf(tw, "read delay\tp50 %s, p99 %s from written to read, idle\n", h.ReadDelay.P50, h.ReadDelay.P99)
	in := h.Baseline.Generator
	fmt.Fprintf(tw, "timers\t%s late at p99\n", in.TimerLag.P99)
	fmt.Fprintf(tw, "others\t%.2f of %d CPUs used by other processes\n", in.Others, host.CPUs)
	for _, l := range h.Baseline.Lanes {
		q := l.Latency.FromSent
		fmt.Fprintf(tw, "baseline, %s\tp50 %s, p99 %s published → received, on the embedded target\n", l.Name, q.P50, q.P99)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	doubts := h.Baseline.Doubts()
	if len(doubts) == 0 {
		_, err := fmt.Fprintln(w, "\nThis machine can measure. Latencies below the baseline say nothing about a target.")
		return err
	}
	errs := []error{}
	for _, reason := range doubts {
		_, err := fmt.Fprintf(w, "\nNOT FIT: %s\n", reason)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// machineHealth says how well a machine can measure.
type machineHealth struct {
	Host results.Host `json:"host"`
	// ReadDelay is the time that this process takes to read a byte from a loopback
	// connection while it does nothing else.
	ReadDelay results.Quantiles `json:"readDelay"`
	// Ports is the number of connections from one address to another; 0 if it is not
	// known.
	Ports int `json:"ports"`
	// Baseline is a run of the baseline profile on the embedded target; its lanes'
	// latencies are the least that can be measured.
	Baseline *results.Result `json:"baseline"`
}

// examine measures the machine for a few seconds. opts.Profile is the baseline
// profile.
func examine(ctx context.Context, opts run.Options) (*machineHealth, error) {
	delay, err := health.ReadDelay(time.Second, ctx.Done())
	if err != nil {
		return nil, err
	}
	outcome, err := run.Run(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &machineHealth{
		Host:      health.Host(),
		ReadDelay: results.SummariseNanos(delay),
		Ports:     health.EphemeralPorts(),
		Baseline:  outcome.Result,
	}, nil
}
