package metrics

import (
	"slices"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks"

	"github.com/prometheus/client_golang/prometheus"
)

// single is a metric of a lane with no label of its own.
func single(kind prometheus.ValueType, name, help string, of func(x *oneLane) int64) family[oneLane] {
	return newFamily(LaneLabels, kind, name, help, nil, func(x *oneLane, emit emitter) { emit(float64(of(x))) })
}

// several is a counter of a lane with one label of its own.
func several(name, help, label string, of func(x *oneLane, emit emitter)) family[oneLane] {
	return newFamily(LaneLabels, counter, name, help, []string{label}, of)
}

// byCause is a metric of the lane's calls. Events on streams are no calls, so
// that their bytes stand in where asked for.
func byCause(name, help string, events func(x *oneLane) int64, of func(t *sinks.Traffic) int64) family[oneLane] {
	return trafficByCause(name, help, func(x *oneLane) *[eventmeter.Causes]sinks.Traffic { return &x.Traffic }, events, of)
}

// measuredByCause is the same of the measured window.
func measuredByCause(name, help string, events func(x *oneLane) int64, of func(t *sinks.Traffic) int64) family[oneLane] {
	return trafficByCause(name, help+" Of the measured window.", func(x *oneLane) *[eventmeter.Causes]sinks.Traffic { return &x.Measured.Traffic }, events, of)
}

func trafficByCause(name, help string, in func(x *oneLane) *[eventmeter.Causes]sinks.Traffic, events func(x *oneLane) int64, of func(t *sinks.Traffic) int64) family[oneLane] {
	return several(name, help, "cause", func(x *oneLane, emit emitter) {
		for c := range eventmeter.Causes {
			v := of(&in(x)[c])
			if eventmeter.Cause(c) == eventmeter.Events && events != nil {
				v = max(v, events(x))
			}
			emit(float64(v), eventmeter.Cause(c).String())
		}
	})
}

// laneFamilies are the metrics of each lane.
var laneFamilies = slices.Concat(subscriptionFamilies, deliveryFamilies, gapFamilies, overheadFamilies, troubleFamilies, figureFamilies)

var subscriptionFamilies = []family[oneLane]{
	single(gauge, "eventmeter_subscriptions", "Subscriptions that the lane was declared with.", func(x *oneLane) int64 { return int64(x.Subscriptions) }),
	single(gauge, "eventmeter_subscriptions_open", "Subscriptions that are active now.", func(x *oneLane) int64 { return x.Open }),
	single(gauge, "eventmeter_subscriptions_attaching", "Subscriptions that are asked for and not active yet.", func(x *oneLane) int64 { return x.Attaching }),
	single(counter, "eventmeter_subscriptions_failed_total", "Attempts to subscribe that failed.", func(x *oneLane) int64 { return x.Failed }),
	single(counter, "eventmeter_subscriptions_broken_total", "Subscriptions that failed after they had been active.", func(x *oneLane) int64 { return x.Broken }),
	single(counter, "eventmeter_subscriptions_terminated_total", "Subscriptions that the target ended.", func(x *oneLane) int64 { return x.Terminated }),
	newFamily(LaneLabels, counter, "eventmeter_subscription_active_seconds_total", "Time that subscriptions were active, added up.", nil,
		func(x *oneLane, emit emitter) { emit(x.Active.Seconds()) }),
}

var deliveryFamilies = []family[oneLane]{
	single(counter, "eventmeter_deliveries_expected_total", "Owed pairs of an event and a subscription. While the run is on its way, a pair counts as soon as it, or a newer one of its source, has come; one that was then still missing when its subscription ended may be excused at the end of the run.", func(x *oneLane) int64 { return x.Expected }),
	single(counter, "eventmeter_deliveries_total", "Owed pairs that came at least once.", func(x *oneLane) int64 { return x.Delivered }),
	single(gauge, "eventmeter_deliveries_outstanding", "Owed pairs that have not come, and may still.", func(x *oneLane) int64 { return x.Outstanding }),
	single(gauge, "eventmeter_deliveries_missing", "Owed pairs that have not come although a newer event of the source has, and all that is lost for good.", func(x *oneLane) int64 { return x.Holes }),
	several("eventmeter_deliveries_lost_total", "Owed pairs that never came, by what is known of it: silent, announced (the target said so), order_unknown (it may have said so), undeliverable (its connections failed at this side's own listener), refused (by this side, every copy) or suspended (the target did not deliver, by its own word). Those of subscriptions that are still open are counted when they end.", "kind",
		func(x *oneLane, emit emitter) {
			emit(float64(x.LostSilent), "silent")
			emit(float64(x.LostAnnounced), "announced")
			emit(float64(x.LostOrderUnknown), "order_unknown")
			emit(float64(x.LostUndeliverable), "undeliverable")
			emit(float64(x.LostRefused), "refused")
			emit(float64(x.LostSuspended), "suspended")
		}),
	several("eventmeter_duplicates_total", "Second and later copies: same_event, same_emission (under another event id) or requested.", "kind", func(x *oneLane, emit emitter) {
		emit(float64(x.Duplicates.SameEvent), "same_event")
		// As in a result: a copy whose first id is forgotten is one that its
		// client cannot tell, either.
		emit(float64(x.Duplicates.SameEmission+x.Duplicates.Forgotten), "same_emission")
		emit(float64(x.Duplicates.Requested), "requested")
	}),
	single(counter, "eventmeter_deliveries_out_of_order_total", "First deliveries that came after one of the same source that happened later.", func(x *oneLane) int64 { return x.OutOfOrder }),
	single(counter, "eventmeter_deliveries_late_total", "First deliveries later than phases.late after intended.", func(x *oneLane) int64 { return x.Late }),
	several("eventmeter_deliveries_unexpected_total", "Copies that should not have come: foreign_run, never_fired, not_subscribed or stale.", "kind", func(x *oneLane, emit emitter) {
		emit(float64(x.Unexpected.ForeignRun), "foreign_run")
		emit(float64(x.Unexpected.NeverFired), "never_fired")
		emit(float64(x.Unexpected.NotSubscribed), "not_subscribed")
		emit(float64(x.Unexpected.Stale), "stale")
	}),
	single(counter, "eventmeter_deliveries_recovered_total", "Pairs that came although publishing failed.", func(x *oneLane) int64 { return x.Recovered }),
	single(counter, "eventmeter_deliveries_in_flight_total", "Deliveries of events that were on their way while the subscription became active.", func(x *oneLane) int64 { return x.InFlight }),
	single(counter, "eventmeter_deliveries_excused_total", "Pairs that were on their way when the subscription was ended, and did not come any more.", func(x *oneLane) int64 { return x.Excused }),
	single(counter, "eventmeter_deliveries_unidentified_total", "Owed pairs that an update without a payload may have announced, so that nothing can be said of them one by one. Known when the subscription has ended.", func(x *oneLane) int64 { return x.Unidentified }),
	single(counter, "eventmeter_deliveries_replayed_total", "Deliveries older than the subscription, on a lane that asked for them.", func(x *oneLane) int64 { return x.Replayed }),
	single(counter, "eventmeter_deliveries_foreign_total", "Copies of events that another shard published.", func(x *oneLane) int64 { return x.Foreign }),
	single(counter, "eventmeter_deliveries_unprobed_total", "Events without a probe id: other traffic of the same server.", func(x *oneLane) int64 { return x.Unprobed }),
}

var gapFamilies = []family[oneLane]{
	single(counter, "eventmeter_gaps_total", "Runs of lost events. Those of subscriptions that are still open are counted when they end.", func(x *oneLane) int64 { return x.GapIncidents }),
	single(gauge, "eventmeter_gap_longest_events", "Events in the longest run of lost ones, as far as it is counted.", func(x *oneLane) int64 { return x.LongestGap }),
	single(counter, "eventmeter_gap_announcements_total", "Announcements by the target that events are missing.", func(x *oneLane) int64 { return x.Announcements }),
	single(counter, "eventmeter_gap_false_alarms_total", "Announcements with nothing missing beside them.", func(x *oneLane) int64 { return x.FalseAlarms }),
	single(counter, "eventmeter_cursors_overclaimed_total", "Cursors of heartbeats, confirmations and empty polls that were the first to claim an event which was lost silently. Those of subscriptions that are still open are counted when they end.", func(x *oneLane) int64 { return x.Overclaimed }),
}

var overheadFamilies = []family[oneLane]{
	single(counter, "eventmeter_event_messages_total", "Copies of events that came, whatever became of them, warm-up included.", func(x *oneLane) int64 { return x.EventMessages }),
	single(counter, "eventmeter_event_message_bytes_total", "Bytes of the copies of events that came.", func(x *oneLane) int64 { return x.EventBytes }),
	single(counter, "eventmeter_events_received_total", "Events that came, once for each subscription, warm-up included.", func(x *oneLane) int64 { return x.Received }),
	single(counter, "eventmeter_measured_events_received_total", "Events that came in the measured window, once for each subscription: what cost is divided by.", func(x *oneLane) int64 { return x.Measured.Received }),
	newFamily(LaneLabels, counter, "eventmeter_measured_subscription_active_seconds_total", "Time within the measured window in which subscriptions were active, added up.", nil,
		func(x *oneLane, emit emitter) { emit(x.Measured.Active.Seconds()) }),
	measuredByCause("eventmeter_measured_requests_total", "Requests in either direction.", nil, func(t *sinks.Traffic) int64 { return t.Requests }),
	measuredByCause("eventmeter_measured_sent_bytes_total", "Bytes sent by this side.", nil, func(t *sinks.Traffic) int64 { return t.Up }),
	measuredByCause("eventmeter_measured_received_bytes_total", "Bytes received by this side.", func(x *oneLane) int64 { return x.Measured.EventBytes }, func(t *sinks.Traffic) int64 { return t.Down }),
	measuredByCause("eventmeter_measured_connections_opened_total", "TCP connections opened.", nil, func(t *sinks.Traffic) int64 { return t.Connections }),
	byCause("eventmeter_requests_total", "Requests in either direction. Events carry events; subscribe, verification, unsubscribe and discovery are paid once per subscription; all other causes are running overhead.", nil, func(t *sinks.Traffic) int64 { return t.Requests }),
	byCause("eventmeter_sent_bytes_total", "Bytes sent by this side.", nil, func(t *sinks.Traffic) int64 { return t.Up }),
	byCause("eventmeter_received_bytes_total", "Bytes received by this side.", func(x *oneLane) int64 { return x.EventBytes }, func(t *sinks.Traffic) int64 { return t.Down }),
	byCause("eventmeter_connections_opened_total", "TCP connections opened.", nil, func(t *sinks.Traffic) int64 { return t.Connections }),
	byCause("eventmeter_call_failures_total", "Calls that failed.", nil, func(t *sinks.Traffic) int64 { return t.Failures }),
	newFamily(LaneLabels, counter, "eventmeter_turn_cpu_seconds_total", "CPU time of the target while the run published and drained in this lane's turn. Only where lanes take turns: otherwise nobody can tell whose it is.", nil,
		func(x *oneLane, emit emitter) {
			if v, ok := x.health.Used[Target]; ok && x.alone {
				emit(v)
			}
		}),
}

var troubleFamilies = []family[oneLane]{
	single(counter, "eventmeter_stream_reconnects_total", "Streams that were opened again.", func(x *oneLane) int64 { return x.Reconnects }),
	single(counter, "eventmeter_streams_dead_total", "Streams on which nothing came for too long.", func(x *oneLane) int64 { return x.DeadStreams }),
	single(counter, "eventmeter_transient_errors_total", "Errors that the target said will pass, and calls that were tried again.", func(x *oneLane) int64 { return x.TransientErrors }),
	single(counter, "eventmeter_webhooks_rejected_total", "Webhook deliveries that were refused: unsigned, stale, or for nobody.", func(x *oneLane) int64 { return x.Rejected }),
	single(counter, "eventmeter_webhook_connections_failed_total", "Connections of the target to the lane's own webhook listener that failed before they carried a request, in the TLS handshake mostly.", func(x *oneLane) int64 { return x.Undeliverable }),
	single(counter, "eventmeter_suspensions_total", "Times that the target said it had suspended delivery or lost a subscription.", func(x *oneLane) int64 { return x.Suspended }),
	single(counter, "eventmeter_messages_malformed_total", "Messages that could not be read.", func(x *oneLane) int64 { return x.Malformed }),
	single(counter, "eventmeter_oversized_total", "Streams, answers and webhook bodies that were given up because they were too large or the memory budget had no room for them.", func(x *oneLane) int64 { return x.Oversized }),
	single(counter, "eventmeter_kernel_timestamps_total", "Copies of events whose time is the kernel's, of all in eventmeter_event_messages_total.", func(x *oneLane) int64 { return x.Kernel }),
}

var figureFamilies = []family[oneLane]{
	newFamily(LaneLabels, gauge, "eventmeter_figure", "What only one system has, by its name and in its unit in result.json (lanes[].figures).", []string{"figure"},
		func(x *oneLane, emit emitter) {
			for name, v := range x.own.Values {
				emit(v, name)
			}
		}),
}

var laneHistograms = []histogramFamily[oneLane]{
	laneHistogram("eventmeter_latency_from_intended_seconds", "From the instant at which the schedule wanted the event until it was received, of first deliveries.",
		func(x *oneLane) sinks.Distribution { return x.FromIntended }),
	laneHistogram("eventmeter_latency_from_sent_seconds", "From sending the event until it was received, of first deliveries.",
		func(x *oneLane) sinks.Distribution { return x.FromSent }),
	laneHistogram("eventmeter_subscription_ready_seconds", "From asking for a subscription until it was confirmed active.",
		func(x *oneLane) sinks.Distribution { return x.Ready }),
	newHistogram(LaneLabels, "eventmeter_figure_seconds", "Times that only one system has, by their name in result.json (lanes[].timings).", []string{"figure"},
		func(x *oneLane, emit func([]sinks.Distribution, ...string)) {
			for name, d := range x.own.Timings {
				emit([]sinks.Distribution{d}, name)
			}
		}),
}

func laneHistogram(name, help string, of func(x *oneLane) sinks.Distribution) histogramFamily[oneLane] {
	return newHistogram(LaneLabels, name, help, nil, func(x *oneLane, emit func([]sinks.Distribution, ...string)) {
		emit([]sinks.Distribution{of(x)})
	})
}
