package shard

import (
	"cmp"
	"slices"

	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/summary"
	"github.com/eventmeter/eventmeter/results"
)

// mergeHealth lists the shards, and judges the generators per machine, because those
// on one machine share its processors.
func (m *merge) mergeHealth() {
	res, all := m.Result, m.all
	var first int64
	for _, s := range all {
		for _, p := range s.part.Passes[:min(1, len(s.part.Passes))] {
			if at := p.BeganAt.UnixNano(); first == 0 || at < first {
				first = at
			}
		}
	}
	var machines []summary.Machine
	for _, s := range all {
		res.Shards = append(res.Shards, shardOf(s, first))
		i := slices.IndexFunc(machines, func(m summary.Machine) bool { return m.Name == s.part.Machine })
		if i < 0 {
			i = len(machines)
			machines = append(machines, summary.Machine{Name: s.part.Machine})
		}
		machines[i].Generator = health.Beside(machines[i].Generator, s.result.Generator)
		machines[i].CPUs = s.result.Host.CPUs
	}
	for _, i := range missingShards(all) {
		res.Shards = append(
			res.Shards,
			results.Shard{Index: i, Count: all[0].part.Count, Missing: true, Generator: results.Generator{Reasons: []string{}}},
		)
	}
	slices.SortFunc(res.Shards, func(a, b results.Shard) int { return cmp.Compare(a.Index, b.Index) })
	m.JudgeMachines(machines)
}

// shardOf returns the entry of one shard in the result.
func shardOf(s archived, first int64) results.Shard {
	out := results.Shard{
		Index: s.part.Index, Count: s.part.Count, Machine: s.part.Machine,
		Partial: s.result.Partial, Reason: s.result.Reason,
		Published: s.result.Upstream.Published, Generator: s.result.Generator,
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

// warnShards adds the warnings that only a merged result needs.
func (m *merge) warnShards() {
	res, all := m.Result, m.all
	if res.Coverage < 1 {
		m.Warn(
			"coverage",
			"",
			"%.1f %% of the pairs of event and subscription were measured: a subscription is owed only what its own shard "+
				"publishes, and these also receive what others publish (%d copies, counted as foreign)",
			100*res.Coverage,
			foreign(res),
		)
	}
	var latest results.Nanos
	for _, s := range res.Shards {
		latest = max(latest, s.Skew)
	}
	if latest.Duration() > maxSkew {
		m.Warn(
			"skew",
			"",
			"the last shard began to publish %s after the first, by the clocks of their machines",
			latest,
		)
	}
	for _, s := range all[1:] {
		a, b := all[0].result.Host, s.result.Host
		if a.OS != b.OS || a.Arch != b.Arch || a.CPU != b.CPU || a.CPUs != b.CPUs || a.Memory != b.Memory || a.Kernel != b.Kernel {
			m.Warn(
				"mixed-machines",
				"",
				"shard %d ran on another kind of machine than shard %d, whose machine is the host of this result",
				s.part.Index,
				all[0].part.Index,
			)
		}
	}
}

func foreign(r *results.Result) (n int64) {
	for _, l := range r.Lanes {
		n += l.Detail.Foreign
	}
	return n
}

// maxSkew is the largest difference between the starts of shards without a warning.
// It is shorter than any interval of a time series.
const maxSkew = health.MaxReadDelay
