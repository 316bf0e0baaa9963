package mcpevents

import (
	"time"

	"go.k6.io/k6/v2/metrics"
)

// metricSet are the module's metrics; all VUs get the same ones.
type metricSet struct {
	latency, ready                           *metrics.Metric // trends of time
	delivered, expected, lost, lostAnnounced *metrics.Metric
	copies, outOfOrder, unexpected           *metrics.Metric
	refreshRequests, refreshBytes            *metrics.Metric
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
		{&m.duplicates, "mcp_event_duplicates", metrics.Rate, metrics.Default},
		{&m.copies, "mcp_event_duplicate_copies", metrics.Counter, metrics.Default},
		{&m.outOfOrder, "mcp_events_out_of_order", metrics.Counter, metrics.Default},
		{&m.unexpected, "mcp_events_unexpected", metrics.Counter, metrics.Default},
		{&m.refreshRequests, "mcp_refresh_requests", metrics.Counter, metrics.Default},
		{&m.refreshBytes, "mcp_refresh_bytes", metrics.Counter, metrics.Data},
		{&m.open, "mcp_open_subscriptions", metrics.Gauge, metrics.Default},
	} {
		var err error
		if *d.to, err = r.NewMetric(d.name, d.kind, d.unit); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// batch collects samples that leave together.
type batch struct {
	at      time.Time
	tags    *metrics.TagSet
	meta    map[string]string
	samples metrics.Samples
}

// add puts a sample into the batch, taken at the given time.
func (b *batch) add(m *metrics.Metric, at time.Time, value float64) {
	b.samples = append(b.samples, metrics.Sample{
		TimeSeries: metrics.TimeSeries{Metric: m, Tags: b.tags}, Time: at, Value: value, Metadata: b.meta,
	})
}

// count adds to a counter. A zero is a sample, too: a threshold on a counter
// that nobody ever touched is one on nothing.
func (b *batch) count(m *metrics.Metric, n int64) { b.add(m, b.at, float64(n)) }

// rate adds n equal observations to a rate.
func (b *batch) rate(m *metrics.Metric, value float64, n int64) {
	for range n {
		b.add(m, b.at, value)
	}
}
