package report

import (
	"maps"
	"slices"

	"github.com/mcpload/mcpload/results"
)

// upstream lists the figures that only the run's kind of upstream has.
func (p *printer) upstream(u *results.Upstream) {
	if len(u.Figures)+len(u.Timings) == 0 {
		return
	}
	p.printf("upstream (%s)\n", Clean(u.Kind))
	for _, name := range slices.Sorted(maps.Keys(u.Figures)) {
		p.printf("  %s%s\n", padRight(name, labelWidth), padLeft(ratio(u.Figures[name]), columnWidth))
	}
	for _, name := range slices.Sorted(maps.Keys(u.Timings)) {
		q := u.Timings[name]
		p.printf("  %sp50 %s, p99 %s, max %s of %s\n", padRight(name, labelWidth), quantile(q, q.P50), quantile(q, q.P99), quantile(q, q.Max), count(q.Count))
	}
	p.printf("\n")
}
