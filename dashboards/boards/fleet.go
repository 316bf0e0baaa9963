package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

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
	shard := func(expr string) []query { return []query{{"shard {{shard}}", fmt.Sprintf(expr, of)}} }
	section(d, "Shards")
	d.WithPanel(rows(shape{"Shards", "So far.", "", 12, 8}, []string{"shard"}, []column{
		{"up", "bool_yes_no", fmt.Sprintf(`max by (shard) (last_over_time(eventmeter_shard_up%s[$__range]))`, of)},
		{"published", "locale", shardTotal("eventmeter_shard_events_published_total", of)},
		{"delivered", "locale", shardTotal("eventmeter_shard_deliveries_total", of)},
		{"foreign", "locale", shardTotal("eventmeter_shard_deliveries_foreign_total", of)},
		{"CPU", "s", shardTotal("eventmeter_shard_cpu_seconds_total", of)},
	}))
	d.WithPanel(lines(shape{"Open subscriptions", "", "short", 12, 0}, shard(`sum by (shard) (eventmeter_shard_subscriptions_open%s)`)))
	d.WithPanel(
		lines(
			shape{"Published", "Measured events per second.", "cps", 8, 0},
			shard(`sum by (shard) (rate(eventmeter_shard_events_published_total%s[$__rate_interval]))`),
		),
	)
	d.WithPanel(
		lines(
			shape{"Delivered", "Owed events received, per second.", "cps", 8, 0},
			shard(`sum by (shard) (rate(eventmeter_shard_deliveries_total%s[$__rate_interval]))`),
		),
	)
	d.WithPanel(
		lines(
			shape{"CPUs of the shards", "CPU time per second.", "short", 8, 0},
			shard(`sum by (shard) (rate(eventmeter_shard_cpu_seconds_total%s[$__rate_interval]))`),
		),
	)

	section(d, "k6")
	segments(d)
	return d
}

func shardTotal(metric, of string) string {
	return fmt.Sprintf(`sum by (shard) (last_over_time(%s%s[$__range]))`, metric, of)
}

// segments adds the panels of k6. k6's output pushes the extension's metrics with a
// prefix and a suffix added to their names.
func segments(d *dashboard.DashboardBuilder) {
	const of = `{testid=~"$testid",instance_id=~"$instance"}`
	total := func(metric, by string) string {
		return fmt.Sprintf(`sum by (%s) (last_over_time(%s%s[$__range]))`, by, metric, of)
	}
	d.WithPanel(
		rows(
			shape{"Processes", "Counts of each process, by mode. Expected and lost are known when subscriptions are closed.", "", 16, 8},
			[]string{"instance_id", "mode"},
			[]column{
				{"expected", "locale", total("k6_mcp_events_expected_total", "instance_id, mode")},
				{"delivered", "locale", total("k6_mcp_events_delivered_total", "instance_id, mode")},
				{"lost", "locale", total("k6_mcp_events_lost_total", "instance_id, mode")},
				{"duplicates", "locale", total("k6_mcp_event_duplicate_copies_total", "instance_id, mode")},
				{"out of order", "locale", total("k6_mcp_events_out_of_order_total", "instance_id, mode")},
				{"unexpected", "locale", total("k6_mcp_events_unexpected_total", "instance_id, mode")},
			},
		),
	)
	d.WithPanel(
		lines(
			shape{"Open subscriptions", "", "short", 8, 0},
			[]query{{"{{mode}} {{instance_id}}", `sum by (mode, instance_id) (k6_mcp_open_subscriptions` + of + `)`}},
			fixed(modes)...),
	)
	d.WithPanel(
		logarithmic(lines(
			shape{
				"Latency, p99",
				"All processes together. k6 must push trends as native histograms (K6_FEATURES=native-histograms): quantiles " +
					"of several processes cannot be added.",
				"s",
				8,
				0,
			},
			[]query{
				{"{{mode}}", `histogram_quantile(0.99, sum by (mode) (rate(k6_mcp_event_latency_seconds` + of + `[$__rate_interval])))`},
			},
			fixed(modes)...)),
	)
	d.WithPanel(
		lines(
			shape{"Delivered", "Per second.", "cps", 8, 0},
			[]query{
				{
					"{{mode}} {{instance_id}}",
					`sum by (mode, instance_id) (rate(k6_mcp_events_delivered_total` + of + `[$__rate_interval]))`,
				},
			},
			fixed(modes)...),
	)
	d.WithPanel(
		lines(
			shape{"Requests without an event", "Per second.", "reqps", 8, 0},
			[]query{
				{
					"{{mode}} {{instance_id}}",
					`sum by (mode, instance_id) (rate(k6_mcp_refresh_requests_total` + of + `[$__rate_interval]))`,
				},
			},
			fixed(modes)...),
	)
}
