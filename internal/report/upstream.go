package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// upstreamValue is one figure of the run's kind of upstream, by its path in the result's upstream.
type upstreamValue struct {
	path, name, text string
}

// upstreamValues returns the figures, and the median and 99th percentile of the timings. Their
// names do not come from the target.
func upstreamValues(u *results.Upstream) (out []upstreamValue) {
	for _, name := range slices.Sorted(maps.Keys(u.Figures)) {
		out = append(out, upstreamValue{"figures." + name, name, strconv.FormatFloat(u.Figures[name], 'f', -1, 64)})
	}
	for _, name := range slices.Sorted(maps.Keys(u.Timings)) {
		q := u.Timings[name]
		out = append(out,
			upstreamValue{"timings." + name + ".p50", name + ", p50", quantile(q, q.P50)},
			upstreamValue{"timings." + name + ".p99", name + ", p99", quantile(q, q.P99)})
	}
	return out
}

// upstreamTable writes these figures in Markdown.
func (p *printer) upstreamTable(u *results.Upstream) {
	values := upstreamValues(u)
	if len(values) == 0 {
		return
	}
	p.printf("| upstream %s | |\n|---|--:|\n", Markup(u.Kind))
	for _, v := range values {
		p.row(Markup(v.name), v.text)
	}
	p.printf("\n")
}

// shownText formats a figure that is not judged.
func shownText(unit string, v *float64) string {
	switch {
	case v == nil:
		return "–"
	case unit == "ns":
		return results.Nanos(*v).String()
	}
	return ratio(*v)
}

// shown lists the figures that a comparison does not judge.
func (p *printer) shown(figures []stats.Shown) {
	if len(figures) == 0 {
		return
	}
	p.columns("upstream, not judged", "", "A", "B")
	p.printf("%s\n", strings.Repeat("─", width))
	for _, f := range figures {
		p.columns(f.Figure, "", shownText(f.Unit, f.A), shownText(f.Unit, f.B))
	}
	p.printf("\n")
}

// shownTable lists them in Markdown.
func (p *printer) shownTable(figures []stats.Shown) {
	if len(figures) == 0 {
		return
	}
	p.printf("**upstream, not judged**\n\n| figure | A | B |\n|---|--:|--:|\n")
	for _, f := range figures {
		p.row(Markup(f.Figure), shownText(f.Unit, f.A), shownText(f.Unit, f.B))
	}
	p.printf("\n")
}
