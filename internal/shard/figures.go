package shard

import (
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// mergeFigures adds up the figures of shards. It also returns the names of figures
// that cannot be added; their values are those of the shard with the largest.
func mergeFigures(parts []results.PartFigures) (results.PartFigures, []string) {
	out := results.PartFigures{Timings: map[string]ledger.Timing{}}
	values := make([]map[string]float64, len(parts))
	for i, p := range parts {
		values[i] = p.Values
		for name, t := range p.Timings {
			out.Timings[name] = out.Timings[name].Plus(t)
		}
		out.Conform = out.Conform.Plus(p.Conform)
	}
	var peaks []string
	quantile := func(timing string, percent float64) float64 {
		return out.Timings[timing].Distribution().Percentile(percent)
	}
	out.Values, peaks = run.FigureTables.Merge(quantile, values...)
	return out, peaks
}
