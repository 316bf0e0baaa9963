package boards

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// fleet is the dashboard of split runs: shards of eventmeter, and k6 processes with the extension,
// each with a segment of the test.
func fleet() *dashboard.DashboardBuilder {
	d := board(
		"eventmeter-fleet",
		"eventmeter: fleet",
		"A run split over processes and machines. k6 processes are identified by the tag instance_id, which the "+
			"k6-operator sets, and tests by the tag testid.",
	)
	d.WithVariable(
		choice("fleet", "Fleet", `query_result(sort(max by (run) (last_over_time(eventmeter_shard_up[30d]))))`, `/run="([^"]+)"/`),
	)
	d.WithVariable(filter("shard", "Shard", `label_values(eventmeter_shard_up{run="$fleet"}, shard)`))
	d.WithVariable(filter("testid", "k6 test", `label_values(k6_mcp_events_delivered_total, testid)`))
	d.WithVariable(filter("instance", "k6 process", `label_values(k6_mcp_events_delivered_total{testid=~"$testid"}, instance_id)`))

	const of = `{run="$fleet",shard=~"$shard"}`
	shard := func(expr string) []query { return []query{{"shard {{shard}}", expr}} }
	section(d, "Shards",
		rows(shape{"Shards", "So far.", "", 12}, []string{"shard"}, []column{
			{"up", "bool_yes_no", most("shard", "eventmeter_shard_up"+of)},
			{"published", "locale", total("shard", "eventmeter_shard_events_published_total"+of)},
			{"delivered", "locale", total("shard", "eventmeter_shard_deliveries_total"+of)},
			{"foreign", "locale", total("shard", "eventmeter_shard_deliveries_foreign_total"+of)},
			{"CPU", "s", total("shard", "eventmeter_shard_cpu_seconds_total"+of)},
		}),
		lines(shape{"Open subscriptions", "", "short", 12}, shard(now("shard", "eventmeter_shard_subscriptions_open"+of))),
		lines(
			shape{"Published", "Measured events per second.", "cps", 8},
			shard(rate("shard", "eventmeter_shard_events_published_total"+of)),
		),
		lines(
			shape{"Delivered", "Owed events received, per second.", "cps", 8},
			shard(rate("shard", "eventmeter_shard_deliveries_total"+of)),
		),
		lines(
			shape{"CPUs of the shards", "CPU time per second.", "short", 8},
			shard(rate("shard", "eventmeter_shard_cpu_seconds_total"+of)),
		),
	)
	section(d, "k6", segments()...)
	return d
}

// segments are the panels of k6. k6's output pushes the extension's metrics with a
// prefix and a suffix added to their names.
func segments() []panel {
	const (
		of     = `{testid=~"$testid",instance_id=~"$instance"}`
		legend = "{{mode}} {{instance_id}}"
		labels = "mode, instance_id"
	)
	count := func(metric string) string { return total("instance_id, mode", metric+of) }
	return []panel{
		rows(
			shape{"Processes", "Counts of each process, by mode. Expected and lost are known when subscriptions are closed.", "", 16},
			[]string{"instance_id", "mode"},
			[]column{
				{"expected", "locale", count("k6_mcp_events_expected_total")},
				{"delivered", "locale", count("k6_mcp_events_delivered_total")},
				{"lost", "locale", count("k6_mcp_events_lost_total")},
				{"duplicates", "locale", count("k6_mcp_event_duplicate_copies_total")},
				{"out of order", "locale", count("k6_mcp_events_out_of_order_total")},
				{"unexpected", "locale", count("k6_mcp_events_unexpected_total")},
			},
		),
		lines(
			shape{"Open subscriptions", "", "short", 8},
			[]query{{legend, now(labels, "k6_mcp_open_subscriptions"+of)}},
			fixed(modes)...),
		logarithmic(lines(
			shape{
				"Latency, p99",
				"All processes together. k6 must push trends as native histograms (K6_FEATURES=native-histograms): quantiles " +
					"of several processes cannot be added.",
				"s",
				8,
			},
			[]query{{"{{mode}}", quantileOf("0.99", "mode", "k6_mcp_event_latency_seconds"+of)}},
			fixed(modes)...)),
		lines(
			shape{"Delivered", "Per second.", "cps", 8},
			[]query{{legend, rate(labels, "k6_mcp_events_delivered_total"+of)}},
			fixed(modes)...),
		lines(
			shape{"Requests without an event", "Per second.", "reqps", 8},
			[]query{{legend, rate(labels, "k6_mcp_refresh_requests_total"+of)}},
			fixed(modes)...),
	}
}
