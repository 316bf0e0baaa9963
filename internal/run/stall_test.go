package run

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestStallIsSeenWhole runs a schedule of D in fake time against a server that
// stands still for T in its middle: it takes no request and delivers nothing.
// A generator that waited for the server would send nothing meanwhile and see
// one bad sample. Here a share T/D of all samples must lie uniformly between 0
// and T.
func TestStallIsSeenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			rate  = 200.0
			whole = 20 * time.Second
			stall = 4 * time.Second
			from  = 8 * time.Second
			quick = 2 * time.Millisecond
		)
		clock := eventmeter.NewClock()
		ledger, err := ledger.New(ledger.Options{
			Clock: clock, Run: 1, Sources: 1,
			Lanes: []ledger.LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: 1}},
		})
		must(t, err)
		ledger.Changed(eventmeter.Transition{To: eventmeter.Attaching, At: clock.Now()})
		ledger.Changed(eventmeter.Transition{To: eventmeter.Active, At: clock.Now()})
		time.Sleep(time.Millisecond) // fake: what is fired at the very instant of activation is not owed
		start := clock.Now()
		firing, err := loadgen.NewFiring(loadgen.FiringOptions{
			Clock: clock, Recorder: ledger, Stamper: loadgen.NewStamper(clock, ledger, 1, 1),
			Schedule: loadgen.Constant{Rate: rate}, Start: start, Duration: whole,
		})
		must(t, err)
		stats := loadgen.Loop(t.Context(), firing, loadgen.LoopOptions{
			Workers: int(rate * stall.Seconds() * 2),
			Fire: func(_ context.Context, emission loadgen.Emission) eventmeter.Outcome {
				if since := clock.Now().Sub(start); since >= from && since < from+stall {
					time.Sleep(from + stall - since) // fake: the server stands still
				}
				time.Sleep(quick)
				ledger.Delivered(eventmeter.Delivery{Stamp: emission.Stamp, Probed: true, At: clock.Now()})
				return eventmeter.Accepted
			},
		})
		account := ledger.Account()
		must(t, account.Check())
		lane := results.NewLane(&account.Lanes[0])
		if stats.Dropped != 0 || lane.Expected != int64(rate*whole.Seconds()) || lane.LostSilent != 0 {
			t.Fatalf("dropped %d, expected %d, lost %d", stats.Dropped, lane.Expected, lane.LostSilent)
		}
		h := account.Lanes[0].Latency.FromIntended.Histogram
		var slow int64
		var worst float64
		for _, b := range h.Distribution() {
			if b.Count == 0 || b.From < int64(2*quick) {
				continue
			}
			slow += b.Count
		}
		if got, want := float64(slow)/float64(h.TotalCount()), stall.Seconds()/whole.Seconds(); math.Abs(got-want) > 0.01 {
			t.Errorf("a share of %.3f of the samples met the stall, want %.3f", got, want)
		}
		// Kolmogorov and Smirnov's distance from the uniform distribution.
		var seen int64
		for _, b := range h.Distribution() {
			if b.Count == 0 || b.From < int64(2*quick) {
				continue
			}
			seen += b.Count
			worst = max(worst, math.Abs(float64(seen)/float64(slow)-float64(b.To)/float64(stall)))
		}
		if worst > 0.02 {
			t.Errorf("the samples in the stall are %.3f away from uniform", worst)
		}
		if q := lane.Latency.FromIntended; q.P50 > results.Nanos(2*quick) || q.P99 < results.Nanos(stall/2) ||
			q.Max < results.Nanos(stall-50*time.Millisecond) {
			t.Errorf("from intended: %+v", q)
		}
	})
}

// TestLateSendingShowsBetweenTheTwo gives the loop one worker that is held up
// for less than the tolerance: what the generator was late by is in the latency
// from intended and not in that from sent.
func TestLateSendingShowsBetweenTheTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := eventmeter.NewClock()
		ledger, err := ledger.New(ledger.Options{
			Clock: clock, Run: 1, Sources: 1,
			Lanes: []ledger.LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: 1}},
		})
		must(t, err)
		ledger.Changed(eventmeter.Transition{To: eventmeter.Attaching, At: clock.Now()})
		ledger.Changed(eventmeter.Transition{To: eventmeter.Active, At: clock.Now()})
		time.Sleep(time.Millisecond)
		firing, err := loadgen.NewFiring(loadgen.FiringOptions{
			Clock: clock, Recorder: ledger, Stamper: loadgen.NewStamper(clock, ledger, 1, 1),
			Schedule: loadgen.Burst{Size: 2, Every: time.Second}, Start: clock.Now(), Duration: 10 * time.Second,
			Tolerance: 100 * time.Millisecond,
		})
		must(t, err)
		stats := loadgen.Loop(
			t.Context(),
			firing,
			loadgen.LoopOptions{Workers: 1, Fire: func(_ context.Context, emission loadgen.Emission) eventmeter.Outcome {
				time.Sleep(40 * time.Millisecond)
				ledger.Delivered(eventmeter.Delivery{Stamp: emission.Stamp, Probed: true, At: clock.Now()})
				return eventmeter.Accepted
			}},
		)
		if stats.Fired != 20 || stats.Dropped != 0 {
			t.Fatalf("%+v", stats)
		}
		account := ledger.Account()
		lane := results.NewLane(&account.Lanes[0])
		near := func(q results.Nanos, want time.Duration) bool {
			return (q.Duration() - want).Abs() < want/500+time.Microsecond
		}
		if l := lane.Latency; !near(l.FromSent.Max, 40*time.Millisecond) || !near(l.FromIntended.Max, 80*time.Millisecond) ||
			!near(l.FromIntended.P50, 40*time.Millisecond) {
			t.Errorf("from sent %+v\nfrom intended %+v", l.FromSent, l.FromIntended)
		}
	})
}
