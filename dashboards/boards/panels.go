package boards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/xychart"
)

// In queries LANES stands for the selected lanes, RUN for the run, and SHIFT, which
// must follow every selector with either, for the offset of the overlaid run.
const (
	lanesOf = `run="%[1]s",system=~"$system",mode=~"$mode",lane=~"$lane"`
	runOf   = `run="%[1]s"`
)

// ofRun is a query for the selected run, as all are unless they are for the other.
func ofRun(query string) string { return filled(query, "$run", "") }

func ofOther(query string) string { return filled(query, "$other", " offset ${shift}ms") }

func filled(query, run, shift string) string {
	return strings.NewReplacer("LANES", fmt.Sprintf(lanesOf, run), "RUN", fmt.Sprintf(runOf, run), " SHIFT", shift).Replace(query)
}

// The parts of queries. Series are a metric with its selector, and labels those by which
// they are added up.

func now(labels, series string) string { return by("sum", labels, series+" SHIFT") }

func rate(labels, series string) string {
	return by("sum", labels, "rate("+series+"[$__rate_interval] SHIFT)")
}

// total comes from the last scrape, even long after the run. Each run has a unique id, so
// its counters begin at zero.
func total(labels, series string) string { return by("sum", labels, last(series)) }

// most is the largest of the series, as they were last.
func most(labels, series string) string { return by("max", labels, last(series)) }

func last(series string) string { return "last_over_time(" + series + "[$__range] SHIFT)" }

func by(aggregate, labels, of string) string {
	if labels != "" {
		aggregate += " by (" + labels + ") "
	}
	return aggregate + "(" + of + ")"
}

// quantileOf is a quantile of a histogram over time, and wholeQuantile over the whole run: the
// increase of a histogram over the shown time has its shape, whatever its scale.
func quantileOf(q, labels, series string) string {
	return "histogram_quantile(" + q + ", " + rate(labels, series) + ")"
}

func wholeQuantile(q, labels, series string) string {
	return "histogram_quantile(" + q + ", " + by("sum", labels, "increase("+series+"[$__range] SHIFT)") + ")"
}

// query is the query of a panel, with the legend of its results.
type query struct {
	legend, expr string
}

// laidOver runs a query for both runs.
func laidOver(legend, expr string) []query {
	return []query{{legend, expr}, {legend + " " + otherMark, ofOther(expr)}}
}

func target(i int, q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).RefId(ref(i)).Expr(ofRun(q.expr)).LegendFormat(q.legend)
}

// ref returns the id of a query: A, B, C and so on.
func ref(i int) string { return string(rune('A' + i)) }

// shape is the title, unit and width of a panel, in 24ths of the page.
type shape struct {
	title, about string
	unit         string
	width        uint32
}

// builder is what the builders of all kinds of panels have.
type builder[P any] interface {
	Title(title string) P
	Description(text string) P
	Datasource(source common.DataSourceRef) P
	Span(width uint32) P
	Height(height uint32) P
}

// shaped gives a panel a shape, and the usual height.
func shaped[P builder[P]](p P, s shape) P {
	return p.Title(s.title).Description(s.about).Datasource(source()).Span(s.width).Height(8)
}

// legend is below a chart.
func legend(shown bool) *common.VizLegendOptionsBuilder {
	return common.NewVizLegendOptionsBuilder().
		DisplayMode(common.LegendDisplayModeList).
		Placement(common.LegendPlacementBottom).
		ShowLegend(shown)
}

// lines returns a chart over time.
func lines(s shape, queries []query, paint ...override) *timeseries.PanelBuilder {
	p := shaped(timeseries.NewPanelBuilder(), s).
		Unit(s.unit).
		Min(0).
		LineWidth(2).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeAuto).
		SpanNulls(common.BoolOrFloat64{Bool: ptr(false)}).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
		Legend(legend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range queries {
		p.WithTarget(target(i, q).Range())
	}
	for _, o := range paint {
		p.OverrideByRegexp(o.expression, o.properties)
	}
	return p
}

// logarithmic gives a chart a logarithmic axis, for times that differ by powers of
// ten.
func logarithmic(p *timeseries.PanelBuilder) *timeseries.PanelBuilder {
	return p.ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionLog).Log(10))
}

// stacked stacks the series of a chart, for parts of a whole.
func stacked(p *timeseries.PanelBuilder) *timeseries.PanelBuilder {
	return p.FillOpacity(30).LineWidth(1).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// heat returns a chart of the distribution of a native histogram over time.
func heat(s shape, histogram string) *heatmap.PanelBuilder {
	return shaped(heatmap.NewPanelBuilder(), s).
		YAxis(heatmap.NewYAxisConfigBuilder().
			Unit(s.unit).
			ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionLog).Log(2))).
		Color(heatmap.NewHeatmapColorOptionsBuilder().
			Mode(heatmap.HeatmapColorModeScheme).
			Scheme("Oranges").
			Steps(64).
			Exponent(0.5).
			Scale(heatmap.HeatmapColorScaleExponential)).
		ShowLegend().Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle)).
		WithTarget(target(0, query{"", rate("", histogram)}).Format(prometheus.PromQueryFormatHeatmap).Range())
}

// figure returns a panel with the newest value of each query.
func figure(s shape, queries []query, paint ...override) *stat.PanelBuilder {
	p := shaped(stat.NewPanelBuilder(), s).Unit(s.unit).
		GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeNone).TextMode(common.BigValueTextModeAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false))
	for i, q := range queries {
		p.WithTarget(target(i, q).Instant())
	}
	for _, o := range paint {
		p.ColorMode(common.BigValueColorModeValue).OverrideByRegexp(o.expression, o.properties)
	}
	return p
}

// column is a query of a table, with a name and the unit of its values.
type column struct {
	name, unit string
	expr       string
}

// rows returns a table with a line for each set of labels and a column for each
// query.
func rows(s shape, labels []string, columns []column) *table.PanelBuilder {
	p := shaped(table.NewPanelBuilder(), s).
		CellHeight(common.TableCellHeightSm).
		MinWidth(70).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{}))
	names, order := map[string]string{}, map[string]int{}
	for _, l := range labels {
		order[l] = len(order)
	}
	for i, c := range columns {
		p.WithTarget(target(i, query{"", c.expr}).Format(prometheus.PromQueryFormatTable).Instant())
		field := "Value #" + ref(i)
		if len(columns) == 1 {
			field = "Value"
		}
		names[field] = c.name
		order[field] = len(order)
		p.OverrideByName(c.name, []dashboard.DynamicConfigValue{{Id: "unit", Value: c.unit}})
	}
	for _, t := range joined(names, order, map[string]bool{"Time": true}) {
		p.WithTransformation(t)
	}
	return p
}

// joined returns the transformations that join the results of queries by their labels.
func joined(names map[string]string, order map[string]int, hidden map[string]bool) []dashboard.DataTransformerConfig {
	return []dashboard.DataTransformerConfig{
		{Id: "merge", Options: map[string]any{}},
		{Id: "organize", Options: map[string]any{"excludeByName": hidden, "renameByName": names, "indexByName": order}},
	}
}

// against returns a chart of the other columns against the first, with a point for
// each set of labels.
func against(s shape, x column, ys []column, paint ...override) *xychart.PanelBuilder {
	p := shaped(xychart.NewPanelBuilder(), s).Unit(s.unit).
		Mapping(xychart.SeriesMappingAuto).
		Show(xychart.XYShowModePoints).PointSize(xychart.NewXychartFieldConfigPointSizeBuilder().Fixed(8)).
		AxisLabel(x.name).Tooltip(ofOne()).Legend(legend(true))
	names, order := map[string]string{}, map[string]int{}
	for i, c := range append([]column{x}, ys...) {
		p.WithTarget(target(i, query{"", c.expr}).Format(prometheus.PromQueryFormatTable).Instant())
		names["Value #"+ref(i)], order["Value #"+ref(i)] = c.name, i
		p.OverrideByName(c.name, []dashboard.DynamicConfigValue{{Id: "unit", Value: c.unit}})
	}
	for _, t := range joined(names, order, map[string]bool{"Time": true, "step": true}) {
		p.WithTransformation(t)
	}
	for _, o := range paint {
		p.OverrideByRegexp(o.expression, o.properties)
	}
	return p
}

// ofOne returns a tooltip that shows the series under the pointer.
func ofOne() *common.VizTooltipOptionsBuilder {
	return common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeSingle).Sort(common.SortOrderNone)
}

// panel is a panel of any kind.
type panel = cog.Builder[dashboard.Panel]

// section adds panels to a page, below a title.
func section(d *dashboard.DashboardBuilder, title string, panels ...panel) {
	d.WithRow(dashboard.NewRowBuilder(title))
	add(d, panels...)
}

func add(d *dashboard.DashboardBuilder, panels ...panel) {
	for _, p := range panels {
		d.WithPanel(p)
	}
}
