package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

const (
	phaseAnnotation = "Phases"
	burstAnnotation = "Bursts"
	// otherMark ends the legend of the overlaid run.
	otherMark = "(other run)"

	// newestRuns are all runs of the last month, the newest first, each with the name
	// that it was given (--name) and its profile before its id.
	newestRuns = `sort_desc(label_join(max by (name, profile, run) (` +
		`last_over_time(eventmeter_run_info[30d]) ` +
		`* on (run) group_left () max by (run) (last_over_time(eventmeter_run_start_timestamp_seconds[30d]))` +
		`), "text", " ", "name", "profile", "run"))`
	// noRun comes first, so that no run is overlaid until one is selected.
	noRun = `label_replace(label_replace(vector(0), "run", "none", "", ""), "text", "none", "", "")`

	// between is the time from the start of the other run to that of the selected
	// one, in milliseconds, by which the other run is shifted. Prometheus accepts no
	// offset of 0, so it is 1 without another run.
	between = `(round(1000 * (scalar(max(last_over_time(eventmeter_run_start_timestamp_seconds{run="$run"}[30d])))` +
		` - max(last_over_time(eventmeter_run_start_timestamp_seconds{run="$other"}[30d])))) != 0) or vector(1)`
)

func ptr[T any](v T) *T { return &v }

// source returns the data source of all panels, which a variable selects.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: ptr("prometheus"), Uid: ptr("${datasource}")}
}

func text(s string) dashboard.StringOrMap { return dashboard.StringOrMap{String: &s} }

func one(s string) dashboard.VariableOption {
	v := dashboard.StringOrArrayOfString{String: &s}
	return dashboard.VariableOption{Selected: ptr(true), Text: v, Value: v}
}

func dataSource() *dashboard.DatasourceVariableBuilder {
	return dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")
}

// choice returns a variable with one value, by default the first that the query
// finds.
func choice(name, label, query, regex string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(text(query)).
		Definition(query).Regex(regex).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortDisabled)
}

// filter returns a variable with any number of values, by default all.
func filter(name, label, query string) *dashboard.QueryVariableBuilder {
	return choice(name, label, query, "").Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: ptr(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// byText leaves out the space before the profile of a run without a name.
const byText = `/run="(?<value>[^"]+)",text=" ?(?<text>[^"]+)"/`

// runVariables adds variables that select a run, another run to overlay, and their
// lanes.
func runVariables(d *dashboard.DashboardBuilder, overlaid bool) {
	of := `{run="$run"}`
	d.WithVariable(choice("run", "Run", "query_result("+newestRuns+")", byText))
	if overlaid {
		of = `{run=~"$run|$other"}`
		d.WithVariable(choice("other", "Compare with", "query_result("+noRun+" or "+newestRuns+")", byText).Current(one("none")))
		d.WithVariable(choice("shift", "", "query_result("+between+")", `/^\{\} (-?[0-9]+) /`).Hide(dashboard.VariableHideHideVariable))
	}
	for _, v := range [][2]string{{"system", "System"}, {"mode", "Mode"}, {"lane", "Lane"}} {
		d.WithVariable(filter(v[0], v[1], "label_values(eventmeter_subscriptions"+of+", "+v[0]+")"))
	}
}

// runAnnotations marks when phases began and when bursts were due.
func runAnnotations(d *dashboard.DashboardBuilder) {
	for _, a := range []struct{ name, colour, expr string }{
		{phaseAnnotation, "#6a4fc0", `eventmeter_phase_start_timestamp_seconds{run="$run"} * 1000`},
		{burstAnnotation, "#a87400", `eventmeter_burst_start_timestamp_seconds{run="$run"} * 1000`},
	} {
		d.Annotation(dashboard.NewAnnotationQueryBuilder().Name(a.name).Datasource(source()).Enable(true).IconColor(a.colour).
			Target(prometheus.NewDataqueryBuilder().Datasource(source()).Expr(a.expr).RefId("Anno").Interval("1s").Range()))
	}
}

// board returns an empty dashboard.
func board(uid, title, description string) *dashboard.DashboardBuilder {
	d := dashboard.NewDashboardBuilder(title).Uid(uid).Description(description).Tags([]string{"eventmeter"}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).Time("now-15m", "now").Refresh("5s").Timezone("browser").
		Link(dashboard.NewDashboardLinkBuilder("eventmeter").
			Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"eventmeter"}).
			AsDropdown(true).
			KeepTime(true))
	return d.WithVariable(dataSource())
}
