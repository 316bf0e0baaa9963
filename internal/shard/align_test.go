package shard

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// turnsOf is a shard whose lanes took turns, each of 10 s from when it began to
// fire, with a measured phase of the same length.
func turnsOf(t *testing.T, index int, began ...results.Nanos) archived {
	t.Helper()
	s := archived{result: &results.Result{}, part: &results.Part{Index: index, Count: 2}}
	for k, at := range began {
		lane := []string{"push", "poll"}[k]
		l, err := ledger.New(
			ledger.Options{
				Clock:    eventmeter.NewClock(),
				Sources:  1,
				Interval: time.Second,
				Lanes:    []ledger.LaneSpec{{Name: lane, Mode: eventmeter.Push, Subscriptions: 1}},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		a := l.Account()
		a.Lanes[0].Series = []ledger.LaneInterval{{Number: int64(at / 1e9), Unexpected: 1}}
		a.Lanes[0].Unexpected.Stale = 1
		s.part.Passes = append(
			s.part.Passes,
			results.PartPass{Began: at, BeganAt: time.Unix(1, 0), Figures: make([]results.PartFigures, 1), Account: a},
		)
		s.result.Phases = append(s.result.Phases, results.Phase{Name: "measure", Lane: lane, Start: at, End: at + 10e9})
	}
	return s
}

// TestTurnsAreLaidOverEachOther: whatever moves the series of a turn moves its
// phases, in every turn, and also where a shard was not there for all of them.
func TestTurnsAreLaidOverEachOther(t *testing.T) {
	for name, tt := range map[string]struct {
		shards []archived
		want   []results.Nanos // begin of each turn
	}{
		"two clocks":              {[]archived{turnsOf(t, 0, 5e9, 25e9), turnsOf(t, 1, 3e9, 23e9)}, []results.Nanos{5e9, 25e9}},
		"the second turn differs": {[]archived{turnsOf(t, 0, 1e9, 20e9), turnsOf(t, 1, 3e9, 21e9)}, []results.Nanos{3e9, 21e9}},
		"one ended after a turn":  {[]archived{turnsOf(t, 0, 2e9, 20e9), turnsOf(t, 1, 4e9)}, []results.Nanos{4e9, 22e9}},
		"the other way round":     {[]archived{turnsOf(t, 0, 4e9, 20e9), turnsOf(t, 1, 2e9)}, []results.Nanos{4e9, 20e9}},
	} {
		t.Run(name, func(t *testing.T) {
			shifts := align(tt.shards)
			phases := mergePhases(tt.shards, shifts)
			for k, want := range tt.want {
				if ph := phases[k]; ph.Start != want || ph.End != want+10e9 {
					t.Errorf("turn %d is measured from %d to %d, want from %d", k, ph.Start, ph.End, want)
				}
				r := &merge{
					Summary: summary.New(summary.Options{Profile: &profiles.Profile{}, Result: &results.Result{}}),
					all:     tt.shards, shifts: shifts,
				}
				if err := r.mergePass(k); err != nil {
					t.Fatal(err)
				}
				series := r.Accounts[0].Lanes[0].Series
				if len(series) != 1 || results.Nanos(series[0].Number)*1e9 != want {
					t.Errorf("turn %d: what came at its begin stands at %+v, want one interval at %d", k, series, want)
				}
			}
		})
	}
}
