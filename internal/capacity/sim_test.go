package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// system is a simulated target with a known capacity: a queue that a token
// bucket empties, which is now and then disturbed by something else.
type system struct {
	capacity float64 // deliveries per second
	burst    float64
	fanout   int
	random   *rand.Rand
	// disturbed is the share of steps with a stall, which the generator sees
	// in all but a few cases.
	disturbed float64
}

const (
	simWarm = 1.0 // seconds
	simStep = 4.0
)

// run puts events per second on it for one step and measures what a run would.
func (s *system) run(rate float64) Measured {
	capacity := s.capacity * (1 + 0.002*s.random.NormFloat64())
	var stallAt, stall float64
	seen := false
	if s.random.Float64() < s.disturbed {
		stallAt, stall = s.random.Float64()*(simWarm+simStep), 0.1+0.4*s.random.Float64()
		seen = s.random.Float64() < 0.9
	}
	every := 1 / capacity
	credit := (s.burst - 1) * every
	next := -credit
	var latencies, came, went []float64 // of what is measured, in order
	var last float64
	for n := 0; ; n++ {
		at := float64(n) / rate
		if at >= simWarm+simStep {
			break
		}
		for range s.fanout {
			start := max(next, at-credit)
			if stall > 0 && max(start, at) >= stallAt && max(start, at) < stallAt+stall {
				start = stallAt + stall
			}
			next = start + every
			last = max(last, max(start, at)+0.001*s.random.Float64())
			if at >= simWarm {
				latencies, came, went = append(latencies, last-at), append(came, at), append(went, last)
			}
		}
	}
	m := Measured{Offered: rate * float64(s.fanout)}
	m.Expected = int64(len(latencies))
	m.Fired = m.Expected / int64(s.fanout)
	slices.Sort(latencies)
	m.Latency.P99 = results.Nanos(latencies[len(latencies)*99/100] * 1e9)
	var readings []Reading
	for at := simWarm + simStep/3; at < simWarm+simStep; at += 0.05 {
		in, _ := slices.BinarySearch(came, at)
		out, _ := slices.BinarySearch(went, at)
		readings = append(readings, Reading{time.Duration(at * 1e9), float64(in - out)})
	}
	m.Growth, m.GrowthError, _ = Growth(readings, time.Duration(1e9/rate))
	if seen {
		m.Bottleneck = []string{"a stall"}
	}
	return m
}

// find runs a whole search on the system; loads are events per second.
func (s *system) find(t *testing.T, slo results.CapacitySLO) (Maximum, Outcome, int) {
	t.Helper()
	true0 := s.capacity / float64(s.fanout)
	search, err := New(Options{From: true0 / 6, To: true0 * 20})
	if err != nil {
		t.Fatal(err)
	}
	for trials := 0; ; trials++ {
		load, more := search.Next()
		if !more {
			return search.Maximum(), search.Outcome(), trials
		}
		m := s.run(load)
		v, _ := Judge(&slo, &m)
		search.Record(load, v)
	}
}

// TestFindsAKnownCapacity: the capacity of a simulated target is found within
// 5 %, for every seed and fan-out, quiet or disturbed. Where disturbances come
// so thick that they hide the limit, the search says that, and not a number.
func TestFindsAKnownCapacity(t *testing.T) {
	slo := results.CapacitySLO{P99: 400e6, Backlog: 0.01}
	const seeds = 20
	for _, disturbed := range []float64{0, 0.15} {
		for _, fanout := range []int{1, 10, 100} {
			worst, most, found := 0.0, 0, 0
			for seed := range uint64(seeds) {
				random := rand.New(rand.NewPCG(seed, uint64(fanout)))
				s := &system{
					capacity:  100 * (1 + 2*random.Float64()) * math.Sqrt(float64(fanout)),
					fanout:    fanout,
					random:    random,
					disturbed: disturbed,
				}
				s.burst = max(1, s.capacity/20)
				maximum, outcome, trials := s.find(t, slo)
				most = max(most, trials)
				got, want := maximum.Load*float64(fanout), s.capacity
				off := math.Abs(got-want) / want
				switch {
				case outcome == Generator && got <= 1.05*want:
					continue
				case outcome != Found || off > 0.05:
					t.Errorf(
						"fan-out %d, seed %d: %s, capacity %.0f found as %.0f, off by %.1f %%",
						fanout,
						seed,
						outcome,
						want,
						got,
						100*off,
					)
				}
				found++
				worst = max(worst, off)
			}
			if least := map[float64]int{0: seeds, 0.15: seeds * 8 / 10}[disturbed]; found < least {
				t.Errorf("disturbed %.0f %%, fan-out %d: found in %d of %d, want %d", 100*disturbed, fanout, found, seeds, least)
			}
			t.Logf(
				"disturbed %.0f %%, fan-out %d: %d of %d found, off by at most %.1f %%, at most %d trials",
				100*disturbed,
				fanout,
				found,
				seeds,
				100*worst,
				most,
			)
		}
	}
}
