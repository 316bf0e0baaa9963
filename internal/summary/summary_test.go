package summary

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Changes of lists that nobody saw are no proof of a loss where copies outlive
// the drain.
func TestCopiesThatOutliveTheDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		lost int64
		ttl  float64
		want bool
	}{"outlived": {3, 6000, true}, "shorter": {3, 5000, false}, "nothing missing": {0, 6000, false}} {
		p := &profiles.Profile{}
		p.Phases.Drain = 5 * time.Second
		s := New(Options{Profile: p, Result: &results.Result{}})
		s.warnLane(results.Lane{Name: "lists", Expected: 10, LostSilent: tt.lost, Figures: map[string]float64{"ttlMs": tt.ttl}})
		if warned(
			s.Result.Warnings,
			"3 changes had not been seen when the drain (5s) was over, and the target lets copies live for 6s",
		) != tt.want {
			t.Errorf("%s: %+v", name, s.Result.Warnings)
		}
	}
}

// TestTurnsAddUp: events of all passes count, those of their warm-ups apart, and one without an answer is uncertain.
func TestTurnsAddUp(t *testing.T) {
	s := New(Options{Profile: &profiles.Profile{}, Result: &results.Result{}})
	for i := range int64(2) {
		s.Add(ledger.Account{
			Measured: ledger.Scheduled{Fired: 20 + i, Accepted: 8 + i, Uncertain: 3, Refused: 4, Pending: 5, Dropped: 6},
			WarmUp:   ledger.Scheduled{Fired: 1 + i, Accepted: 1 + i},
		}, nil, results.Generator{}, nil)
	}
	u := s.Result.Upstream
	got := [...]int64{u.Scheduled, u.Published, u.Accepted, u.Uncertain, u.Refused, u.Dropped, u.Warmup}
	if want := [...]int64{53, 41, 17, 16, 8, 12, 3}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// warned tells whether the only warning is of that code and begins with text.
func warned(ws []results.Warning, text string) bool {
	return len(ws) == 1 && ws[0].Code == "ttl-outlasts-drain" && strings.Contains(ws[0].Text, text)
}
