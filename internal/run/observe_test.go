package run

import (
	"reflect"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// A shard without subscriptions of a lane has nobody who heard least, and must not
// say that somebody received nothing.
func TestAShardThatSawNothing(t *testing.T) {
	p := parseProfile(t, `
name: look
lanes: [{name: a, mode: push, subscriptions: 1, event: e}, {name: b, mode: push, subscriptions: 2, event: e}]
target: {url: "http://127.0.0.1:1/mcp"}
upstream: {kind: none}
phases: {measure: 2s}
`)
	clock := eventmeter.NewClock()
	figures := func(subscriptions ...int) []results.PartFigures {
		b := &pass{run: &run{Summary: summary.New(summary.Options{Profile: p, Result: &results.Result{}}), profile: p, clock: clock}}
		for i, n := range subscriptions {
			l := p.Lanes[i]
			l.Subscriptions = n
			b.lanes = append(b.lanes, &lane{Lane: l, number: i})
		}
		var err error
		if b.observer, err = sinks.NewObserver(sinks.ObserverOptions{Clock: clock, Lanes: subscriptions}); err != nil {
			t.Fatal(err)
		}
		if b.firing, err = loadgen.NewFiring(loadgen.FiringOptions{
			Clock:    clock,
			Recorder: b.observer,
			Stamper:  loadgen.NewStamper(clock, b.observer, 1, 1),
			Start:    clock.Now(),
			Duration: p.Phases.Measure,
			Schedule: loadgen.Constant{Rate: 1},
		}); err != nil {
			t.Fatal(err)
		}
		start := clock.Now()
		b.observeFrom(start)
		for i, n := range subscriptions {
			for j := range n {
				for id := range uint64(3) {
					b.observer.Delivered(
						eventmeter.Delivery{
							Sub:     eventmeter.Sub{Lane: uint16(i), Index: uint32(j)},
							EventID: id + 1,
							At:      start.Add(p.Phases.Warmup + time.Second),
						},
					)
				}
			}
		}
		b.stopObserving()
		own := make([]results.PartFigures, len(subscriptions))
		b.observed(own, b.observedUntil, b.Warn)
		return own
	}
	if none := figures(0, 1)[0]; len(none.Values)+len(none.Timings) > 0 {
		t.Errorf("a shard that has no subscription of the lane says %v", none.Values)
	}
	for i, f := range figures(1, 1) {
		got := map[string]float64{
			"events": f.Values["observedEvents"],
			"least":  f.Values["observedLeast"],
			"most":   f.Values["observedMost"],
		}
		if want := (map[string]float64{"events": 3, "least": 3, "most": 3}); !reflect.DeepEqual(got, want) {
			t.Errorf("lane %d: %v, want %v", i, got, want)
		}
	}
}
