package mcpevents

import "go.k6.io/k6/v2/metrics"

// counts are the counters of a group in k6, by the field of totals.
var counts = [...]struct {
	name string
	unit metrics.ValueType
	of   func(*totals) int64
	// atEnd is set for figures known only when the group has ended.
	atEnd bool
}{
	delivered: {"mcp_events_delivered", metrics.Default, func(t *totals) int64 { return t.Delivered }, false},
	copies:    {"mcp_event_duplicate_copies", metrics.Default, func(t *totals) int64 { return t.Duplicates.Total() }, false},
	{"mcp_events_out_of_order", metrics.Default, func(t *totals) int64 { return t.OutOfOrder }, false},
	{"mcp_events_unexpected", metrics.Default, func(t *totals) int64 { return t.Unexpected.Total() }, false},
	{"mcp_refresh_requests", metrics.Default, func(t *totals) int64 { return t.refreshRequests }, false},
	{"mcp_refresh_bytes", metrics.Data, func(t *totals) int64 { return t.refreshBytes }, false},
	{"mcp_subscriptions_failed", metrics.Default, func(t *totals) int64 { return t.failed }, false},
	{"mcp_events_expected", metrics.Default, func(t *totals) int64 { return t.Expected }, true},
	{"mcp_events_lost", metrics.Default, func(t *totals) int64 { return t.LostSilent }, true},
	{"mcp_events_lost_announced", metrics.Default, func(t *totals) int64 { return t.LostAnnounced }, true},
	{"mcp_events_lost_order_unknown", metrics.Default, func(t *totals) int64 { return t.LostOrderUnknown }, true},
	{"mcp_events_lost_undeliverable", metrics.Default, func(t *totals) int64 { return t.LostUndeliverable }, true},
	{"mcp_events_lost_refused", metrics.Default, func(t *totals) int64 { return t.LostRefused }, true},
	{"mcp_events_lost_suspended", metrics.Default, func(t *totals) int64 { return t.LostSuspended }, true},
}

// Rows of counts that make up the rate of duplicates.
const (
	delivered = 0
	copies    = 1
)

// metricSet are the module's metrics; all VUs get the same ones.
type metricSet struct {
	counts                              [len(counts)]*metrics.Metric
	latency, ready, list                *metrics.Metric // trends of time
	messagesExpected, messagesDelivered *metrics.Metric
	messagesLost, messagesRepeated      *metrics.Metric
	duplicates                          *metrics.Metric // rate
	rowsSeen, rowsBroken                *metrics.Metric // by level and row of conformance
	open                                *metrics.Metric // gauge
}

// registerMetrics registers the metrics, or finds those that are registered.
func registerMetrics(r *metrics.Registry) (*metricSet, error) {
	m := &metricSet{}
	var err error
	for i, c := range counts {
		if m.counts[i], err = r.NewMetric(c.name, metrics.Counter, c.unit); err != nil {
			return nil, err
		}
	}
	for _, d := range []struct {
		to   **metrics.Metric
		name string
		kind metrics.MetricType
		unit metrics.ValueType
	}{
		{&m.latency, "mcp_event_latency", metrics.Trend, metrics.Time},
		{&m.ready, "mcp_time_to_ready", metrics.Trend, metrics.Time},
		{&m.duplicates, "mcp_event_duplicates", metrics.Rate, metrics.Default},
		{&m.list, "mcp_list_duration", metrics.Trend, metrics.Time},
		{&m.messagesExpected, "mcp_messages_expected", metrics.Counter, metrics.Default},
		{&m.messagesDelivered, "mcp_messages_delivered", metrics.Counter, metrics.Default},
		{&m.messagesLost, "mcp_messages_lost", metrics.Counter, metrics.Default},
		{&m.messagesRepeated, "mcp_messages_repeated", metrics.Counter, metrics.Default},
		{&m.rowsSeen, "mcp_events_conformance_seen", metrics.Counter, metrics.Default},
		{&m.rowsBroken, "mcp_events_conformance_broken", metrics.Counter, metrics.Default},
		{&m.open, "mcp_open_subscriptions", metrics.Gauge, metrics.Default},
	} {
		if *d.to, err = r.NewMetric(d.name, d.kind, d.unit); err != nil {
			return nil, err
		}
	}
	return m, nil
}
