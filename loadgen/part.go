package loadgen

import (
	"slices"
	"time"
)

// Part has the emissions of a schedule that one of several shards publishes: the
// ones whose number modulo Every is in Mine. Their times do not change, so that all
// parts together are exactly the whole schedule, even with the random times of a
// Poisson process.
//
// Emission k of a Part is emission [Part.Number](k) of the whole. Without Mine there
// are no emissions.
type Part struct {
	Whole Schedule
	Every uint64
	Mine  []uint64 // ascending, without repeats, each below Every
}

// Number returns the number in the whole schedule of the part's emission k. Mine
// must not be empty.
func (p Part) Number(k uint64) uint64 {
	n := uint64(len(p.Mine))
	return k/n*p.Every + p.Mine[k%n]
}

// At implements [Schedule].
func (p Part) At(k uint64) (time.Duration, bool) {
	if len(p.Mine) == 0 {
		return 0, false
	}
	return p.Whole.At(p.Number(k))
}

// SplitEmissions returns the part of a shard. Owners repeat every cycle emissions:
// owner returns the shard of emission n of a cycle, 0 <= n < cycle.
func SplitEmissions(whole Schedule, cycle int, owner func(n int) int, shard int) Part {
	p := Part{Whole: whole, Every: uint64(cycle)}
	for n := range cycle {
		if owner(n) == shard {
			p.Mine = append(p.Mine, uint64(n))
		}
	}
	p.Mine = slices.Clip(p.Mine)
	return p
}
