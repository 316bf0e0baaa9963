package bench

import (
	"cmp"
	"slices"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/results"
)

// mergeHealth lists the shards, and judges the generators machine by machine:
// several on one share its processors.
func (r *run) mergeHealth(all []archived) {
	res := r.result
	var first int64
	for _, s := range all {
		for _, p := range s.part.Passes[:min(1, len(s.part.Passes))] {
			if at := p.BeganAt.UnixNano(); first == 0 || at < first {
				first = at
			}
		}
	}
	machines := map[string]*results.Generator{}
	var order []string
	cpus := map[string]int{}
	for _, s := range all {
		res.Shards = append(res.Shards, shardOf(s, first))
		name := s.part.Machine
		if machines[name] == nil {
			machines[name] = new(results.Generator)
			order = append(order, name)
		}
		*machines[name] = health.Beside(*machines[name], s.result.Generator)
		cpus[name] = s.result.Host.CPUs
	}
	for _, i := range missingShards(all) {
		res.Shards = append(res.Shards, results.Shard{Index: i, Count: all[0].part.Count, Missing: true, Generator: results.Generator{Reasons: []string{}}})
	}
	slices.SortFunc(res.Shards, func(a, b results.Shard) int { return cmp.Compare(a.Index, b.Index) })

	// Firing is judged over all; the rest where it happened.
	whole := results.Generator{DroppedEvents: res.Generator.DroppedEvents}
	reasons := health.Bottlenecks(whole, 1, r.sending())
	for _, name := range order {
		in := *machines[name]
		in.DroppedEvents = 0
		for _, reason := range health.Bottlenecks(in, cpus[name], health.Sending{}) {
			if len(order) > 1 {
				reason = name + ": " + reason
			}
			reasons = append(reasons, reason)
		}
	}
	res.Generator.Reasons = append(reasons, r.unsound...)
	res.Generator.Bottleneck = len(res.Generator.Reasons) > 0
}

// shardOf is the line of one shard in the result.
func shardOf(s archived, first int64) results.Shard {
	out := results.Shard{
		Index: s.part.Index, Count: s.part.Count, Machine: s.part.Machine,
		Partial: s.result.Partial, Reason: s.result.Reason,
		Fired: s.result.Upstream.Fired, Generator: s.result.Generator,
	}
	if len(s.part.Passes) > 0 {
		out.Skew = results.Nanos(s.part.Passes[0].BeganAt.UnixNano() - first)
	}
	for _, l := range s.result.Lanes {
		out.Subscriptions += l.Subscriptions
		out.Delivered += l.Delivered
		out.Foreign += l.Detail.Foreign
	}
	return out
}

// warnShards says what a reader of a merged result should know.
func (r *run) warnShards(all []archived) {
	res := r.result
	if res.Coverage < 1 {
		r.warning("coverage", "", "%.1f %% of the pairs of event and subscription were measured: a subscription is owed only what its own shard publishes, and these hear what others publish, too (%d copies, counted as foreign)", 100*res.Coverage, foreign(res))
	}
	var latest results.Nanos
	for _, s := range res.Shards {
		latest = max(latest, s.Skew)
	}
	if latest.Duration() > maxSkew {
		r.warning("skew", "", "the last shard began to publish %s after the first, by the clocks of their machines", results.FormatNanos(latest))
	}
	for _, s := range all[1:] {
		a, b := all[0].result.Host, s.result.Host
		if a.OS != b.OS || a.Arch != b.Arch || a.CPU != b.CPU || a.CPUs != b.CPUs || a.Memory != b.Memory || a.Kernel != b.Kernel {
			r.warning("mixed-machines", "", "shard %d ran on another kind of machine than shard %d, which is the host of this result", s.part.Index, all[0].part.Index)
		}
	}
}

func foreign(r *results.Result) (n int64) {
	for _, l := range r.Lanes {
		n += l.Detail.Foreign
	}
	return n
}

// maxSkew is how far apart shards may begin without a word: shorter than any
// interval of a time series.
const maxSkew = health.MaxReadDelay
