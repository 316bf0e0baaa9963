package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// synthetic archives look like those of a run of 20 seconds: one lane, 600
// deliveries a second with log-normal latency around 50 ms, and a factor for
// each second that follows the one before, as on a shared machine.
type synthetic struct{}

const (
	seconds    = 20
	perSecond  = 600
	typical    = 50 * time.Millisecond
	spread     = 0.3 // standard deviation of the logarithm of a latency
	wobble     = 0.02
	memory     = 0.2 // correlation of a second's factor with the last one's
	slowFactor = 1.10
)

func (synthetic) record(_ context.Context, dir string, number int, slow bool) error {
	rng := rand.New(rand.NewPCG(uint64(number), 20261121))
	factor := 1.0
	if slow {
		factor = slowFactor
	}
	// The unit of the archive's values is nanoseconds.
	const lowest, highest = int64(time.Microsecond), int64(10 * time.Minute)
	lane := ledger.LaneAccount{
		Name:              "push",
		System:            "events",
		Mode:              eventmeter.Mode("push"),
		Subscriptions:     10,
		SubscriptionHours: 10 * seconds / 3600.0,
	}
	all := hdrhistogram.New(lowest, highest, 3)
	var err error
	second := 0.0
	for i := range seconds {
		second = memory*second + math.Sqrt(1-memory*memory)*wobble*rng.NormFloat64()
		intended, sent := hdrhistogram.NewPacked(lowest, highest, 3), hdrhistogram.NewPacked(lowest, highest, 3)
		for range perSecond {
			v := int64(float64(typical) * factor * math.Exp(second+spread*rng.NormFloat64()))
			err = errors.Join(err, intended.RecordValue(v), sent.RecordValue(v), all.RecordValue(v))
		}
		lane.Series = append(
			lane.Series,
			ledger.LaneInterval{Number: int64(i), Delivered: perSecond, FromIntended: intended, FromSent: sent},
		)
	}
	lane.Delivered, lane.Expected, lane.Received = seconds*perSecond, seconds*perSecond, seconds*perSecond
	lane.Measured = ledger.Window{WindowCounts: ledger.WindowCounts{Received: seconds * perSecond, Active: 10 * seconds * time.Second}}
	if err != nil {
		return err
	}
	l := results.NewLane(&lane)
	q := results.SummariseNanos(all)
	l.Latency = results.Latency{FromIntended: q, FromSent: q}
	started := time.Unix(1_700_000_000+int64(number)*60, 0).UTC()
	r := &results.Result{
		Schema:   results.Schema,
		Version:  "synthetic",
		Run:      fmt.Sprintf("%08x", number),
		Started:  started,
		Finished: started.Add(seconds * time.Second),
		Profile:  []byte(`{"name":"synthetic"}`),
		Lanes:    []results.Lane{l},
	}
	account := ledger.Account{Interval: time.Second, Lanes: []ledger.LaneAccount{lane}}
	return results.Save(dir, r, []ledger.Account{account})
}
