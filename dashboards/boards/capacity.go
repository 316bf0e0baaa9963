package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// ofStep returns the query of a figure of each step.
func ofStep(metric string) string {
	return fmt.Sprintf(`max by (step) (last_over_time(%s{search="$search"}[$__range]))`, metric)
}

// ofJudged leaves out the steps that do not count towards the maximum.
func ofJudged(metric string) string {
	return ofStep(metric) + ` and on (step) last_over_time(eventmeter_capacity_step_info{search="$search",verdict!="aside"}[$__range])`
}

// capacity is the dashboard of a capacity search: how much load does the target sustain?
func capacity() *dashboard.DashboardBuilder {
	d := board(
		"eventmeter-capacity",
		"eventmeter: capacity",
		"A search for the largest load that meets an SLO: the maximum load, and the steps that led to it.",
	)
	d.WithVariable(
		choice(
			"search",
			"Search",
			`query_result(label_join(max by (name, search) (last_over_time(eventmeter_capacity_info[30d])), "text", " ", "name", "search"))`,
			`/search="(?<value>[^"]+)",text=" ?(?<text>[^"]+)"/`,
		),
	)
	d.WithPanel(
		figure(
			shape{
				"Maximum load",
				"The largest load that met the SLO, in the unit of the axis, and the smallest that did not.",
				"short",
				8,
				5,
			},
			[]query{
				{"largest that met the SLO", `max(last_over_time(eventmeter_capacity_maximum_load{search="$search"}[$__range]))`},
				{
					"smallest that did not meet it",
					`max(last_over_time(eventmeter_capacity_maximum_above_load{search="$search"}[$__range]))`,
				},
			},
		),
	)
	d.WithPanel(figure(shape{"Deliveries per second at the maximum load", "", "cps", 8, 5}, []query{
		{"deliveries", `max(last_over_time(eventmeter_capacity_maximum_deliveries_rate{search="$search"}[$__range]))`},
	}))
	d.WithPanel(
		rows(
			shape{
				"Outcome",
				"found; none: the lowest load did not meet the SLO; bound: the highest load met it; generator: above the " +
					"maximum load the generator was the limit; exhausted: trials disagreed; searching: the search was " +
					"interrupted.",
				"",
				8,
				5,
			},
			[]string{
				"axis",
				"profile",
				"outcome",
			},
			[]column{
				{
					"steps",
					"none",
					`max by (axis, profile, outcome) (last_over_time(eventmeter_capacity_outcome{search="$search"}[$__range]) ` +
						`* on (search) group_left (axis, profile) last_over_time(eventmeter_capacity_info{search="$search"}[$__range])) ` +
						`* scalar(count(last_over_time(eventmeter_capacity_step_load{search="$search"}[$__range])))`,
				},
			},
		),
	)

	section(d, "Load curve")
	load := column{"load", "short", ofJudged("eventmeter_capacity_step_load")}
	d.WithPanel(
		against(
			shape{
				"Throughput",
				"Deliveries offered (due) and received per second, by load. The two diverge above the maximum load.",
				"cps",
				8,
				9,
			},
			load,
			[]column{
				{"offered", "cps", ofJudged("eventmeter_capacity_step_offered_rate")},
				{"received", "cps", ofJudged("eventmeter_capacity_step_achieved_rate")},
			},
			override{"/^offered$/", paintOf("#a87400")},
			override{"/^received$/", paintOf("#2a78d6")},
		),
	)
	d.WithPanel(against(shape{"Scheduled → received", "Of the slowest lane, by load.", "s", 8, 9}, load, []column{
		{"p50", "s", latencyOfStep("p50")}, {"p99", "s", latencyOfStep("p99")},
	}, override{"/^p50$/", paintOf("#12875d")}, override{"/^p99$/", paintOf("#d95f26")}))
	d.WithPanel(against(shape{"CPUs of the target", "CPU time over wall time, by load.", "short", 8, 9}, load, []column{
		{"target", "short", ofJudged("eventmeter_capacity_step_target_cpu_cores")},
	}, fixed(processes)...))

	section(d, "Steps")
	d.WithPanel(
		rows(
			shape{
				"Steps",
				"Every trial of a load, in order, with its verdict. Steps with verdict aside measure costs. The p99 is that of the slowest lane.",
				"",
				24,
				12,
			},
			[]string{"step", "purpose", "verdict"},
			[]column{
				{"load", "short", withVerdict(ofStep("eventmeter_capacity_step_load"))},
				{"offered", "cps", withVerdict(ofStep("eventmeter_capacity_step_offered_rate"))},
				{"received", "cps", withVerdict(ofStep("eventmeter_capacity_step_achieved_rate"))},
				{"expected", "locale", withVerdict(ofStep("eventmeter_capacity_step_expected"))},
				{"lost", "locale", withVerdict(ofStep("eventmeter_capacity_step_lost"))},
				{"backlog growth", "cps", withVerdict(ofStep("eventmeter_capacity_step_backlog_growth_rate"))},
				{"p99", "s", withVerdict(latencyOf("p99"))},
			},
		).OverrideByName("verdict", verdictColours()).

			// The step number is a label, and labels are sorted as texts.
			WithTransformation(dashboard.DataTransformerConfig{Id: "convertFieldType", Options: map[string]any{
				"fields":      map[string]any{},
				"conversions": []any{map[string]any{"targetField": "step", "destinationType": "number"}},
			}}).
			WithTransformation(dashboard.DataTransformerConfig{Id: "sortBy", Options: map[string]any{
				"fields": map[string]any{},
				"sort":   []any{map[string]any{"field": "step"}},
			}}),
	)
	return d
}

func latencyOf(name string) string {
	return fmt.Sprintf(
		`max by (step) (last_over_time(eventmeter_capacity_step_latency_seconds{search="$search",figure="%s"}[$__range]))`,
		name,
	)
}

func latencyOfStep(name string) string {
	return latencyOf(name) + ` and on (step) last_over_time(eventmeter_capacity_step_info{search="$search",verdict!="aside"}[$__range])`
}

// withVerdict adds the purpose and the verdict of a step.
func withVerdict(expr string) string {
	return expr + ` * on (step) group_left (purpose, verdict) ` +
		`max by (step, purpose, verdict) (last_over_time(eventmeter_capacity_step_info{search="$search"}[$__range]))`
}

func paintOf(colour string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": colour}}}
}

func verdictColours() []dashboard.DynamicConfigValue {
	options := map[string]any{}
	for i, v := range verdicts {
		options[v.name] = map[string]any{"color": v.colour, "index": i}
	}
	return []dashboard.DynamicConfigValue{
		{Id: "mappings", Value: []any{map[string]any{"type": "value", "options": options}}},
		{Id: "custom.cellOptions", Value: map[string]any{"type": "color-text"}},
	}
}
