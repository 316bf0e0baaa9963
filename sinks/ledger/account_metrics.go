package ledger

import (
	"time"

	"github.com/eventmeter/eventmeter"
)

// LaneMetric is a metric of every lane. It shows one value, or several by a
// label.
type LaneMetric struct {
	Name, Help string
	// Gauge is a value that may fall; otherwise it is a counter.
	Gauge bool
	Label string
	Parts []LanePart
}

// LanePart is one value of a metric. Value is that of the label, "" without one.
type LanePart struct {
	Value string
	Of    func(*LiveLane) float64
}

// LaneMetrics are the metrics of every lane, in the order of docs/metrics.md.
var LaneMetrics = []LaneMetric{
	laneGauge(
		"eventmeter_subscriptions",
		"Subscriptions that the lane was declared with.",
		func(n *LiveLane) int64 { return int64(n.Subscriptions) },
	),
	laneGauge("eventmeter_subscriptions_open", "Subscriptions that are active now.", func(n *LiveLane) int64 { return n.Open }),
	laneGauge(
		"eventmeter_subscriptions_attaching",
		"Subscriptions that were requested and are not active yet.",
		func(n *LiveLane) int64 { return n.Attaching },
	),
	laneCounter("eventmeter_subscriptions_failed_total", "Attempts to subscribe that failed.", func(n *LiveLane) int64 { return n.Failed }),
	laneCounter(
		"eventmeter_subscriptions_broken_total",
		"Subscriptions that failed after they had been active.",
		func(n *LiveLane) int64 { return n.Broken },
	),
	laneCounter(
		"eventmeter_subscriptions_terminated_total",
		"Subscriptions that the target ended.",
		func(n *LiveLane) int64 { return n.Terminated },
	),
	laneSeconds(
		"eventmeter_subscription_active_seconds_total",
		"Time that subscriptions were active, added up.",
		func(n *LiveLane) time.Duration { return n.Active },
	),

	laneCounter(
		"eventmeter_deliveries_expected_total",
		"Owed pairs of an event and a subscription. During the run, a pair counts as soon as its event, or a newer event of "+
			"its source, was received. A pair that is still missing when its subscription ends may be excused at the end of the run.",
		func(n *LiveLane) int64 { return n.Expected },
	),
	laneCounter(
		"eventmeter_deliveries_total",
		"Owed pairs that were received at least once.",
		func(n *LiveLane) int64 { return n.Delivered },
	),
	laneGauge(
		"eventmeter_deliveries_outstanding",
		"Owed pairs that were not received yet, and still may be.",
		func(n *LiveLane) int64 { return n.Outstanding },
	),
	laneGauge(
		"eventmeter_deliveries_missing",
		"Owed pairs that were not received although a newer event of the source was, and all pairs that are lost for good.",
		func(n *LiveLane) int64 { return n.Holes },
	),
	{
		Name: "eventmeter_deliveries_lost_total",
		Help: "Owed pairs that were never received, by kind: silent, announced (the target said so), order_unknown (it may " +
			"have said so), undeliverable (its connections failed at this side's own listener), refused (by this side, every " +
			"copy) or suspended (the target reported that it did not deliver). " +
			"Those of subscriptions that are still open are counted when they end.",
		Label: "kind",
		Parts: []LanePart{
			{"silent", func(n *LiveLane) float64 { return float64(n.LostSilent) }},
			{"announced", func(n *LiveLane) float64 { return float64(n.LostAnnounced) }},
			{"order_unknown", func(n *LiveLane) float64 { return float64(n.LostOrderUnknown) }},
			{"undeliverable", func(n *LiveLane) float64 { return float64(n.LostUndeliverable) }},
			{"refused", func(n *LiveLane) float64 { return float64(n.LostRefused) }},
			{"suspended", func(n *LiveLane) float64 { return float64(n.LostSuspended) }},
		},
	},
	{
		Name:  "eventmeter_duplicates_total",
		Help:  "Second and later copies: same_event, same_emission (under another event id) or requested.",
		Label: "kind",
		Parts: []LanePart{
			{"same_event", func(n *LiveLane) float64 { return float64(n.Duplicates.SameEvent) }},
			// As in a result: a copy whose first id is forgotten is one that its
			// client cannot tell, either.
			{"same_emission", func(n *LiveLane) float64 { return float64(n.Duplicates.SameEmission + n.Duplicates.Forgotten) }},
			{"requested", func(n *LiveLane) float64 { return float64(n.Duplicates.Requested) }},
		},
	},
	laneCounter(
		"eventmeter_deliveries_out_of_order_total",
		"First deliveries that were received after a later event of the same source.",
		func(n *LiveLane) int64 { return n.OutOfOrder },
	),
	laneCounter(
		"eventmeter_order_conflicts_total",
		"First deliveries of measured events that were received after an event that other streams of the lane received later.",
		func(n *LiveLane) int64 { return n.OrderConflicts },
	),
	laneCounter(
		"eventmeter_deliveries_late_total",
		"First deliveries that were received more than phases.late after they were scheduled.",
		func(n *LiveLane) int64 { return n.Late },
	),
	{
		Name:  "eventmeter_deliveries_unexpected_total",
		Help:  "Copies that should not have been received: foreign_run, never_fired, not_subscribed, after_end or stale.",
		Label: "kind",
		Parts: []LanePart{
			{"foreign_run", func(n *LiveLane) float64 { return float64(n.Unexpected.ForeignRun) }},
			{"never_fired", func(n *LiveLane) float64 { return float64(n.Unexpected.NeverFired) }},
			{"not_subscribed", func(n *LiveLane) float64 { return float64(n.Unexpected.NotSubscribed) }},
			{"after_end", func(n *LiveLane) float64 { return float64(n.Unexpected.AfterEnd) }},
			{"stale", func(n *LiveLane) float64 { return float64(n.Unexpected.Stale) }},
		},
	},
	laneCounter(
		"eventmeter_deliveries_recovered_total",
		"Pairs that were received although publishing failed.",
		func(n *LiveLane) int64 { return n.Recovered },
	),
	laneCounter(
		"eventmeter_deliveries_in_flight_total",
		"Deliveries of events that were on their way while the subscription became active.",
		func(n *LiveLane) int64 { return n.InFlight },
	),
	laneCounter(
		"eventmeter_deliveries_excused_total",
		"Pairs that were on their way when the subscription was ended, and were not received any more.",
		func(n *LiveLane) int64 { return n.Excused },
	),
	laneCounter(
		"eventmeter_deliveries_unidentified_total",
		"Owed pairs that an update without a payload may have announced, so that they cannot be judged one by one. Known "+
			"when the subscription has ended.",
		func(n *LiveLane) int64 { return n.Unidentified },
	),
	laneCounter(
		"eventmeter_deliveries_replayed_total",
		"Deliveries older than the subscription, on a lane that requested them.",
		func(n *LiveLane) int64 { return n.Replayed },
	),
	laneCounter(
		"eventmeter_deliveries_foreign_total",
		"Copies of events that another shard published.",
		func(n *LiveLane) int64 { return n.Foreign },
	),
	laneCounter(
		"eventmeter_deliveries_unprobed_total",
		"Events without a probe id: other traffic of the same server.",
		func(n *LiveLane) int64 { return n.Unprobed },
	),

	laneCounter(
		"eventmeter_gaps_total",
		"Runs of lost events. Those of subscriptions that are still open are counted when they end.",
		func(n *LiveLane) int64 { return n.GapIncidents },
	),
	laneGauge(
		"eventmeter_gap_longest_events",
		"Events in the longest run of lost events counted so far.",
		func(n *LiveLane) int64 { return n.LongestGap },
	),
	laneCounter(
		"eventmeter_gap_announcements_total",
		"Announcements by the target that events are missing.",
		func(n *LiveLane) int64 { return n.Announcements },
	),
	laneCounter(
		"eventmeter_gap_false_alarms_total",
		"Announcements with nothing missing beside them.",
		func(n *LiveLane) int64 { return n.FalseAlarms },
	),
	laneCounter(
		"eventmeter_cursors_overclaimed_total",
		"Cursors of heartbeats, confirmations and empty polls that were the first to claim an event which was lost "+
			"silently. Those of subscriptions that are still open are counted when they end.",
		func(n *LiveLane) int64 { return n.Overclaimed },
	),
	laneCounter(
		"eventmeter_cursors_not_replayed_total",
		"Subscriptions that were opened again with a kept cursor and received none of the events published meanwhile. "+
			"Those that are still open are counted when they end.",
		func(n *LiveLane) int64 { return n.NotReplayed },
	),

	laneCounter(
		"eventmeter_event_messages_total",
		"Copies of events that were received, whatever became of them, warm-up included.",
		func(n *LiveLane) int64 { return n.EventMessages },
	),
	laneCounter(
		"eventmeter_event_message_bytes_total",
		"Bytes of the copies of events that were received.",
		func(n *LiveLane) int64 { return n.EventBytes },
	),
	laneCounter(
		"eventmeter_events_received_total",
		"Events that were received, once for each subscription, warm-up included.",
		func(n *LiveLane) int64 { return n.Received },
	),
	laneCounter(
		"eventmeter_measured_events_received_total",
		"Events that were received in the measured window, once for each subscription: the divisor of costs.",
		func(n *LiveLane) int64 { return n.Measured.Received },
	),
	laneSeconds(
		"eventmeter_measured_subscription_active_seconds_total",
		"Time within the measured window in which subscriptions were active, added up.",
		func(n *LiveLane) time.Duration { return n.Measured.Active },
	),
	measuredByCause(
		"eventmeter_measured_requests_total",
		"Requests in either direction.",
		nil,
		func(t *Traffic) int64 { return t.Requests },
	),
	measuredByCause("eventmeter_measured_sent_bytes_total", "Bytes sent by this side.", nil, func(t *Traffic) int64 { return t.Up }),
	measuredByCause(
		"eventmeter_measured_received_bytes_total",
		"Bytes received by this side.",
		func(n *LiveLane) int64 { return n.Measured.EventBytes },
		func(t *Traffic) int64 { return t.Down },
	),
	measuredByCause(
		"eventmeter_measured_connections_opened_total",
		"TCP connections opened.",
		nil,
		func(t *Traffic) int64 { return t.Connections },
	),
	byCause(
		"eventmeter_requests_total",
		"Requests in either direction. Events carry events; subscribe, verification, unsubscribe and discovery are paid "+
			"once per subscription; all other causes are running overhead.",
		nil,
		func(t *Traffic) int64 { return t.Requests },
	),
	byCause("eventmeter_sent_bytes_total", "Bytes sent by this side.", nil, func(t *Traffic) int64 { return t.Up }),
	byCause(
		"eventmeter_received_bytes_total",
		"Bytes received by this side.",
		func(n *LiveLane) int64 { return n.EventBytes },
		func(t *Traffic) int64 { return t.Down },
	),
	byCause("eventmeter_connections_opened_total", "TCP connections opened.", nil, func(t *Traffic) int64 { return t.Connections }),
	byCause("eventmeter_call_failures_total", "Calls that failed.", nil, func(t *Traffic) int64 { return t.Failures }),

	laneCounter("eventmeter_stream_reconnects_total", "Streams that were opened again.", func(n *LiveLane) int64 { return n.Reconnects }),
	laneCounter(
		"eventmeter_streams_dead_total",
		"Streams on which nothing was received for too long.",
		func(n *LiveLane) int64 { return n.DeadStreams },
	),
	laneCounter(
		"eventmeter_transient_errors_total",
		"Errors that the target reported as transient, and calls that were retried.",
		func(n *LiveLane) int64 { return n.TransientErrors },
	),
	laneCounter(
		"eventmeter_webhooks_rejected_total",
		"Webhook deliveries that were refused: unsigned, stale, or for no subscription.",
		func(n *LiveLane) int64 { return n.Rejected },
	),
	laneCounter(
		"eventmeter_webhook_connections_failed_total",
		"Connections of the target to the lane's own webhook listener that failed before they carried a request, mostly in the TLS handshake.",
		func(n *LiveLane) int64 { return n.Undeliverable },
	),
	laneCounter(
		"eventmeter_suspensions_total",
		"Times that the target said it had suspended delivery or lost a subscription.",
		func(n *LiveLane) int64 { return n.Suspended },
	),
	laneCounter("eventmeter_messages_malformed_total", "Messages that could not be read.", func(n *LiveLane) int64 { return n.Malformed }),
	laneCounter(
		"eventmeter_oversized_total",
		"Streams, answers and webhook bodies that were given up because they were too large or the memory budget had no room for them.",
		func(n *LiveLane) int64 { return n.Oversized },
	),
	laneCounter(
		"eventmeter_kernel_timestamps_total",
		"Copies of events whose time is the kernel's, of all in eventmeter_event_messages_total.",
		func(n *LiveLane) int64 { return n.Kernel },
	),
}

func laneCounter(name, help string, of func(n *LiveLane) int64) LaneMetric {
	return LaneMetric{Name: name, Help: help, Parts: []LanePart{{Of: func(n *LiveLane) float64 { return float64(of(n)) }}}}
}

func laneGauge(name, help string, of func(n *LiveLane) int64) LaneMetric {
	m := laneCounter(name, help, of)
	m.Gauge = true
	return m
}

func laneSeconds(name, help string, of func(n *LiveLane) time.Duration) LaneMetric {
	return LaneMetric{Name: name, Help: help, Parts: []LanePart{{Of: func(n *LiveLane) float64 { return of(n).Seconds() }}}}
}

// byCause returns a metric of the lane's calls. Events on streams are no calls, so
// their bytes come from events, if not nil.
func byCause(name, help string, events func(n *LiveLane) int64, of func(t *Traffic) int64) LaneMetric {
	return trafficByCause(name, help, func(n *LiveLane) *[eventmeter.Causes]Traffic { return &n.Traffic }, events, of)
}

// measuredByCause is [byCause] for the measured window.
func measuredByCause(name, help string, events func(n *LiveLane) int64, of func(t *Traffic) int64) LaneMetric {
	return trafficByCause(
		name,
		help+" Of the measured window.",
		func(n *LiveLane) *[eventmeter.Causes]Traffic { return &n.Measured.Traffic },
		events,
		of,
	)
}

func trafficByCause(
	name, help string,
	in func(n *LiveLane) *[eventmeter.Causes]Traffic,
	events func(n *LiveLane) int64,
	of func(t *Traffic) int64,
) LaneMetric {
	m := LaneMetric{Name: name, Help: help, Label: "cause"}
	for c := range eventmeter.Causes {
		m.Parts = append(m.Parts, LanePart{eventmeter.Cause(c).String(), func(n *LiveLane) float64 {
			v := of(&in(n)[c])
			if eventmeter.Cause(c) == eventmeter.Events && events != nil {
				v = max(v, events(n))
			}
			return float64(v)
		}})
	}
	return m
}
