package loadgen

import (
	"math"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Pacer lets vegeta's attacker follow a Schedule: hit n is sent when emission n
// is due, and the attack stops where the schedule ends. Use it for plain requests
// only. Emissions need [Loop]: an attacker neither stamps requests when they leave
// nor counts drops, and it sleeps on after its wait is cancelled.
func Pacer(s Schedule) vegeta.Pacer { return pacer{s} }

type pacer struct{ Schedule }

// Pace implements vegeta.Pacer.
func (p pacer) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	at, ok := p.At(hits)
	if !ok {
		return 0, true
	}
	return max(0, at-elapsed), false
}

// Rate implements vegeta.Pacer: the number of emissions in the second after
// elapsed.
func (p pacer) Rate(elapsed time.Duration) float64 {
	if elapsed > math.MaxInt64-time.Second {
		return 0
	}
	return float64(Count(p.Schedule, elapsed+time.Second) - Count(p.Schedule, elapsed))
}
