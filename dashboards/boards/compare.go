package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Series and queries of several panels.
const (
	// latency is the histogram of scheduled → received.
	latency  = "eventmeter_latency_from_intended_seconds{LANES}"
	expected = "eventmeter_deliveries_expected_total{LANES}"
	// repeated are the copies that the sink did not ask for.
	repeated = `eventmeter_duplicates_total{LANES,kind!="requested"}`
	// received is the divisor of costs: the events of the measured window, like the traffic.
	received = "eventmeter_measured_events_received_total{LANES}"
)

// Panels that two dashboards have.
var (
	lostOrMissing = shape{
		"Lost or missing",
		"So far: all lost events, and owed ones that were not received although a newer event of their source was.",
		"short",
		8,
	}
	cpusInUse         = shape{"CPUs in use", "CPU time per second, of each process.", "short", 8}
	memoryInUse       = shape{"Memory", "Resident memory of each process.", "bytes", 8}
	cpuOfProcesses    = rate("process", "eventmeter_process_cpu_seconds_total{RUN}")
	memoryOfProcesses = now("process", "eventmeter_process_resident_memory_bytes{RUN}")
)

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
	add(d, sideBySide())
	section(d, "Latency", compareLatency()...)
	section(d, "Loss", compareLoss()...)
	section(d, "Duplicates", compareDuplicates()...)
	section(d, "Gaps", compareGaps()...)
	section(d, "Conformance", compareConformance()...)
	section(d, "Protocol overhead", compareOverhead()...)
	section(d, "Cost per delivered event", compareCost()...)
	section(d, "CPU and memory of the target", compareCPU()...)
	return d
}

// both returns the rows of both runs in one column of a table.
func both(expr string) string {
	return fmt.Sprintf(`label_replace(%s, "run", "$run", "", "") or label_replace(%s, "run", "$other", "", "")`, ofRun(expr), ofOther(expr))
}

// byMode is total by mode.
func byMode(series string) string { return total("mode", series) }

// modesOverTime is a chart of both runs with a line for each mode.
func modesOverTime(s shape, expr string) *timeseries.PanelBuilder {
	return lines(s, laidOver("{{mode}}", expr), overlaid(modes)...)
}

// modesNow is a panel of both runs with the newest value of each mode.
func modesNow(s shape, expr string) *stat.PanelBuilder {
	return figure(s, laidOver("{{mode}}", expr), overlaid(modes)...)
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
		},
		[]string{"run", "mode"},
		[]column{
			{"expected", "locale", both(byMode(expected))},
			{"delivered", "locale", both(byMode("eventmeter_deliveries_total{LANES}"))},
			{"silent loss", "locale", both(byMode(`eventmeter_deliveries_lost_total{LANES,kind="silent"}`))},
			{"announced", "locale", both(byMode(`eventmeter_deliveries_lost_total{LANES,kind="announced"}`))},
			{"order unknown", "locale", both(byMode(`eventmeter_deliveries_lost_total{LANES,kind="order_unknown"}`))},
			{"gaps", "locale", both(byMode("eventmeter_gaps_total{LANES}"))},
			{"duplicates", "locale", both(byMode(repeated))},
			{"p50", "s", both(wholeQuantile("0.5", "mode", latency))},
			{"p90", "s", both(wholeQuantile("0.9", "mode", latency))},
			{"p99", "s", both(wholeQuantile("0.99", "mode", latency))},
			{"overhead", "short", both(running("eventmeter_measured_requests_total") + " / " + byMode(received))},
		},
	).Height(9)
}

func compareLatency() (panels []panel) {
	for _, q := range [][2]string{{"p50", "0.5"}, {"p90", "0.9"}, {"p99", "0.99"}} {
		panels = append(panels, logarithmic(modesOverTime(
			shape{"Scheduled → received, " + q[0], "From the scheduled instant of the event until it was received.", "s", 8},
			quantileOf(q[1], "mode", latency),
		)))
	}
	return append(panels, heat(
		shape{"Distribution, $mode", "All latencies scheduled → received of one mode over time, by bucket.", "s", 8},
		latency,
	).Repeat("mode").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(3))
}

func compareLoss() []panel {
	return []panel{
		modesOverTime(lostOrMissing, now("mode", "eventmeter_deliveries_missing{LANES}")),
		modesOverTime(
			shape{"In flight", "Owed events not yet received that may still arrive.", "short", 8},
			now("mode", "eventmeter_deliveries_outstanding{LANES}"),
		),
		modesNow(
			shape{"Share lost", "Share of expected deliveries that were lost, announced or not.", "percentunit", 8},
			byMode("eventmeter_deliveries_lost_total{LANES}")+" / "+byMode(expected),
		),
	}
}

func compareDuplicates() []panel {
	return []panel{
		modesOverTime(
			shape{"Duplicates per second", "Second and later copies, except requested ones.", "cps", 12},
			rate("mode", repeated),
		),
		modesNow(
			shape{"Duplicates per delivered event", "duplicates.rate of the result.", "percentunit", 6},
			byMode(repeated)+" / "+byMode("eventmeter_deliveries_total{LANES}"),
		),
		rows(
			shape{
				"By kind",
				"same_event: the client can detect the copy. same_emission: it cannot. requested: the sink had answered 503.",
				"",
				6,
			},
			[]string{"mode", "kind"},
			[]column{{"copies", "short", total("mode, kind", "eventmeter_duplicates_total{LANES}")}},
		),
	}
}

func compareGaps() []panel {
	return []panel{
		modesOverTime(
			shape{"Gaps", "Series of consecutive lost events so far. Open subscriptions count when they end.", "short", 8},
			now("mode", "eventmeter_gaps_total{LANES}"),
		),
		modesOverTime(
			shape{"Out of order", "First deliveries received after a later event of the same source.", "short", 8},
			now("mode", "eventmeter_deliveries_out_of_order_total{LANES}"),
		),
		modesNow(
			shape{"Gaps per million expected", "", "short", 8},
			"1e6 * "+byMode("eventmeter_gaps_total{LANES}")+" / "+byMode(expected),
		),
	}
}

const brokenRows = "Rows of conformance that the target broke so far, by level. Rows that quote a MUST or a SHOULD, " +
	"and rows about the form of a message."

// Rows of conformance belong to a run, not to a mode.
var (
	rowsByLevel = now("level", "eventmeter_conformance_broken_rows{RUN}")
	timesBroken = total("level, row", "eventmeter_conformance_broken_total{RUN}") + " > 0"
)

func compareConformance() []panel {
	return []panel{
		lines(shape{"Broken rows", brokenRows, "short", 12}, laidOver("{{level}}", rowsByLevel), overlaid(levels)...),
		rows(
			shape{"Which rows", "How often each broken row was broken so far, in both runs.", "", 12},
			[]string{"run", "level", "row"},
			[]column{{"broken", "locale", both(timesBroken)}},
		).NoValue("none"),
	}
}

func compareOverhead() []panel {
	return []panel{
		modesOverTime(
			shape{
				"Requests without an event",
				"Per second, in either direction: empty polls, refreshes, heartbeats, handshakes, retries.",
				"reqps",
				8,
			},
			rate("mode", `eventmeter_requests_total{LANES,cause!="events"}`),
		),
		modesOverTime(
			shape{"Bytes without an event", "Per second, in both directions.", "Bps", 8},
			rate("mode", `eventmeter_sent_bytes_total{LANES,cause!="events"}`)+" + "+
				rate("mode", `eventmeter_received_bytes_total{LANES,cause!="events"}`),
		),
		modesNow(
			shape{
				"Running requests per subscription-hour",
				"Except opening and ending subscriptions: overhead.perSubscriptionHour of the result.",
				"short",
				8,
			},
			running("eventmeter_measured_requests_total")+" / ("+
				byMode("eventmeter_measured_subscription_active_seconds_total{LANES}")+" / 3600)",
		),
	}
}

// once are the causes paid once per subscription.
const once = "subscribe|verification|unsubscribe|discovery"

// running is overhead without events and without the costs paid once.
func running(metric string) string { return byMode(metric + `{LANES,cause!~"events|` + once + `"}`) }

func compareCost() []panel {
	each := func(title, about, unit, cost string) panel {
		return modesNow(shape{title, about, unit, 8}, cost+" / "+byMode(received))
	}
	return []panel{
		each(
			"Running requests per delivered event",
			"overhead.perDelivered of the result.",
			"short",
			running("eventmeter_measured_requests_total"),
		),
		each(
			"Running bytes per delivered event",
			"Except the bytes of events: overhead.perDelivered of the result.",
			"bytes",
			"("+running("eventmeter_measured_sent_bytes_total")+" + "+running("eventmeter_measured_received_bytes_total")+")",
		),
		each(
			"All bytes per delivered event",
			"Everything that went over the wire in the measured window, in both directions, events included: "+
				"overhead.totalPerDelivered of the result.",
			"bytes",
			"("+byMode("eventmeter_measured_sent_bytes_total{LANES}")+" + "+
				byMode("eventmeter_measured_received_bytes_total{LANES}")+")",
		),
	}
}

func compareCPU() []panel {
	return []panel{
		lines(cpusInUse, laidOver("{{process}}", cpuOfProcesses), overlaid(processes)...),
		lines(memoryInUse, laidOver("{{process}}", memoryOfProcesses), overlaid(processes)...),
		figure(
			shape{
				"Target CPU per event received, all modes",
				"From the warm-up to the end of the drain. Modes that run at the same time share it.",
				"s",
				4,
			},
			laidOver("target", total("", `eventmeter_measured_cpu_seconds_total{RUN,process="target"}`)+" / "+
				total("", "eventmeter_events_received_total{RUN}")),
			overlaid(processes)...),
		modesNow(
			shape{
				"Target CPU per event received, by mode",
				"Only if lanes take turns (phases.order: turns); otherwise it cannot be attributed to a mode.",
				"s",
				4,
			},
			byMode("eventmeter_turn_cpu_seconds_total{LANES}")+" / "+byMode("eventmeter_events_received_total{LANES}"),
		).NoValue("lanes did not take turns"),
	}
}
