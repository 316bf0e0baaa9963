package shard

import (
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// align says, for each shard and each pass of it, how much later its times
// stand in the merged result, so that all begin to publish at the same instant in
// every pass. Each shard's clock began when the shard did, so all passes are
// laid over those of one shard: of those with most passes, the one that began
// latest. No shift is negative, and that one's are equal.
func align(all []archived) [][]results.Nanos {
	var ref *results.Part
	for _, s := range all {
		if n := len(s.part.Passes); n > 0 && (ref == nil || n > len(ref.Passes) || n == len(ref.Passes) && s.part.Passes[0].Began > ref.Passes[0].Began) {
			ref = s.part
		}
	}
	out := make([][]results.Nanos, len(all))
	var least results.Nanos
	for i, s := range all {
		out[i] = make([]results.Nanos, len(s.part.Passes))
		for k, p := range s.part.Passes {
			out[i][k] = ref.Passes[k].Began - p.Began
			least = min(least, out[i][k])
		}
	}
	for i := range out {
		for k := range out[i] {
			out[i][k] -= least
		}
	}
	return out
}

// mergePhases lays the shards' phases over each other, as the series of the
// passes that they belong to: each phase from the first shard's begin to the
// last one's end.
func mergePhases(all []archived, shifts [][]results.Nanos) []results.Phase {
	out := []results.Phase{}
	for i, s := range all {
		if len(s.part.Passes) == 0 {
			continue
		}
		for _, ph := range s.result.Phases {
			shift := shifts[i][passOf(s.part, ph.Lane)]
			ph.Start += shift
			ph.End += shift
			at := slices.IndexFunc(out, func(o results.Phase) bool { return o.Name == ph.Name && o.Lane == ph.Lane })
			if at < 0 {
				out = append(out, ph)
				continue
			}
			out[at].Start, out[at].End = min(out[at].Start, ph.Start), max(out[at].End, ph.End)
		}
	}
	return out
}

// passOf is the pass in which a lane had its turn, and the only one where lanes
// take none. A turn that was broken off before it published has left no account: it
// came after the last that has.
func passOf(p *results.Part, lane string) int {
	if lane == "" {
		return 0
	}
	for k := range p.Passes {
		if lanes := p.Passes[k].Account.Lanes; len(lanes) > 0 && lanes[0].Name == lane {
			return k
		}
	}
	return len(p.Passes) - 1
}
