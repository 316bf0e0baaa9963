package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

// delivered is what several panels divide by. Totals are those of the last scrape,
// also when the run is long over: a run has a name of its own, so that its
// counters began at nothing.
const delivered = `sum by (mode) (last_over_time(eventmeter_deliveries_total{LANES}[$__range] SHIFT))`

// received is what cost is divided by: the events of the measured window, as the
// traffic is.
const received = `sum by (mode) (last_over_time(eventmeter_measured_events_received_total{LANES}[$__range] SHIFT))`

// latency is a quantile of the scheduled → received, over time, by a label.
func latency(quantile, by string) string {
	return fmt.Sprintf(`histogram_quantile(%s, sum by (%s) (rate(eventmeter_latency_from_intended_seconds{LANES}[$__rate_interval] SHIFT)))`, quantile, by)
}

// wholeLatency is the same of the run as a whole. The growth of a histogram
// over the time that is shown has its shape, whatever it is scaled by.
func wholeLatency(quantile, by string) string {
	return fmt.Sprintf(`histogram_quantile(%s, sum by (%s) (increase(eventmeter_latency_from_intended_seconds{LANES}[$__range] SHIFT)))`, quantile, by)
}

// compare is the board for one question: what differs between the ways in which
// clients hear of events?
func compare() *dashboard.DashboardBuilder {
	d := board("eventmeter-compare", "eventmeter: compare delivery modes", "The same events, heard by push, poll and webhook. One colour for a mode on all panels; another run is laid over it, dashed, as if both had begun at once.")
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
	section(d, "Refresh overhead")
	compareOverhead(d)
	section(d, "Cost per delivered event")
	compareCost(d)
	section(d, "CPU and memory of the target")
	compareCPU(d)
	return d
}

// both are the rows of the one run and of the other in one column of a table.
func both(expr string) string {
	return fmt.Sprintf(`label_replace(%s, "run", "$run", "", "") or label_replace(%s, "run", "$other", "", "")`, ofRun(expr), ofOther(expr))
}

func sum(metric, more string) string {
	return fmt.Sprintf(`sum by (mode) (last_over_time(%s{LANES%s}[$__range] SHIFT))`, metric, more)
}

func sideBySide() *table.PanelBuilder {
	return rows(shape{"Side by side", "Of the whole run, as far as it has come. Overhead is overhead.perDelivered of the result: requests without an event, and without those that open and end a subscription, per event received, in the measured window. Quantiles are within the 4.4 % of a bucket; result.json has them exactly.", "", 24, 9},
		[]string{"run", "mode"}, []column{
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
		})
}

func compareLatency(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	for _, q := range [][2]string{{"p50", "0.5"}, {"p90", "0.9"}, {"p99", "0.99"}} {
		d.WithPanel(logarithmic(lines(shape{"Scheduled → received, " + q[0], "From the instant at which the schedule wanted the event until it was received.", "s", 8, 0},
			laidOver(query{"{{mode}}", latency(q[1], "mode")}), paint...)))
	}
	d.WithPanel(heat(shape{"Distribution, $mode", "All latencies from intended of one mode: how many events of each moment fell into each bucket.", "s", 8, 0},
		ofRun(`sum(rate(eventmeter_latency_from_intended_seconds{LANES}[$__rate_interval] SHIFT))`)).
		Repeat("mode").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(3))
}

func compareLoss(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(shape{"Missing so far", "Owed events that have not come although a newer one of their source has, and all that is lost for good.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_missing{LANES} SHIFT)`}), paint...))
	d.WithPanel(lines(shape{"On the way", "Owed events that have not come, and may still.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_outstanding{LANES} SHIFT)`}), paint...))
	d.WithPanel(figure(shape{"Share lost", "Of all that was expected, whatever was announced.", "percentunit", 8, 0},
		laidOver(query{"{{mode}}", sum("eventmeter_deliveries_lost_total", "") + ` / ` + sum("eventmeter_deliveries_expected_total", "")}), paint...))
}

func compareDuplicates(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(shape{"Duplicates per second", "Second and later copies, without those that the sink asked for.", "cps", 12, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (rate(eventmeter_duplicates_total{LANES,kind!="requested"}[$__rate_interval] SHIFT))`}), paint...))
	d.WithPanel(figure(shape{"Duplicates per delivered event", "duplicates.rate of the result.", "percentunit", 6, 0},
		laidOver(query{"{{mode}}", sum("eventmeter_duplicates_total", `,kind!="requested"`) + " / " + delivered}), paint...))
	d.WithPanel(rows(shape{"By kind", "same_event: the client can tell. same_emission: it cannot. requested: the sink had answered 503.", "", 6, 0},
		[]string{"mode", "kind"}, []column{{"copies", "short", ofRun(`sum by (mode, kind) (last_over_time(eventmeter_duplicates_total{LANES}[$__range] SHIFT))`)}}))
}

func compareGaps(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(shape{"Gaps", "Runs of lost events so far. Those of open subscriptions count when they end.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_gaps_total{LANES} SHIFT)`}), paint...))
	d.WithPanel(lines(shape{"Out of order", "First deliveries that came after one of the same source that happened later.", "short", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (eventmeter_deliveries_out_of_order_total{LANES} SHIFT)`}), paint...))
	d.WithPanel(figure(shape{"Gaps per million expected", "", "short", 8, 0},
		laidOver(query{"{{mode}}", "1e6 * " + sum("eventmeter_gaps_total", "") + ` / ` + sum("eventmeter_deliveries_expected_total", "")}), paint...))
}

func compareOverhead(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(lines(shape{"Requests without an event", "Per second, in either direction: empty polls, refreshes, heartbeats, handshakes, retries.", "reqps", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (rate(eventmeter_requests_total{LANES,cause!="events"}[$__rate_interval] SHIFT))`}), paint...))
	d.WithPanel(lines(shape{"Bytes without an event", "Per second, in both directions.", "Bps", 8, 0},
		laidOver(query{"{{mode}}", `sum by (mode) (rate(eventmeter_sent_bytes_total{LANES,cause!="events"}[$__rate_interval] SHIFT)) + sum by (mode) (rate(eventmeter_received_bytes_total{LANES,cause!="events"}[$__rate_interval] SHIFT))`}), paint...))
	d.WithPanel(figure(shape{"Running requests per subscription-hour", "Without what opening and ending a subscription costs: overhead.perSubscriptionHour of the result.", "short", 8, 0},
		laidOver(query{"{{mode}}", running("eventmeter_measured_requests_total") + ` / (` + sum("eventmeter_measured_subscription_active_seconds_total", "") + ` / 3600)`}), paint...))
}

// once are the causes that a subscription costs once, however long it lasts.
const once = "subscribe|verification|unsubscribe|discovery"

// running is overhead without those, and without events.
func running(metric string) string { return sum(metric, `,cause!~"events|`+once+`"`) }

func compareCost(d *dashboard.DashboardBuilder) {
	paint := append(fixed(modes), dashed)
	d.WithPanel(figure(shape{"Running requests per delivered event", "overhead.perDelivered of the result.", "short", 8, 0},
		laidOver(query{"{{mode}}", running("eventmeter_measured_requests_total") + " / " + received}), paint...))
	d.WithPanel(figure(shape{"Running bytes per delivered event", "Without the events' own: overhead.perDelivered of the result.", "bytes", 8, 0},
		laidOver(query{"{{mode}}", `(` + running("eventmeter_measured_sent_bytes_total") + ` + ` + running("eventmeter_measured_received_bytes_total") + `) / ` + received}), paint...))
	d.WithPanel(figure(shape{"All bytes per delivered event", "Everything that went over the wire in the measured window, in both directions, events included: overhead.totalPerDelivered of the result.", "bytes", 8, 0},
		laidOver(query{"{{mode}}", `(` + sum("eventmeter_measured_sent_bytes_total", "") + ` + ` + sum("eventmeter_measured_received_bytes_total", "") + `) / ` + received}), paint...))
}

func compareCPU(d *dashboard.DashboardBuilder) {
	d.WithPanel(lines(shape{"CPUs in use", "CPU time per second, of each process.", "short", 8, 0},
		laidOver(query{"{{process}}", `sum by (process) (rate(eventmeter_process_cpu_seconds_total{RUN}[$__rate_interval] SHIFT))`}), append(fixed(processes), dashed)...))
	d.WithPanel(lines(shape{"Memory", "Resident memory of each process.", "bytes", 8, 0},
		laidOver(query{"{{process}}", `sum by (process) (eventmeter_process_resident_memory_bytes{RUN} SHIFT)`}), append(fixed(processes), dashed)...))
	d.WithPanel(figure(shape{"Target CPU per event received, all modes", "While the run published and drained, warm-up included. Modes that run side by side share it.", "s", 4, 0},
		laidOver(query{"target", `sum(last_over_time(eventmeter_measured_cpu_seconds_total{RUN,process="target"}[$__range] SHIFT)) / sum(last_over_time(eventmeter_events_received_total{RUN}[$__range] SHIFT))`}), append(fixed(processes), dashed)...))
	d.WithPanel(figure(shape{"Target CPU per event received, by mode", "Only where lanes take turns (phases.order: turns): otherwise nobody can tell whose it is.", "s", 4, 0},
		laidOver(query{"{{mode}}", sum("eventmeter_turn_cpu_seconds_total", "") + " / " + sum("eventmeter_events_received_total", "")}), append(fixed(modes), dashed)...).
		NoValue("lanes did not take turns"))
}
