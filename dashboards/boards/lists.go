package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// listTotal is the total of a counter by lane.
func listTotal(metric string) string {
	return fmt.Sprintf(`sum by (lane) (last_over_time(%s{LANES}[$__range] SHIFT))`, metric)
}

func listRate(metric, more, by string) string {
	return fmt.Sprintf(`sum by (%s) (rate(%s{LANES%s}[$__rate_interval] SHIFT))`, by, metric, more)
}

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
	paint := append(fixed(listLanes), dashed)
	d.WithPanel(rows(shape{"Side by side", "So far.", "", 24, 6}, []string{"lane"}, []column{
		{"uses", "locale", ofRun(listTotal("eventmeter_list_uses_total"))},
		{"page reads", "locale", ofRun(listTotal("eventmeter_list_page_reads_total"))},
		{"fetches", "locale", ofRun(listTotal("eventmeter_list_fetches_total"))},
		{"avoided", "percentunit", ofRun(`max by (lane) (last_over_time(eventmeter_list_avoided_ratio{LANES}[$__range] SHIFT))`)},
		{"changes owed", "locale", ofRun(listTotal("eventmeter_list_changes_owed_total"))},
		{"changes learned", "locale", ofRun(listTotal("eventmeter_list_changes_learned_total"))},
		{"stale, p50", "s", ofRun(listQuantile("eventmeter_list_staleness_seconds", "0.5"))},
		{"stale, p99", "s", ofRun(listQuantile("eventmeter_list_staleness_seconds", "0.99"))},
		{"time to live", "s", ofRun(`max by (lane) (last_over_time(eventmeter_list_ttl_seconds{LANES}[$__range] SHIFT))`)},
	}))

	section(d, "Saved fetches")
	d.WithPanel(
		lines(
			shape{"Fetches", "Pages fetched per second.", "reqps", 8, 0},
			laidOver(query{"{{lane}}", listRate("eventmeter_list_fetches_total", "", "lane")}),
			paint...),
	)
	d.WithPanel(
		lines(
			shape{"Reads answered by the cache", "Pages per second.", "cps", 8, 0},
			laidOver(query{"{{lane}}", listRate("eventmeter_list_fetches_avoided_total", "", "lane")}),
			paint...),
	)
	d.WithPanel(
		stacked(
			lines(
				shape{
					"Why pages were fetched",
					"first, expired, changed (by a notification), uncached, background; of all selected lanes.",
					"reqps",
					8,
					0,
				},
				alone(query{"{{reason}}", listRate("eventmeter_list_fetches_total", "", "reason")}),
			),
		),
	)

	section(d, "Staleness")
	d.WithPanel(logarithmic(lines(shape{"Staleness, p99", "From publishing a change until a client has seen it.", "s", 8, 0}, laidOver(
		query{
			"{{lane}}",
			`histogram_quantile(0.99, sum by (lane) (rate(eventmeter_list_staleness_seconds{LANES}[$__rate_interval] SHIFT)))`,
		},
	), paint...)))
	d.WithPanel(
		heat(
			shape{"Staleness", "All selected lanes.", "s", 8, 0},
			ofRun(`sum(rate(eventmeter_list_staleness_seconds{LANES}[$__rate_interval] SHIFT))`),
		),
	)
	d.WithPanel(
		lines(
			shape{"Changes not yet seen", "", "short", 8, 0},
			laidOver(query{"{{lane}}", `sum by (lane) (eventmeter_list_changes_unseen{LANES} SHIFT)`}),
			paint...),
	)

	section(d, "Notifications and herds")
	d.WithPanel(
		lines(
			shape{"Notifications", "List-changed notifications per second: of the list in use, or another.", "cps", 8, 0},
			alone(query{"{{lane}} {{list}}", listRate("eventmeter_list_notifications_total", "", "lane, list")}),
		),
	)
	d.WithPanel(
		figure(
			shape{"Herd", "Fetches in the busiest tenth of a second over the mean, by cause.", "short", 8, 0},
			alone(query{"{{lane}} {{cause}}", `max by (lane, cause) (last_over_time(eventmeter_list_herd_ratio{LANES}[$__range] SHIFT))`}),
		),
	)
	d.WithPanel(logarithmic(lines(shape{"Fetching a page, p99", "", "s", 8, 0}, laidOver(
		query{
			"{{lane}}",
			`histogram_quantile(0.99, sum by (lane) (rate(eventmeter_list_fetch_seconds{LANES}[$__rate_interval] SHIFT)))`,
		},
	), paint...)))

	section(d, "Errors")
	d.WithPanel(
		lines(
			shape{
				"Errors so far",
				"Failed uses and fetches, stale pages used because no fresh page was available, failed cursors, and list versions that went back.",
				"short",
				24,
				0,
			},
			alone(
				query{"uses failed", `sum(eventmeter_list_uses_total{LANES,outcome="failed"} SHIFT)`},
				query{"fetches failed", `sum(eventmeter_list_fetches_failed_total{LANES} SHIFT)`},
				query{"served stale", `sum(eventmeter_list_served_stale_total{LANES} SHIFT)`},
				query{"cursors failed", `sum(eventmeter_list_cursor_failures_total{LANES} SHIFT)`},
				query{"went back", `sum(eventmeter_list_regressions_total{LANES} SHIFT)`},
				query{"uses missed", `sum(eventmeter_list_uses_missed_total{LANES} SHIFT)`}),
		),
	)
	return d
}

func listQuantile(metric, quantile string) string {
	return fmt.Sprintf(`histogram_quantile(%s, sum by (lane) (increase(%s{LANES}[$__range] SHIFT)))`, quantile, metric)
}
