package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// lists is the dashboard of lists with a time to live: what caching saves, and how long clients use
// stale copies.
func lists() *dashboard.DashboardBuilder {
	d := board(
		"eventmeter-lists",
		"eventmeter: TTL and lists",
		"Lists with a time to live (SEP-2549): what caching saves, and how long clients use stale copies.",
	)
	runVariables(d, true)
	runAnnotations(d)
	const staleness = "eventmeter_list_staleness_seconds{LANES}"
	byLane := func(s shape, expr string) *timeseries.PanelBuilder {
		return lines(s, laidOver("{{lane}}", expr), overlaid(listLanes)...)
	}
	add(d, rows(shape{"Side by side", "So far.", "", 24}, []string{"lane"}, []column{
		{"uses", "locale", total("lane", "eventmeter_list_uses_total{LANES}")},
		{"page reads", "locale", total("lane", "eventmeter_list_page_reads_total{LANES}")},
		{"fetches", "locale", total("lane", "eventmeter_list_fetches_total{LANES}")},
		{"avoided", "percentunit", most("lane", "eventmeter_list_avoided_ratio{LANES}")},
		{"changes owed", "locale", total("lane", "eventmeter_list_changes_owed_total{LANES}")},
		{"changes learned", "locale", total("lane", "eventmeter_list_changes_learned_total{LANES}")},
		{"stale, p50", "s", wholeQuantile("0.5", "lane", staleness)},
		{"stale, p99", "s", wholeQuantile("0.99", "lane", staleness)},
		{"time to live", "s", most("lane", "eventmeter_list_ttl_seconds{LANES}")},
	}).Height(6))
	section(d, "Saved fetches",
		byLane(shape{"Fetches", "Pages fetched per second.", "reqps", 8}, rate("lane", "eventmeter_list_fetches_total{LANES}")),
		byLane(
			shape{"Reads answered by the cache", "Pages per second.", "cps", 8},
			rate("lane", "eventmeter_list_fetches_avoided_total{LANES}"),
		),
		stacked(lines(
			shape{
				"Why pages were fetched",
				"first, expired, changed (by a notification), uncached, background; of all selected lanes.",
				"reqps",
				8,
			},
			[]query{{"{{reason}}", rate("reason", "eventmeter_list_fetches_total{LANES}")}},
		)),
	)
	section(d, "Staleness",
		logarithmic(byLane(
			shape{"Staleness, p99", "From publishing a change until a client has seen it.", "s", 8},
			quantileOf("0.99", "lane", staleness),
		)),
		heat(shape{"Staleness", "All selected lanes.", "s", 8}, staleness),
		byLane(shape{"Changes not yet seen", "", "short", 8}, now("lane", "eventmeter_list_changes_unseen{LANES}")),
	)
	section(d, "Notifications and herds",
		lines(
			shape{"Notifications", "List-changed notifications per second: of the list in use, or another.", "cps", 8},
			[]query{{"{{lane}} {{list}}", rate("lane, list", "eventmeter_list_notifications_total{LANES}")}},
		),
		figure(
			shape{"Herd", "Fetches in the busiest tenth of a second over the mean, by cause.", "short", 8},
			[]query{{"{{lane}} {{cause}}", most("lane, cause", "eventmeter_list_herd_ratio{LANES}")}},
		),
		logarithmic(byLane(
			shape{"Fetching a page, p99", "", "s", 8},
			quantileOf("0.99", "lane", "eventmeter_list_fetch_seconds{LANES}"),
		)),
	)
	section(d, "Errors", lines(
		shape{
			"Errors so far",
			"Failed uses and fetches, stale pages used because no fresh page was available, failed cursors, and list versions that went back.",
			"short",
			24,
		},
		[]query{
			{"uses failed", now("", `eventmeter_list_uses_total{LANES,outcome="failed"}`)},
			{"fetches failed", now("", "eventmeter_list_fetches_failed_total{LANES}")},
			{"served stale", now("", "eventmeter_list_served_stale_total{LANES}")},
			{"cursors failed", now("", "eventmeter_list_cursor_failures_total{LANES}")},
			{"went back", now("", "eventmeter_list_regressions_total{LANES}")},
			{"uses missed", now("", "eventmeter_list_uses_missed_total{LANES}")},
		},
	))
	return d
}
