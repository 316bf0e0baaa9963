package boards

import (
	"fmt"
	"strings"

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

func ofRun(query string) string { return filled(query, "$run", "") }

func ofOther(query string) string { return filled(query, "$other", " offset ${shift}ms") }

func filled(query, run, shift string) string {
	return strings.NewReplacer("LANES", fmt.Sprintf(lanesOf, run), "RUN", fmt.Sprintf(runOf, run), " SHIFT", shift).Replace(query)
}

// query is the query of a panel, with the legend of its results.
type query struct {
	legend, expr string
}

// laidOver runs the queries for both runs.
func laidOver(of ...query) []query {
	out := make([]query, 0, 2*len(of))
	for _, q := range of {
		out = append(out, query{q.legend, ofRun(q.expr)}, query{q.legend + " " + otherMark, ofOther(q.expr)})
	}
	return out
}

// alone runs the queries for the selected run only.
func alone(of ...query) []query {
	out := make([]query, len(of))
	for i, q := range of {
		out[i] = query{q.legend, ofRun(q.expr)}
	}
	return out
}

func target(i int, q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).RefId(ref(i)).Expr(q.expr).LegendFormat(q.legend)
}

// ref returns the id of a query: A, B, C and so on.
func ref(i int) string { return string(rune('A' + i)) }

// shape is the title, unit and size of a panel. Width is in 24ths of the page.
type shape struct {
	title, about string
	unit         string
	width        uint32
	height       uint32 // 0 = 8
}

func (s shape) high() uint32 {
	if s.height == 0 {
		return 8
	}
	return s.height
}

// lines returns a chart over time.
func lines(s shape, queries []query, paint ...override) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().
		Title(s.title).
		Description(s.about).
		Datasource(source()).
		Unit(s.unit).
		Span(s.width).
		Height(s.high()).
		Min(0).
		LineWidth(2).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeAuto).
		SpanNulls(common.BoolOrFloat64{Bool: ptr(false)}).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).
			ShowLegend(true)).
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
func heat(s shape, expr string) *heatmap.PanelBuilder {
	return heatmap.NewPanelBuilder().Title(s.title).Description(s.about).Datasource(source()).Span(s.width).Height(s.high()).
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
		WithTarget(target(0, query{"", expr}).Format(prometheus.PromQueryFormatHeatmap).Range())
}

// figure returns a panel with the newest value of each query.
func figure(s shape, queries []query, paint ...override) *stat.PanelBuilder {
	p := stat.NewPanelBuilder().Title(s.title).Description(s.about).Datasource(source()).Unit(s.unit).Span(s.width).Height(s.high()).
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
	p := table.NewPanelBuilder().
		Title(s.title).
		Description(s.about).
		Datasource(source()).
		Span(s.width).
		Height(s.high()).
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
	p := xychart.NewPanelBuilder().Title(s.title).Description(s.about).Datasource(source()).Span(s.width).Height(s.high()).Unit(s.unit).
		Mapping(xychart.SeriesMappingAuto).
		Show(xychart.XYShowModePoints).PointSize(xychart.NewXychartFieldConfigPointSizeBuilder().Fixed(8)).
		AxisLabel(x.name).Tooltip(ofOne()).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).
			ShowLegend(true))
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

// section begins a row of the page.
func section(d *dashboard.DashboardBuilder, title string) {
	d.WithRow(dashboard.NewRowBuilder(title))
}
