package summary

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
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

// warned tells whether the only warning is of that code and begins with text.
func warned(ws []results.Warning, text string) bool {
	return len(ws) == 1 && ws[0].Code == "ttl-outlasts-drain" && strings.Contains(ws[0].Text, text)
}
