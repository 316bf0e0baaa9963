package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

// delivered is the divisor of several panels. Totals come from the last scrape, even long after the
// run. Each run has a unique id, so its counters begin at zero.
const delivered = `sum by (mode) (last_over_time(eventmeter_deliveries_total{LANES}[$__range] SHIFT))`

// received is the divisor of costs: the events of the measured window, like the traffic.
const received = `sum by (mode) (last_over_time(eventmeter_measured_events_received_total{LANES}[$__range] SHIFT))`

// latency is a quantile of scheduled → received over time, by a label.
func latency(quantile, by string) string {
	return fmt.Sprintf(
		`histogram_quantile(%s, sum by (%s) (rate(eventmeter_latency_from_intended_seconds{LANES}[$__rate_interval] SHIFT)))`,
		quantile,
		by,
	)
}

// wholeLatency is a quantile over the whole run. The increase of a histogram over the shown time
// has its shape, whatever its scale.
func wholeLatency(quantile, by string) string {
	return fmt.Sprintf(
		`histogram_quantile(%s, sum by (%s) (increase(eventmeter_latency_from_intended_seconds{LANES}[$__range] SHIFT)))`,
		quantile,
		by,
	)
}

// compare is the dashboard that compares delivery modes.
func compare() *dashboard.DashboardBuilder {
	d := board(
		"eventmeter-compare",
		"eventmeter: compare delivery modes",
		"The same events, received by push, poll and webhook. A mode has one colour on all panels. Another run can be "+
			"overlaid, dashed and aligned at its start.",
	)
	runVariables(d, true)
	runAnnotations(d)
	d.WithPanel(sideBySide())
	section(d, "Latency")
	compareLatency(d)
	section(d, "Loss")
	compareLoss(d)
	section(d, "Duplicates")
	compareDuplicates(d)
	section(d, "Gaps")
	compareGaps(d)
	section(d, "Conformance")
	compareConformance(d)
	section(d, "Protocol overhead")
	compareOverhead(d)
	section(d, "Cost per delivered event")
	compareCost(d)
	section(d, "CPU and memory of the target")
	compareCPU(d)
	return d
}

// both returns the rows of both runs in one column of a table.
func both(expr string) string {
	return fmt.Sprintf(`label_replace(%s, "run", "$run", "", "") or label_replace(%s, "run", "$other", "", "")`, ofRun(expr), ofOther(expr))
}

func sum(metric, more string) string {
	return fmt.Sprintf(`sum by (mode) (last_over_time(%s{LANES%s}[$__range] SHIFT))`, metric, more)
}

func sideBySide() *table.PanelBuilder {
	return rows(
		shape{
			"Side by side",
			"Of the whole run so far. Overhead is overhead.perDelivered of the result: requests without an event, except " +
				"those that open and end a subscription, per received event in the measured window. Quantiles are exact to a " +
				"bucket of 4.4 %; result.json has exact values.",
			"",
			24,
			9,
		},
		[]string{"run", "mode"},
		[]column{
			{"expected", "locale", both(sum("eventmeter_deliveries_expected_total", ""))},
			{"delivered", "locale", both(delivered)},
			{"silent loss", "locale", both(sum("eventmeter_deliveries_lost_total", `,kind="silent"`))},
			{"announced", "locale", both(sum("eventmeter_deliveries_lost_total", `,kind="announced"`))},
			{"order unknown", "locale", both(sum("eventmeter_deliveries_lost_total", `,kind="order_unknown"`))},
			{"gaps", "locale", both(sum("eventmeter_gaps_total", ""))},
			{"duplicates", "locale", both(sum("eventmeter_duplicates_total", `,kind!="requested"`))},
			{"p50", "s", both(wholeLatency("0.5", "mode"))},
			{"p90", "s", both(wholeLatency("0.9", "mode"))},
			{"p99", "s", both(wholeLatency("0.99", "mode"))},
			{"overhead", "short", both(running("eventmeter_measured_requests_total") + " / " + received)},
		},
	)
}

func compareLatency(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	for _, q := range [][2]string{{"p50", "0.5"}, {"p90", "0.9"}, {"p99", "0.99"}} {
		d.WithPanel(
			logarithmic(
				lines(shape{"Scheduled → received, " + q[0], "From the scheduled instant of the event until it was received.", "s", 8, 0},
					laidOver(query{"{{mode}}", latency(q[1], "mode")}), paint...),
			),
		)
	}
	d.WithPanel(heat(shape{"Distribution, $mode", "All latencies scheduled → received of one mode over time, by bucket.", "s", 8, 0},
		ofRun(`sum(rate(eventmeter_latency_from_intended_seconds{LANES}[$__rate_interval] SHIFT))`)).
		Repeat("mode").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(3))
}

func compareLoss(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(
		lines(
			shape{
				"Lost or missing",
				"So far: all lost events, and owed ones that were not received although a newer event of their source was.",
				"short",
				8,
				0,
			},
			laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_missing{LANES} SHIFT)`}),
			paint...),
	)
	d.WithPanel(lines(shape{"In flight", "Owed events not yet received that may still arrive.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_outstanding{LANES} SHIFT)`}), paint...))
	d.WithPanel(figure(
		shape{"Share lost", "Share of expected deliveries that were lost, announced or not.", "percentunit", 8, 0},
		laidOver(
			query{"{{mode}}", sum("eventmeter_deliveries_lost_total", "") + ` / ` + sum("eventmeter_deliveries_expected_total", "")},
		),
		paint...))
}

func compareDuplicates(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(
		shape{"Duplicates per second", "Second and later copies, except requested ones.", "cps", 12, 0},
		laidOver(
			query{"{{mode}}", `sum by (mode) (rate(eventmeter_duplicates_total{LANES,kind!="requested"}[$__rate_interval] SHIFT))`},
		),
		paint...))
	d.WithPanel(figure(shape{"Duplicates per delivered event", "duplicates.rate of the result.", "percentunit", 6, 0},
		laidOver(query{"{{mode}}", sum("eventmeter_duplicates_total", `,kind!="requested"`) + " / " + delivered}), paint...))
	d.WithPanel(
		rows(
			shape{
				"By kind",
				"same_event: the client can detect the copy. same_emission: it cannot. requested: the sink had answered 503.",
				"",
				6,
				0,
			},
			[]string{
				"mode",
				"kind",
			},
			[]column{
				{"copies", "short", ofRun(`sum by (mode, kind) (last_over_time(eventmeter_duplicates_total{LANES}[$__range] SHIFT))`)},
			},
		),
	)
}

func compareGaps(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(shape{"Gaps", "Series of consecutive lost events so far. Open subscriptions count when they end.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_gaps_total{LANES} SHIFT)`}), paint...))
	d.WithPanel(lines(shape{"Out of order", "First deliveries received after a later event of the same source.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_out_of_order_total{LANES} SHIFT)`}), paint...))
	d.WithPanel(figure(
		shape{"Gaps per million expected", "", "short", 8, 0},
		laidOver(
			query{"{{mode}}", "1e6 * " + sum("eventmeter_gaps_total", "") + ` / ` + sum("eventmeter_deliveries_expected_total", "")},
		),
		paint...))
}

// Rows of conformance belong to a run, not to a mode.
const (
	brokenRows = "Rows of conformance that the target broke so far, by level. Rows that quote a MUST or a SHOULD, " +
		"and rows about the form of a message."
	rowsByLevel = `sum by (level) (eventmeter_conformance_broken_rows{RUN} SHIFT)`
	timesBroken = `sum by (level, row) (last_over_time(eventmeter_conformance_broken_total{RUN}[$__range] SHIFT)) > 0`
)

func compareConformance(d *dashboard.DashboardBuilder) {
	d.WithPanel(
		lines(
			shape{"Broken rows", brokenRows, "short", 12, 0},
			laidOver(query{"{{level}}", rowsByLevel}),
			append(fixed(levels), dashed)...),
	)
	d.WithPanel(
		rows(
			shape{"Which rows", "How often each broken row was broken so far, in both runs.", "", 12, 8},
			[]string{"run", "level", "row"},
			[]column{
				{"broken", "locale", both(timesBroken)},
			},
		).NoValue("none"),
	)
}

func compareOverhead(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(
		lines(
			shape{
				"Requests without an event",
				"Per second, in either direction: empty polls, refreshes, heartbeats, handshakes, retries.",
				"reqps",
				8,
				0,
			},
			laidOver(
				query{"{{mode}}", `sum by (mode) (rate(eventmeter_requests_total{LANES,cause!="events"}[$__rate_interval] SHIFT))`},
			),
			paint...),
	)
	d.WithPanel(lines(
		shape{"Bytes without an event", "Per second, in both directions.", "Bps", 8, 0},
		laidOver(
			query{
				"{{mode}}",
				`sum by (mode) (rate(eventmeter_sent_bytes_total{LANES,cause!="events"}[$__rate_interval] SHIFT)) ` +
					`+ sum by (mode) (rate(eventmeter_received_bytes_total{LANES,cause!="events"}[$__rate_interval] SHIFT))`,
			},
		),
		paint...))
	d.WithPanel(
		figure(
			shape{
				"Running requests per subscription-hour",
				"Except opening and ending subscriptions: overhead.perSubscriptionHour of the result.",
				"short",
				8,
				0,
			},
			laidOver(
				query{
					"{{mode}}",
					running(
						"eventmeter_measured_requests_total",
					) + ` / (` + sum(
						"eventmeter_measured_subscription_active_seconds_total",
						"",
					) + ` / 3600)`,
				},
			),
			paint...),
	)
}

// once are the causes paid once per subscription.
const once = "subscribe|verification|unsubscribe|discovery"

// running is overhead without events and without the costs paid once.
func running(metric string) string { return sum(metric, `,cause!~"events|`+once+`"`) }

func compareCost(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(figure(shape{"Running requests per delivered event", "overhead.perDelivered of the result.", "short", 8, 0},
		laidOver(query{"{{mode}}", running("eventmeter_measured_requests_total") + " / " + received}), paint...))
	d.WithPanel(
		figure(
			shape{"Running bytes per delivered event", "Except the bytes of events: overhead.perDelivered of the result.", "bytes", 8, 0},
			laidOver(
				query{
					"{{mode}}",
					`(` + running(
						"eventmeter_measured_sent_bytes_total",
					) + ` + ` + running(
						"eventmeter_measured_received_bytes_total",
					) + `) / ` + received,
				},
			),
			paint...),
	)
	d.WithPanel(
		figure(
			shape{
				"All bytes per delivered event",
				"Everything that went over the wire in the measured window, in both directions, events included: " +
					"overhead.totalPerDelivered of the result.",
				"bytes",
				8,
				0,
			},
			laidOver(
				query{
					"{{mode}}",
					`(` + sum(
						"eventmeter_measured_sent_bytes_total",
						"",
					) + ` + ` + sum(
						"eventmeter_measured_received_bytes_total",
						"",
					) + `) / ` + received,
				},
			),
			paint...),
	)
}

func compareCPU(d *dashboard.DashboardBuilder) {
	d.WithPanel(lines(
		shape{"CPUs in use", "CPU time per second, of each process.", "short", 8, 0},
		laidOver(
			query{"{{process}}", `sum by (process) (rate(eventmeter_process_cpu_seconds_total{RUN}[$__rate_interval] SHIFT))`},
		),
		append(fixed(processes), dashed)...))
	d.WithPanel(lines(
		shape{"Memory", "Resident memory of each process.", "bytes", 8, 0},
		laidOver(
			query{"{{process}}", `sum by (process) (eventmeter_process_resident_memory_bytes{RUN} SHIFT)`},
		),
		append(fixed(processes), dashed)...))
	d.WithPanel(
		figure(
			shape{
				"Target CPU per event received, all modes",
				"From the warm-up to the end of the drain. Modes that run at the same time share it.",
				"s",
				4,
				0,
			},
			laidOver(
				query{
					"target",
					`sum(last_over_time(eventmeter_measured_cpu_seconds_total{RUN,process="target"}[$__range] SHIFT)) ` +
						`/ sum(last_over_time(eventmeter_events_received_total{RUN}[$__range] SHIFT))`,
				},
			),
			append(fixed(processes), dashed)...),
	)
	d.WithPanel(
		figure(
			shape{
				"Target CPU per event received, by mode",
				"Only if lanes take turns (phases.order: turns); otherwise it cannot be attributed to a mode.",
				"s",
				4,
				0,
			},
			laidOver(
				query{"{{mode}}", sum("eventmeter_turn_cpu_seconds_total", "") + " / " + sum("eventmeter_events_received_total", "")},
			),
			append(fixed(modes), dashed)...).
			NoValue("lanes did not take turns"),
	)
}
