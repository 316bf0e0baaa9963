package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// sim makes runs of one lane without a clock: log-normal latency around 50 ms,
// a factor for each interval that follows its predecessor, and one for the run.
type sim struct {
	intervals, samples int
	factor             float64 // on every latency
	wobble             float64 // standard deviation of an interval's factor, in logarithms
	memory             float64 // correlation of neighbouring intervals
	between            float64 // standard deviation of a run's factor
	lost, duplicates   int64   // of intervals*samples expected
	onlyIntended       bool    // no latencies from the time of sending; they are equal otherwise
}

func defaultSim() sim { return sim{intervals: 20, samples: 600, factor: 1, wobble: 0.02} }

func (s sim) run(seed uint64) Run {
	rng := rand.New(rand.NewPCG(seed, 7))
	log := &results.Log{}
	run, wobble := rng.NormFloat64()*s.between, 0.0
	tags := []string{results.TagIntended, results.TagSent}
	if s.onlyIntended {
		tags = tags[:1]
	}
	for i := range s.intervals {
		wobble = s.memory*wobble + math.Sqrt(1-s.memory*s.memory)*rng.NormFloat64()*s.wobble
		samples := make([]results.Bucket, s.samples)
		for k := range samples {
			// 2^15 ns wide, as the ledger's buckets are around 50 ms.
			v := int64(50e6 * s.factor * math.Exp(0.3*rng.NormFloat64()+run+wobble))
			samples[k] = results.Bucket{Value: results.Nanos(v | (1<<15 - 1)), Count: 1}
		}
		bs := addUp(samples)
		for _, tag := range tags {
			log.Intervals = append(
				log.Intervals,
				results.LogInterval{Tag: tag, Start: time.Duration(i) * time.Second, Length: time.Second, Buckets: bs},
			)
		}
	}
	latency := results.Latency{FromIntended: summariseLog(log)}
	if !s.onlyIntended {
		latency.FromSent = latency.FromIntended
	}
	n := int64(s.intervals * s.samples)
	lane := results.Lane{
		Name:          "push",
		System:        "events",
		Mode:          "push",
		Subscriptions: 10,
		Expected:      n + s.lost,
		Delivered:     n,
		LostSilent:    s.lost,
		Gaps:          results.Gaps{Incidents: s.lost},
		Duplicates:    results.Duplicates{SameEvent: s.duplicates, Rate: float64(s.duplicates) / float64(n)},
		Latency:       latency,
		Received:      n,
		Overhead: results.Overhead{
			SubscriptionHours:   1,
			Measured:            results.OverheadWindow{Received: n, SubscriptionHours: 1},
			PerDelivered:        results.Share{Requests: 0.5, Bytes: 100 + rng.NormFloat64()},
			PerSubscriptionHour: results.Share{Requests: 20, Bytes: 4000},
		},
	}
	return Run{
		Path: fmt.Sprintf("run-%d", seed), Logs: map[string]*results.Log{"push": log},
		Result: &results.Result{
			Schema: results.Schema, Version: "1.0.0", Run: fmt.Sprintf("%08x", seed), Started: time.Unix(int64(seed), 0).UTC(),
			Profile: json.RawMessage(`{"name":"sim"}`), Lanes: []results.Lane{lane},
		},
	}
}

func (s sim) side(seeds ...uint64) *Side {
	out := &Side{}
	for _, seed := range seeds {
		out.Runs = append(out.Runs, s.run(seed))
	}
	return out
}

func summariseLog(log *results.Log) results.Quantiles {
	all := mergeBuckets(log.Of(results.TagIntended))
	q := results.Quantiles{Min: all[0].Value, Max: all[len(all)-1].Value}
	for _, b := range all {
		q.Count += b.Count
	}
	q.P50, q.P90, q.P95, q.P99, q.P999 = valueAt(all, 0.5), valueAt(all, 0.9), valueAt(all, 0.95), valueAt(all, 0.99), valueAt(all, 0.999)
	return q
}

// change finds a figure in a comparison.
func (c *Comparison) change(lane, figure string) *Change {
	for i := range c.Lanes {
		if c.Lanes[i].Name != lane {
			continue
		}
		if k := slices.IndexFunc(c.Lanes[i].Figures, func(x Change) bool { return x.Figure == figure }); k >= 0 {
			return &c.Lanes[i].Figures[k]
		}
	}
	return nil
}

// changed lists the figures that were found different.
func (c *Comparison) changed() []string {
	var out []string
	for _, l := range c.Lanes {
		for _, f := range l.Figures {
			if f.Changed() {
				out = append(out, l.Name+"."+f.Figure)
			}
		}
	}
	return out
}
