package shard

import (
	"slices"

	"github.com/eventmeter/eventmeter/results"
)

// align returns, for each shard and each of its passes, how much later its times are
// placed in the merged result, so that all shards begin to publish at the same
// instant in every pass. Each shard's clock began with the shard, so all passes are
// aligned with those of one shard: of the shards with the most passes, the one that
// began last. No shift is negative.
func align(all []archived) [][]results.Nanos {
	var ref *results.Part
	for _, s := range all {
		if n := len(
			s.part.Passes,
		); n > 0 &&
			(ref == nil || n > len(ref.Passes) || n == len(ref.Passes) && s.part.Passes[0].Began > ref.Passes[0].Began) {
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

// mergePhases aligns the shards' phases like the series of their passes: each phase
// lasts from the first shard's beginning to the last one's end.
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

// passOf returns the pass in which a lane had its turn; 0 if lanes do not take turns.
// A turn that ended before it published has no account, and comes after the last
// pass.
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
