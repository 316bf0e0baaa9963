package boards

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// ofSearch is a figure of the selected search.
func ofSearch(name string) string { return "eventmeter_capacity_" + name + `{search="$search"}` }

// ofStep returns the query of a figure of each step.
func ofStep(name string) string { return most("step", ofSearch("step_"+name)) }

// latencyOfStep returns the query of a latency of the slowest lane in each step.
func latencyOfStep(figure string) string {
	return most("step", `eventmeter_capacity_step_latency_seconds{search="$search",figure="`+figure+`"}`)
}

// ofJudged leaves out the steps that do not count towards the maximum.
func ofJudged(expr string) string {
	return expr + " and on (step) " + last(`eventmeter_capacity_step_info{search="$search",verdict!="aside"}`)
}

// withVerdict adds the purpose and the verdict of a step.
func withVerdict(expr string) string {
	return expr + " * on (step) group_left (purpose, verdict) " + most("step, purpose, verdict", ofSearch("step_info"))
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
	add(d,
		figure(
			shape{
				"Maximum load",
				"The largest load that met the SLO, in the unit of the axis, and the smallest that did not.",
				"short",
				8,
			},
			[]query{
				{"largest that met the SLO", most("", ofSearch("maximum_load"))},
				{"smallest that did not meet it", most("", ofSearch("maximum_above_load"))},
			},
		).Height(5),
		figure(
			shape{"Deliveries per second at the maximum load", "", "cps", 8},
			[]query{{"deliveries", most("", ofSearch("maximum_deliveries_rate"))}},
		).Height(5),
		rows(
			shape{
				"Outcome",
				"found; none: the lowest load did not meet the SLO; bound: the highest load met it; generator: above the " +
					"maximum load the generator was the limit; exhausted: trials disagreed; searching: the search was " +
					"interrupted.",
				"",
				8,
			},
			[]string{"axis", "profile", "outcome"},
			[]column{{
				"steps",
				"none",
				by("max", "axis, profile, outcome",
					last(ofSearch("outcome"))+" * on (search) group_left (axis, profile) "+last(ofSearch("info"))) +
					" * scalar(count(" + last(ofSearch("step_load")) + "))",
			}},
		).Height(5),
	)

	load := column{"load", "short", ofJudged(ofStep("load"))}
	section(d, "Load curve",
		against(
			shape{
				"Throughput",
				"Deliveries offered (due) and received per second, by load. The two diverge above the maximum load.",
				"cps",
				8,
			},
			load,
			[]column{
				{"offered", "cps", ofJudged(ofStep("offered_rate"))},
				{"received", "cps", ofJudged(ofStep("achieved_rate"))},
			},
			override{"/^offered$/", paintOf("#a87400")},
			override{"/^received$/", paintOf("#2a78d6")},
		).Height(9),
		against(
			shape{"Scheduled → received", "Of the slowest lane, by load.", "s", 8},
			load,
			[]column{{"p50", "s", ofJudged(latencyOfStep("p50"))}, {"p99", "s", ofJudged(latencyOfStep("p99"))}},
			override{"/^p50$/", paintOf("#12875d")},
			override{"/^p99$/", paintOf("#d95f26")},
		).Height(9),
		against(
			shape{"CPUs of the target", "CPU time over wall time, by load.", "short", 8},
			load,
			[]column{{"target", "short", ofJudged(ofStep("target_cpu_cores"))}},
			fixed(processes)...,
		).Height(9),
	)

	section(d, "Steps",
		rows(
			shape{
				"Steps",
				"Every trial of a load, in order, with its verdict. Steps with verdict aside measure costs. The p99 is that of the slowest lane.",
				"",
				24,
			},
			[]string{"step", "purpose", "verdict"},
			[]column{
				{"load", "short", withVerdict(ofStep("load"))},
				{"offered", "cps", withVerdict(ofStep("offered_rate"))},
				{"received", "cps", withVerdict(ofStep("achieved_rate"))},
				{"expected", "locale", withVerdict(ofStep("expected"))},
				{"lost", "locale", withVerdict(ofStep("lost"))},
				{"backlog growth", "cps", withVerdict(ofStep("backlog_growth_rate"))},
				{"p99", "s", withVerdict(latencyOfStep("p99"))},
			},
		).Height(12).OverrideByName("verdict", verdictColours()).

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
