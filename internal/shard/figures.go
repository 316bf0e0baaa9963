package shard

import (
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// mergeFigures adds up the figures of shards. It also returns the names of
// those that cannot be added, and are of the shard that had most.
func mergeFigures(parts []results.PartFigures) (results.PartFigures, []string) {
	out := results.PartFigures{Timings: map[string]ledger.Timing{}}
	values := make([]map[string]float64, len(parts))
	for i, p := range parts {
		values[i] = p.Values
		for name, t := range p.Timings {
			out.Timings[name] = out.Timings[name].Plus(t)
		}
	}
	var peaks []string
	out.Values, peaks = run.FigureTables.Merge(values...)
	return out, peaks
}
