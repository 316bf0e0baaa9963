package mcpevents

import "go.k6.io/k6/v2/metrics"

// metricSet are the module's metrics; all VUs get the same ones.
type metricSet struct {
	latency, ready, list                     *metrics.Metric // trends of time
	delivered, expected, lost, lostAnnounced *metrics.Metric
	lostOrderUnknown                         *metrics.Metric
	undeliverable, refused, suspended        *metrics.Metric
	copies, outOfOrder, unexpected           *metrics.Metric
	refreshRequests, refreshBytes            *metrics.Metric
	failed                                   *metrics.Metric
	messagesExpected, messagesDelivered      *metrics.Metric
	messagesLost, messagesRepeated           *metrics.Metric
	duplicates                               *metrics.Metric // rate
	open                                     *metrics.Metric // gauge
}

// registerMetrics registers the metrics, or finds those that are registered.
func registerMetrics(r *metrics.Registry) (*metricSet, error) {
	m := &metricSet{}
	for _, d := range []struct {
		to   **metrics.Metric
		name string
		kind metrics.MetricType
		unit metrics.ValueType
	}{
		{&m.latency, "mcp_event_latency", metrics.Trend, metrics.Time},
		{&m.ready, "mcp_time_to_ready", metrics.Trend, metrics.Time},
		{&m.delivered, "mcp_events_delivered", metrics.Counter, metrics.Default},
		{&m.expected, "mcp_events_expected", metrics.Counter, metrics.Default},
		{&m.lost, "mcp_events_lost", metrics.Counter, metrics.Default},
		{&m.lostAnnounced, "mcp_events_lost_announced", metrics.Counter, metrics.Default},
		{&m.lostOrderUnknown, "mcp_events_lost_order_unknown", metrics.Counter, metrics.Default},
		{&m.undeliverable, "mcp_events_lost_undeliverable", metrics.Counter, metrics.Default},
		{&m.refused, "mcp_events_lost_refused", metrics.Counter, metrics.Default},
		{&m.suspended, "mcp_events_lost_suspended", metrics.Counter, metrics.Default},
		{&m.duplicates, "mcp_event_duplicates", metrics.Rate, metrics.Default},
		{&m.copies, "mcp_event_duplicate_copies", metrics.Counter, metrics.Default},
		{&m.outOfOrder, "mcp_events_out_of_order", metrics.Counter, metrics.Default},
		{&m.unexpected, "mcp_events_unexpected", metrics.Counter, metrics.Default},
		{&m.refreshRequests, "mcp_refresh_requests", metrics.Counter, metrics.Default},
		{&m.refreshBytes, "mcp_refresh_bytes", metrics.Counter, metrics.Data},
		{&m.failed, "mcp_subscriptions_failed", metrics.Counter, metrics.Default},
		{&m.list, "mcp_list_duration", metrics.Trend, metrics.Time},
		{&m.messagesExpected, "mcp_messages_expected", metrics.Counter, metrics.Default},
		{&m.messagesDelivered, "mcp_messages_delivered", metrics.Counter, metrics.Default},
		{&m.messagesLost, "mcp_messages_lost", metrics.Counter, metrics.Default},
		{&m.messagesRepeated, "mcp_messages_repeated", metrics.Counter, metrics.Default},
		{&m.open, "mcp_open_subscriptions", metrics.Gauge, metrics.Default},
	} {
		var err error
		if *d.to, err = r.NewMetric(d.name, d.kind, d.unit); err != nil {
			return nil, err
		}
	}
	return m, nil
}
