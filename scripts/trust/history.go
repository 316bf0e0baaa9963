package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// A history is a series of p99 over 40 nights. Its noise has a standard deviation of
// 2 %, and its step, if it has one, comes with night 20.
const (
	nights    = 40
	stepNight = 20
	noise     = 0.02
)

// noises are the kinds of noise, each with a standard deviation of 1 or more.
var noises = map[string]func(rng *rand.Rand) func() float64{
	"normal": func(rng *rand.Rand) func() float64 { return rng.NormFloat64 },
	// one night in ten is five times as noisy
	"heavy tails": func(rng *rand.Rand) func() float64 {
		return func() float64 {
			e := rng.NormFloat64()
			if rng.IntN(10) == 0 {
				e *= 5
			}
			return e
		}
	},
	// each night resembles the one before
	"memory 0.3": func(rng *rand.Rand) func() float64 {
		last := rng.NormFloat64()
		return func() float64 {
			last = 0.3*last + math.Sqrt(1-0.3*0.3)*rng.NormFloat64()
			return last
		}
	},
}

// historyRow is a kind of series, what is counted of it, and the goal.
type historyRow struct {
	what, noise string
	step        float64
	goal        string
	met         func(count, of int) bool // nil = no goal
	counts      func(h *historyOutcome) bool
}

// historyOutcome is what was found in one series.
type historyOutcome struct {
	changes []stats.LevelChange
	known   int // the place of the step, by who knows both levels
}

func (h *historyOutcome) near() bool {
	return len(h.changes) == 1 && abs(h.changes[0].At-stepNight) <= 1
}

func abs(n int) int { return max(n, -n) }

func atMost(share float64) func(int, int) bool {
	return func(count, of int) bool { return float64(count) <= share*float64(of) }
}

func atLeast(share float64) func(int, int) bool {
	return func(count, of int) bool { return float64(count) >= share*float64(of) }
}

func anyChange(h *historyOutcome) bool { return len(h.changes) > 0 }

var historyRows = []historyRow{
	{"a change in a flat series", "normal", 1, "≤ 0.1 %", atMost(0.001), anyChange},
	{"a change in a flat series", "heavy tails", 1, "≤ 0.1 %", atMost(0.001), anyChange},
	{"a change in a flat series", "memory 0.3", 1, "", nil, anyChange},
	{"+5 % found", "normal", 1.05, "≥ 95 %", atLeast(0.95), anyChange},
	{"+5 % placed within one night", "normal", 1.05, "≥ 95 %", atLeast(0.95), (*historyOutcome).near},
	{"… by who knows both levels", "normal", 1.05, "", nil, func(h *historyOutcome) bool { return abs(h.known-stepNight) <= 1 }},
	{"+5 % within the nights that are named", "normal", 1.05, "", nil, func(h *historyOutcome) bool {
		return len(h.changes) == 1 && h.changes[0].Earliest <= stepNight && h.changes[0].Latest >= stepNight
	}},
	{"+6 % placed within one night", "normal", 1.06, "≥ 95 %", atLeast(0.95), (*historyOutcome).near},
	{"+10 % placed within one night", "normal", 1.10, "≥ 95 %", atLeast(0.95), (*historyOutcome).near},
	{"+10 % placed within one night", "heavy tails", 1.10, "", nil, (*historyOutcome).near},
}

// histories prints how often changes are found, and placed, in so many series of each
// kind. It returns errGoal when a goal is missed, and ends early with ctx.
func histories(ctx context.Context, series int, out io.Writer) error {
	fmt.Fprintf(out, "%-40s %-12s %6s %6s   %-16s %s\n", "", "noise", "series", "count", "rate, 95 %", "goal")
	missed := false
	for i, row := range historyRows {
		rng := rand.New(rand.NewPCG(20261123, uint64(i)))
		count := 0
		for range series {
			if ctx.Err() != nil {
				return nil
			}
			h, err := oneHistory(rng, row)
			if err != nil {
				return err
			}
			if row.counts(h) {
				count++
			}
		}
		lo, hi := wilson(count, series)
		verdict := row.goal
		if row.met != nil && row.met(count, series) {
			verdict += " met"
		} else if row.met != nil {
			verdict, missed = verdict+" MISSED", true
		}
		fmt.Fprintf(out, "%-40s %-12s %6d %6d   %5.1f to %5.1f %%  %s\n", row.what, row.noise, series, count, 100*lo, 100*hi, verdict)
	}
	if missed {
		return errGoal
	}
	return nil
}

func oneHistory(rng *rand.Rand, row historyRow) (*historyOutcome, error) {
	next := noises[row.noise](rng)
	side := &stats.Side{}
	values := make([]float64, nights)
	for i := range values {
		values[i] = math.Log1p(noise * next())
		if i >= stepNight {
			values[i] += math.Log(row.step)
		}
		q := results.Quantiles{Count: 100_000, P99: results.Nanos(math.Exp(values[i]) * float64(typical))}
		side.Runs = append(side.Runs, stats.Run{Result: &results.Result{
			Run: fmt.Sprintf("%016x", rng.Uint64()), Started: time.Unix(int64(i)*86400, 0), Profile: json.RawMessage(`{}`),
			Lanes: []results.Lane{{Name: "push", Latency: results.Latency{FromIntended: q}}},
		}})
	}
	h, err := stats.NewHistory(side, stats.HistoryOptions{})
	if err != nil {
		return nil, err
	}
	out := &historyOutcome{known: likeliest(values, math.Log(row.step))}
	for _, f := range h.Lanes[0].Figures {
		if f.Figure == "latency.fromIntended.p99" {
			out.changes = f.Changes
		}
	}
	return out, nil
}

// likeliest is the place of a step of known size in noise around 0: the best that can
// be done with normal noise, by who knows more than any tool does.
func likeliest(values []float64, step float64) int {
	best, at, sum := math.Inf(1), 0, 0.0
	for k := len(values); k >= 0; k-- {
		if k < len(values) {
			before, after := values[k], values[k]-step
			sum += after*after - before*before
		}
		if sum < best {
			best, at = sum, k
		}
	}
	return at
}
