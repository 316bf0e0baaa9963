package bench

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Health is what a machine can measure.
type Health struct {
	Host results.Host `json:"host"`
	// OwnDelay is how long a byte on a loopback connection takes to be read by
	// this process while it does nothing else.
	OwnDelay results.Quantiles `json:"ownDelay"`
	// Ports is how many connections one address can open to one other, 0 where
	// that is not known.
	Ports int `json:"ports"`
	// Floor is a run of the floor profile on the embedded target; its lanes'
	// latencies are the least that can be measured.
	Floor *results.Result `json:"floor"`
}

// Examine looks at the machine for a few seconds. opts.Profile is the floor
// profile.
func Examine(ctx context.Context, opts Options) (*Health, error) {
	delay, err := ownDelay(time.Second, ctx.Done())
	if err != nil {
		return nil, err
	}
	outcome, err := Run(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Health{
		Host:     thisHost(),
		OwnDelay: results.SummariseNanos(delay),
		Ports:    ephemeralPorts(),
		Floor:    outcome.Result,
	}, nil
}
