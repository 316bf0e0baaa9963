package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// oneRun is the dashboard that follows a run in progress.
func oneRun() *dashboard.DashboardBuilder {
	d := board("eventmeter-run", "eventmeter: one run", "The phase of a run, what was published, and what each lane received.")
	runVariables(d, false)
	runAnnotations(d)
	add(d, runHead()...)
	section(d, "Events", runEvents()...)
	section(d, "Lanes", runLanes()...)
	section(d, "Conformance",
		lines(shape{"Broken rows", brokenRows, "short", 12}, []query{{"{{level}}", rowsByLevel}}, fixed(levels)...),
		rows(
			shape{"Which rows", "How often each broken row was broken so far.", "", 12},
			[]string{"level", "row"},
			[]column{{"broken", "locale", timesBroken}},
		).NoValue("none"),
	)
	section(d, "Overhead",
		stacked(lines(
			shape{"Requests by cause", "Per second, all selected lanes.", "reqps", 12},
			[]query{{"{{cause}}", rate("cause", "eventmeter_requests_total{LANES}")}},
		)),
		stacked(lines(
			shape{"Bytes by cause", "Per second, both directions.", "Bps", 12},
			[]query{{
				"{{cause}}",
				rate("cause", "eventmeter_sent_bytes_total{LANES}") + " + " + rate("cause", "eventmeter_received_bytes_total{LANES}"),
			}},
		)),
	)
	section(d, "Generator health",
		logarithmic(lines(shape{"Read delay, timers and pauses", "p99. Latencies below the read delay are noise.", "s", 8}, []query{
			{"read delay", quantileOf("0.99", "", "eventmeter_generator_read_delay_seconds{RUN}")},
			{"timers late", quantileOf("0.99", "", "eventmeter_generator_timer_lag_seconds{RUN}")},
		})),
		lines(cpusInUse, []query{{"{{process}}", cpuOfProcesses}}, fixed(processes)...),
		lines(memoryInUse, []query{{"{{process}}", memoryOfProcesses}}, fixed(processes)...),
	)
	return d
}

func runHead() []panel {
	phases := shaped(statetimeline.NewPanelBuilder(), shape{title: "Phases", about: "The current phase of the run.", width: 10}).
		Height(7).
		ShowValue(common.VisibilityModeNever).
		RowHeight(0.8).
		Tooltip(ofOne()).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdFixed).FixedColor("#6a4fc0")).
		Legend(legend(false)).
		WithTarget(target(0, query{"{{phase}}", `max by (phase) (eventmeter_phase{RUN} SHIFT) == 1`}).Range())
	count := func(metric string) string { return total("lane, mode", metric+"{LANES}") }
	return []panel{phases, rows(shape{"Lanes", "So far.", "", 14}, []string{"lane", "mode"}, []column{
		{"subscriptions", "locale", count("eventmeter_subscriptions")},
		{"expected", "locale", count("eventmeter_deliveries_expected_total")},
		{"delivered", "locale", count("eventmeter_deliveries_total")},
		{"lost", "locale", count("eventmeter_deliveries_lost_total")},
		{"unexpected", "locale", count("eventmeter_deliveries_unexpected_total")},
		{"p99", "s", wholeQuantile("0.99", "lane, mode", latency)},
	}).Height(7)}
}

func runEvents() []panel {
	return []panel{
		lines(shape{"Published", "Events published per second, measured and in the warm-up.", "cps", 8}, []query{
			{"measured", rate("", "eventmeter_events_published_total{RUN}")},
			{"warm-up", rate("", "eventmeter_events_warmup_published_total{RUN}")},
			{"dropped", rate("", "eventmeter_events_dropped_total{RUN}")},
		}),
		lines(
			shape{
				"Outcome of publishing",
				"Accepted events are owed to subscribers, refused ones are not; the outcome of uncertain ones is unknown.",
				"cps",
				8,
			},
			[]query{{"{{outcome}}", rate("outcome", "eventmeter_events_resolved_total{RUN}")}},
		),
		logarithmic(lines(
			shape{"Publishing delay", "p99 of the delay between schedule and publishing, and of the upstream's answer.", "s", 8},
			[]query{
				{"published after scheduled", quantileOf("0.99", "", "eventmeter_upstream_lag_seconds{RUN}")},
				{"upstream answered", quantileOf("0.99", "", "eventmeter_upstream_answer_seconds{RUN}")},
			},
		)),
	}
}

func runLanes() []panel {
	byLane := func(s shape, expr string) *timeseries.PanelBuilder {
		return lines(s, []query{{"{{lane}}", expr}}, fixed(modes, lanes)...)
	}
	return []panel{
		byLane(shape{"Open subscriptions", "", "short", 8}, now("lane", "eventmeter_subscriptions_open{LANES}")),
		byLane(shape{"Delivered", "Owed events received, per second.", "cps", 8}, rate("lane", "eventmeter_deliveries_total{LANES}")),
		logarithmic(byLane(shape{"Scheduled → received, p99", "", "s", 8}, quantileOf("0.99", "lane", latency))),
		byLane(lostOrMissing, now("lane", "eventmeter_deliveries_missing{LANES}")),
		lines(
			shape{
				"Duplicates, late, out of order",
				"Per second, of all selected lanes. Unexpected copies are of events to which the lane had no subscription.",
				"cps",
				8,
			},
			[]query{
				{"duplicates", rate("", "eventmeter_duplicates_total{LANES}")},
				{"late", rate("", "eventmeter_deliveries_late_total{LANES}")},
				{"out of order", rate("", "eventmeter_deliveries_out_of_order_total{LANES}")},
				{"other order than other streams", rate("", "eventmeter_order_conflicts_total{LANES}")},
				{"unexpected", rate("", "eventmeter_deliveries_unexpected_total{LANES}")},
			},
		),
		lines(
			shape{
				"Errors",
				"So far: broken and ended subscriptions, streams opened again, calls that failed, refused webhook " +
					"deliveries, messages that could not be read, and streams, answers and webhook bodies abandoned because of " +
					"their size.",
				"short",
				8,
			},
			[]query{
				{"broken", now("", "eventmeter_subscriptions_broken_total{LANES}")},
				{"ended by the target", now("", "eventmeter_subscriptions_terminated_total{LANES}")},
				{"reconnects", now("", "eventmeter_stream_reconnects_total{LANES}")},
				{"failed calls", now("", "eventmeter_call_failures_total{LANES}")},
				{"rejected webhooks", now("", "eventmeter_webhooks_rejected_total{LANES}")},
				{"malformed", now("", "eventmeter_messages_malformed_total{LANES}")},
				{"oversized", now("", "eventmeter_oversized_total{LANES}")},
			},
		),
	}
}
