package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
)

// oneRun is the dashboard that follows a run in progress.
func oneRun() *dashboard.DashboardBuilder {
	d := board("eventmeter-run", "eventmeter: one run", "The phase of a run, what was published, and what each lane received.")
	runVariables(d, false)
	runAnnotations(d)
	runHead(d)
	section(d, "Events")
	runEvents(d)
	section(d, "Lanes")
	runLanes(d)
	section(d, "Conformance")
	runConformance(d)
	section(d, "Overhead")
	runOverhead(d)
	section(d, "Generator health")
	runGenerator(d)
	return d
}

func runHead(d *dashboard.DashboardBuilder) {
	phases := statetimeline.NewPanelBuilder().
		Title("Phases").
		Description("The current phase of the run.").
		Datasource(source()).
		Span(10).
		Height(7).
		ShowValue(common.VisibilityModeNever).
		RowHeight(0.8).
		Tooltip(ofOne()).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdFixed).FixedColor("#6a4fc0")).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(false).
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom)).
		WithTarget(target(0, query{"{{phase}}", ofRun(`max by (phase) (eventmeter_phase{RUN} SHIFT) == 1`)}).Range())
	d.WithPanel(phases)
	d.WithPanel(rows(shape{"Lanes", "So far.", "", 14, 7}, []string{"lane", "mode"}, []column{
		{"subscriptions", "locale", ofRun(`sum by (lane, mode) (last_over_time(eventmeter_subscriptions{LANES}[$__range] SHIFT))`)},
		{"expected", "locale", ofRun(`sum by (lane, mode) (last_over_time(eventmeter_deliveries_expected_total{LANES}[$__range] SHIFT))`)},
		{"delivered", "locale", ofRun(`sum by (lane, mode) (last_over_time(eventmeter_deliveries_total{LANES}[$__range] SHIFT))`)},
		{"lost", "locale", ofRun(`sum by (lane, mode) (last_over_time(eventmeter_deliveries_lost_total{LANES}[$__range] SHIFT))`)},
		{
			"unexpected",
			"locale",
			ofRun(`sum by (lane, mode) (last_over_time(eventmeter_deliveries_unexpected_total{LANES}[$__range] SHIFT))`),
		},
		{"p99", "s", ofRun(wholeLatency("0.99", "lane, mode"))},
	}))
}

func runEvents(d *dashboard.DashboardBuilder) {
	d.WithPanel(lines(shape{"Published", "Events published per second, measured and in the warm-up.", "cps", 8, 0}, alone(
		query{"measured", `sum(rate(eventmeter_events_published_total{RUN}[$__rate_interval] SHIFT))`},
		query{"warm-up", `sum(rate(eventmeter_events_warmup_published_total{RUN}[$__rate_interval] SHIFT))`},
		query{"dropped", `sum(rate(eventmeter_events_dropped_total{RUN}[$__rate_interval] SHIFT))`})))
	d.WithPanel(
		lines(
			shape{
				"Outcome of publishing",
				"Accepted events are owed to subscribers, refused ones are not; the outcome of uncertain ones is unknown.",
				"cps",
				8,
				0,
			},
			alone(query{"{{outcome}}", `sum by (outcome) (rate(eventmeter_events_resolved_total{RUN}[$__rate_interval] SHIFT))`}),
		),
	)
	d.WithPanel(
		logarithmic(
			lines(
				shape{"Publishing delay", "p99 of the delay between schedule and publishing, and of the upstream's answer.", "s", 8, 0},
				alone(
					query{
						"published after scheduled",
						`histogram_quantile(0.99, sum(rate(eventmeter_upstream_lag_seconds{RUN}[$__rate_interval] SHIFT)))`,
					},
					query{
						"upstream answered",
						`histogram_quantile(0.99, sum(rate(eventmeter_upstream_answer_seconds{RUN}[$__rate_interval] SHIFT)))`,
					},
				),
			),
		),
	)
}

func runLanes(d *dashboard.DashboardBuilder) {
	paint := fixed(modes, lanes)
	d.WithPanel(
		lines(
			shape{"Open subscriptions", "", "short", 8, 0},
			alone(query{"{{lane}}", `sum by (lane) (eventmeter_subscriptions_open{LANES} SHIFT)`}),
			paint...),
	)
	d.WithPanel(
		lines(
			shape{"Delivered", "Owed events received, per second.", "cps", 8, 0},
			alone(query{"{{lane}}", `sum by (lane) (rate(eventmeter_deliveries_total{LANES}[$__rate_interval] SHIFT))`}),
			paint...),
	)
	d.WithPanel(
		logarithmic(lines(shape{"Scheduled → received, p99", "", "s", 8, 0}, alone(query{"{{lane}}", latency("0.99", "lane")}), paint...)),
	)
	d.WithPanel(
		lines(
			shape{
				"Lost or missing",
				"So far: all lost events, and owed ones that were not received although a newer event of their source was.",
				"short",
				8,
				0,
			},
			alone(query{"{{lane}}", `sum by (lane) (eventmeter_deliveries_missing{LANES} SHIFT)`}),
			paint...),
	)
	d.WithPanel(
		lines(
			shape{
				"Duplicates, late, out of order",
				"Per second, of all selected lanes. Unexpected copies are of events to which the lane had no subscription.",
				"cps",
				8,
				0,
			},
			alone(
				query{"duplicates", `sum(rate(eventmeter_duplicates_total{LANES}[$__rate_interval] SHIFT))`},
				query{"late", `sum(rate(eventmeter_deliveries_late_total{LANES}[$__rate_interval] SHIFT))`},
				query{"out of order", `sum(rate(eventmeter_deliveries_out_of_order_total{LANES}[$__rate_interval] SHIFT))`},
				query{"other order than other streams", `sum(rate(eventmeter_order_conflicts_total{LANES}[$__rate_interval] SHIFT))`},
				query{"unexpected", `sum(rate(eventmeter_deliveries_unexpected_total{LANES}[$__rate_interval] SHIFT))`}),
		),
	)
	d.WithPanel(
		lines(
			shape{
				"Errors",
				"So far: broken and ended subscriptions, streams opened again, calls that failed, refused webhook " +
					"deliveries, messages that could not be read, and streams, answers and webhook bodies abandoned because of " +
					"their size.",
				"short",
				8,
				0,
			},
			alone(
				query{"broken", `sum(eventmeter_subscriptions_broken_total{LANES} SHIFT)`},
				query{"ended by the target", `sum(eventmeter_subscriptions_terminated_total{LANES} SHIFT)`},
				query{"reconnects", `sum(eventmeter_stream_reconnects_total{LANES} SHIFT)`},
				query{"failed calls", `sum(eventmeter_call_failures_total{LANES} SHIFT)`},
				query{"rejected webhooks", `sum(eventmeter_webhooks_rejected_total{LANES} SHIFT)`},
				query{"malformed", `sum(eventmeter_messages_malformed_total{LANES} SHIFT)`},
				query{"oversized", `sum(eventmeter_oversized_total{LANES} SHIFT)`}),
		),
	)
}

func runConformance(d *dashboard.DashboardBuilder) {
	d.WithPanel(lines(shape{"Broken rows", brokenRows, "short", 12, 0}, alone(query{"{{level}}", rowsByLevel}), fixed(levels)...))
	d.WithPanel(rows(shape{"Which rows", "How often each broken row was broken so far.", "", 12, 8}, []string{"level", "row"}, []column{
		{"broken", "locale", ofRun(timesBroken)},
	}).NoValue("none"))
}

func runOverhead(d *dashboard.DashboardBuilder) {
	d.WithPanel(stacked(lines(shape{"Requests by cause", "Per second, all selected lanes.", "reqps", 12, 0},
		alone(query{"{{cause}}", `sum by (cause) (rate(eventmeter_requests_total{LANES}[$__rate_interval] SHIFT))`}))))
	d.WithPanel(stacked(lines(
		shape{"Bytes by cause", "Per second, both directions.", "Bps", 12, 0},
		alone(
			query{
				"{{cause}}",
				`sum by (cause) (rate(eventmeter_sent_bytes_total{LANES}[$__rate_interval] SHIFT)) ` +
					`+ sum by (cause) (rate(eventmeter_received_bytes_total{LANES}[$__rate_interval] SHIFT))`,
			},
		),
	)))
}

func runGenerator(d *dashboard.DashboardBuilder) {
	d.WithPanel(
		logarithmic(lines(shape{"Read delay, timers and pauses", "p99. Latencies below the read delay are noise.", "s", 8, 0}, alone(
			query{
				"read delay",
				`histogram_quantile(0.99, sum(rate(eventmeter_generator_read_delay_seconds{RUN}[$__rate_interval] SHIFT)))`,
			},
			query{
				"timers late",
				`histogram_quantile(0.99, sum(rate(eventmeter_generator_timer_lag_seconds{RUN}[$__rate_interval] SHIFT)))`,
			},
		))),
	)
	d.WithPanel(lines(
		shape{"CPUs in use", "CPU time per second, of each process.", "short", 8, 0},
		alone(
			query{"{{process}}", `sum by (process) (rate(eventmeter_process_cpu_seconds_total{RUN}[$__rate_interval] SHIFT))`},
		),
		fixed(processes)...))
	d.WithPanel(lines(shape{"Memory", "Resident memory of each process.", "bytes", 8, 0},
		alone(query{"{{process}}", `sum by (process) (eventmeter_process_resident_memory_bytes{RUN} SHIFT)`}), fixed(processes)...))
}
