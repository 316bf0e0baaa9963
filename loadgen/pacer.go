package loadgen

import (
	"math"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Pacer lets vegeta follow a Schedule: hit n is sent when emission n is due, and
// the attack stops where the schedule ends.
//
// Vegeta sleeps through the wait and cannot be woken, so an attack that has to
// end early, and whose drops have to be counted, is better paced by
// [Firing.Wait].
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

// Rate implements vegeta.Pacer. For a schedule that is not [Rated] it is the
// number of emissions in the second after elapsed.
func (p pacer) Rate(elapsed time.Duration) float64 {
	if r, ok := p.Schedule.(Rated); ok {
		return r.RateAt(elapsed)
	}
	if elapsed > math.MaxInt64-time.Second {
		return 0
	}
	return float64(Count(p.Schedule, elapsed+time.Second) - Count(p.Schedule, elapsed))
}

// Count returns the number of emissions of s that are due before t. It takes
// O(log) calls of At. A schedule that never reaches t counts as
// math.MaxUint64.
func Count(s Schedule, t time.Duration) uint64 {
	due := func(n uint64) bool {
		at, ok := s.At(n)
		return ok && at < t
	}
	if !due(0) {
		return 0
	}
	lo, hi := uint64(0), uint64(1) // due(lo), and hi is to be the first that is not
	for due(hi) {
		if hi > math.MaxUint64/2 {
			return math.MaxUint64
		}
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; due(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
