package run

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/results"
)

// Health is what a machine can measure.
type Health struct {
	Host results.Host `json:"host"`
	// ReadDelay is how long a byte on a loopback connection takes to be read by
	// this process while it does nothing else.
	ReadDelay results.Quantiles `json:"readDelay"`
	// Ports is how many connections one address can open to one other, 0 where
	// that is not known.
	Ports int `json:"ports"`
	// Baseline is a run of the baseline profile on the embedded target; its lanes'
	// latencies are the least that can be measured.
	Baseline *results.Result `json:"baseline"`
}

// Examine looks at the machine for a few seconds. opts.Profile is the baseline
// profile.
func Examine(ctx context.Context, opts Options) (*Health, error) {
	delay, err := health.ReadDelay(time.Second, ctx.Done())
	if err != nil {
		return nil, err
	}
	outcome, err := Run(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Health{
		Host:      health.Host(),
		ReadDelay: results.SummariseNanos(delay),
		Ports:     health.EphemeralPorts(),
		Baseline:  outcome.Result,
	}, nil
}
