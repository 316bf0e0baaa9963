package main

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/promtest"
	"github.com/eventmeter/eventmeter/results"
)

// pushed are the metrics of one run in a push, by the labels that they all have
// in the way that it came.
type pushed struct {
	promtest.Push
	base map[string]string
}

// lane are the labels of a lane's metrics, with more of their own.
func (s pushed) lane(r *results.Result, l *results.Lane, more ...string) map[string]string {
	return s.run(r, append([]string{"system", l.System, "mode", l.Mode, "lane", l.Name}, more...)...)
}

func (s pushed) run(r *results.Result, more ...string) map[string]string {
	labels := maps.Clone(s.base)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["run"] = r.Run
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// is holds one metric to what a result says.
func (s pushed) is(t *testing.T, name string, labels map[string]string, want float64) {
	t.Helper()
	series := promtest.Series(name, labels)
	if got, ok := s.Values[series]; !ok || math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v (there: %v), and the result says %v", series, got, ok, want)
	}
}

// quantiles holds a histogram to the quantiles of a result, within the width of
// its buckets.
func (s pushed) quantiles(t *testing.T, name string, labels map[string]string, want results.Quantiles) {
	t.Helper()
	series := promtest.Series(name, labels)
	h, ok := s.Histograms[series]
	if !ok || h.Count != uint64(want.Count) {
		t.Errorf("%s has %d samples (there: %v), and the result says %d", series, h.Count, ok, want.Count)
		return
	}
	if want.Count == 0 {
		return
	}
	if mean := h.Sum / float64(h.Count); math.Abs(mean-want.Mean.Duration().Seconds()) > 0.005*mean+1e-6 {
		t.Errorf("%s has a mean of %v, and the result says %v", series, mean, want.Mean.Duration())
	}
	for q, v := range map[float64]results.Nanos{0.5: want.P50, 0.9: want.P90, 0.99: want.P99, 0.999: want.P999} {
		// A result counts the nearest sample, a histogram the next one; where
		// these are two, there is no saying how far apart they lie.
		if rank := q * float64(want.Count); math.Floor(rank+0.5) != math.Ceil(rank-1e-9) {
			continue
		}
		// Below a millisecond, the buckets of the ledger are half a microsecond wide. The result has
		// the upper end of one, and the histogram counts its middle.
		if got, want := h.Quantile(q), v.Duration().Seconds(); math.Abs(got-want) > 0.05*want+0.5e-6 {
			t.Errorf("%s has %v at quantile %v, and the result says %v", series, got, q, v.Duration())
		}
	}
}

// agree holds all metrics of a run that is over to its result.
func (s pushed) agree(t *testing.T, r *results.Result) {
	t.Helper()
	for i := range r.Lanes {
		s.agreeLane(t, r, &r.Lanes[i])
	}
	u := r.Upstream
	run := s.run(r)
	s.is(t, "eventmeter_events_published_total", run, float64(u.Published))
	s.is(t, "eventmeter_events_dropped_total", run, float64(u.Dropped))
	s.is(t, "eventmeter_events_warmup_published_total", run, float64(u.Warmup))
	s.is(t, "eventmeter_events_pending", run, 0)
	for outcome, n := range map[string]int64{"accepted": u.Accepted, "uncertain": u.Uncertain, "refused": u.Refused} {
		s.is(t, "eventmeter_events_resolved_total", s.run(r, "outcome", outcome), float64(n))
	}
	s.quantiles(t, "eventmeter_upstream_lag_seconds", run, u.Lag)
	s.quantiles(t, "eventmeter_upstream_answer_seconds", run, u.Answer)
	for name, v := range u.Figures {
		s.is(t, "eventmeter_upstream_figure", s.run(r, "figure", name), v)
	}
	for name, q := range u.Timings {
		s.quantiles(t, "eventmeter_upstream_figure_seconds", s.run(r, "figure", name), q)
	}
	s.is(t, "eventmeter_run_end_timestamp_seconds", run, float64(r.Finished.UnixNano())/1e9)
	s.is(t, "eventmeter_run_partial", run, number(r.Partial))
	s.is(t, "eventmeter_run_bottleneck", run, number(r.Generator.Bottleneck))
	s.is(t, "eventmeter_phase", s.run(r, "phase", "done"), 1)
	for _, v := range r.Thresholds {
		s.is(t, "eventmeter_threshold_passed", s.run(r, "threshold", v.Threshold, "lane", v.Lane), number(v.Passed))
		s.is(t, "eventmeter_threshold_evaluated", s.run(r, "threshold", v.Threshold, "lane", v.Lane), number(v.NotEvaluated == ""))
	}
	if c := r.Conformance; c != nil {
		for level, n := range map[string]int{"must": c.Must, "should": c.Should, "shape": c.Shape} {
			s.is(t, "eventmeter_conformance_broken_rows", s.run(r, "level", level), float64(n))
		}
		for _, row := range c.Rows {
			if row.Seen > 0 {
				s.is(t, "eventmeter_conformance_broken_total", s.run(r, "level", row.Level, "row", row.Row), float64(row.Broken))
			}
		}
	}
	s.is(t, "eventmeter_generator_others_cores", run, r.Generator.Others)
	for process, p := range map[string]*results.Process{"generator": &r.Generator.Process, "target": r.Target.Process} {
		if p != nil {
			s.is(t, "eventmeter_measured_cpu_seconds_total", s.run(r, "process", process), p.CPU.Duration().Seconds())
			s.is(t, "eventmeter_process_resident_memory_max_bytes", s.run(r, "process", process), float64(p.Memory))
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s pushed) agreeLane(t *testing.T, r *results.Result, l *results.Lane) {
	t.Helper()
	for name, want := range map[string]int64{
		"eventmeter_subscriptions":                  int64(l.Subscriptions),
		"eventmeter_subscriptions_open":             0,
		"eventmeter_subscriptions_failed_total":     l.Ready.Failed,
		"eventmeter_subscriptions_terminated_total": l.Detail.Terminated,
		"eventmeter_deliveries_expected_total":      l.Expected,
		"eventmeter_deliveries_total":               l.Delivered,
		"eventmeter_deliveries_outstanding":         0,
		"eventmeter_deliveries_missing":             l.Lost(),
		"eventmeter_deliveries_out_of_order_total":  l.OutOfOrder,
		"eventmeter_order_conflicts_total":          l.OrderConflicts,
		"eventmeter_deliveries_late_total":          l.Late,
		"eventmeter_deliveries_recovered_total":     l.Recovered,
		"eventmeter_deliveries_in_flight_total":     l.Detail.InFlight,
		"eventmeter_deliveries_excused_total":       l.Detail.Excused,
		"eventmeter_deliveries_unidentified_total":  l.Detail.Unidentified,
		"eventmeter_deliveries_replayed_total":      l.Detail.Replayed,
		"eventmeter_deliveries_foreign_total":       l.Detail.Foreign,
		"eventmeter_deliveries_unprobed_total":      l.Detail.Unprobed,
		"eventmeter_gaps_total":                     l.Gaps.Incidents,
		"eventmeter_gap_longest_events":             l.Gaps.Longest,
		"eventmeter_gap_false_alarms_total":         l.Gaps.FalseAlarms,
		"eventmeter_cursors_overclaimed_total":      l.Gaps.Overclaimed,
		"eventmeter_cursors_not_replayed_total":     l.Gaps.NotReplayed,
		"eventmeter_stream_reconnects_total":        l.Detail.Reconnects,
		"eventmeter_streams_dead_total":             l.Detail.DeadStreams,
		"eventmeter_transient_errors_total":         l.Detail.TransientErrors,
		"eventmeter_webhooks_rejected_total":        l.Detail.Rejected,
		"eventmeter_messages_malformed_total":       l.Detail.Malformed,
		"eventmeter_suspensions_total":              l.Detail.Suspended,
		"eventmeter_oversized_total":                l.Detail.Oversized,

		"eventmeter_webhook_connections_failed_total": l.Detail.Undeliverable,
	} {
		s.is(t, name, s.lane(r, l), float64(want))
	}
	for _, by := range []struct {
		name, label string
		want        map[string]int64
	}{
		{"eventmeter_deliveries_lost_total", "kind", map[string]int64{
			"silent": l.LostSilent, "announced": l.LostAnnounced, "order_unknown": l.LostOrderUnknown,
			"undeliverable": l.LostUndeliverable, "refused": l.LostRefused, "suspended": l.LostSuspended,
		}},
		{"eventmeter_duplicates_total", "kind", map[string]int64{"same_event": l.Duplicates.SameEvent,
			"same_emission": l.Duplicates.SameEmission, "requested": l.Duplicates.Requested}},
		{"eventmeter_deliveries_unexpected_total", "kind", map[string]int64{
			"foreign_run": l.Detail.UnexpectedBy["foreignRun"], "never_fired": l.Detail.UnexpectedBy["neverFired"],
			"not_subscribed": l.Detail.UnexpectedBy["notSubscribed"], "stale": l.Detail.UnexpectedBy["stale"],
			"after_end": l.Detail.UnexpectedBy["afterEnd"],
		}},
	} {
		for value, n := range by.want {
			s.is(t, by.name, s.lane(r, l, by.label, value), float64(n))
		}
	}
	s.is(t, "eventmeter_subscription_active_seconds_total", s.lane(r, l), l.Overhead.SubscriptionHours*3600)
	w := &l.Overhead.Measured
	s.is(t, "eventmeter_measured_subscription_active_seconds_total", s.lane(r, l), w.SubscriptionHours*3600)
	s.is(t, "eventmeter_measured_events_received_total", s.lane(r, l), float64(w.Received))
	s.is(t, "eventmeter_events_received_total", s.lane(r, l), float64(l.Received))
	for cause, x := range w.Causes {
		s.is(t, "eventmeter_measured_requests_total", s.lane(r, l, "cause", cause), float64(x.Requests))
		s.is(t, "eventmeter_measured_sent_bytes_total", s.lane(r, l, "cause", cause), float64(x.BytesUp))
		s.is(t, "eventmeter_measured_received_bytes_total", s.lane(r, l, "cause", cause), float64(x.BytesDown))
		s.is(t, "eventmeter_measured_connections_opened_total", s.lane(r, l, "cause", cause), float64(x.Connections))
	}
	for cause, x := range l.Overhead.Causes {
		s.is(t, "eventmeter_requests_total", s.lane(r, l, "cause", cause), float64(x.Requests))
		s.is(t, "eventmeter_sent_bytes_total", s.lane(r, l, "cause", cause), float64(x.BytesUp))
		s.is(t, "eventmeter_received_bytes_total", s.lane(r, l, "cause", cause), float64(x.BytesDown))
		s.is(t, "eventmeter_connections_opened_total", s.lane(r, l, "cause", cause), float64(x.Connections))
	}
	s.quantiles(t, "eventmeter_latency_from_intended_seconds", s.lane(r, l), l.Latency.FromIntended)
	s.quantiles(t, "eventmeter_latency_from_sent_seconds", s.lane(r, l), l.Latency.FromSent)
	s.quantiles(t, "eventmeter_subscription_ready_seconds", s.lane(r, l), l.Ready.Time)
	for name, v := range l.Figures {
		s.is(t, "eventmeter_figure", s.lane(r, l, "figure", name), v)
	}
	for name, q := range l.Timings {
		s.quantiles(t, "eventmeter_figure_seconds", s.lane(r, l, "figure", name), q)
	}
	if l.System != "sep-2549" {
		return
	}
	for name, want := range map[string]float64{
		"eventmeter_list_page_reads_total":      l.Figures["pageReads"],
		"eventmeter_list_fetches_avoided_total": l.Figures["fetchesAvoided"],
		"eventmeter_list_changes_owed_total":    l.Figures["changesOwed"],
		"eventmeter_list_changes_unseen":        l.Figures["changesNeverSeen"],
		"eventmeter_list_ttl_seconds":           l.Figures["ttlMs"] / 1000,
		"eventmeter_list_client_seconds_total":  l.Figures["clientHours"] * 3600,
	} {
		s.is(t, name, s.lane(r, l), want)
	}
	s.is(t, "eventmeter_list_fetches_total", s.lane(r, l, "reason", "expired"), l.Figures["fetchesExpired"])
	s.quantiles(t, "eventmeter_list_staleness_seconds", s.lane(r, l), l.Timings["staleness"])
}

// agreeCapacity holds the metrics of a search to what it found.
func (s pushed) agreeCapacity(t *testing.T, c *results.Capacity) {
	t.Helper()
	search := c.Started.Format("20060102T150405Z") + "-known"
	of := func(more ...string) map[string]string {
		labels := maps.Clone(s.base)
		labels["search"] = search
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	s.is(t, "eventmeter_capacity_info", of("name", c.Name, "profile", "known", "axis", c.Axis), 1)
	s.is(t, "eventmeter_capacity_outcome", of("outcome", c.Outcome), 1)
	s.is(t, "eventmeter_capacity_maximum_load", of(), c.Maximum.Load)
	s.is(t, "eventmeter_capacity_maximum_above_load", of(), c.Maximum.Above)
	for _, step := range c.Steps {
		n := strconv.Itoa(step.Number)
		s.is(t, "eventmeter_capacity_step_info", of("step", n, "purpose", step.Purpose, "verdict", step.Verdict), 1)
		s.is(t, "eventmeter_capacity_step_load", of("step", n), step.Load)
		s.is(t, "eventmeter_capacity_step_achieved_rate", of("step", n), step.Achieved)
		for _, l := range step.Lanes {
			if l.FromIntended.Count > 0 {
				s.is(
					t,
					"eventmeter_capacity_step_latency_seconds",
					of("step", n, "lane", l.Name, "mode", l.Mode, "figure", "p99"),
					l.FromIntended.P99.Duration().Seconds(),
				)
			}
		}
	}
}

// rising looks for counters that fall from one push to the next: a server would
// take that for a new beginning.
func rising(t *testing.T, pushes []promtest.Push) {
	t.Helper()
	for i := 1; i < len(pushes); i++ {
		for series, v := range pushes[i].Values {
			name, _, _ := strings.Cut(series, "{")
			if name == "eventmeter_deliveries_expected_total" && i == len(pushes)-1 {
				continue // what was missing when its subscription ended may turn out to be owed no more
			}
			counts := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count")
			if before := pushes[i-1].Values[series]; counts && v < before {
				t.Errorf("%s falls from %v to %v at push %d of %d", series, before, v, i+1, len(pushes))
			}
		}
		for series, h := range pushes[i].Histograms {
			if before := pushes[i-1].Histograms[series]; h.Count < before.Count || h.Sum < before.Sum-1e-9 {
				t.Errorf("%s falls from %v to %v at push %d of %d", series, before, h, i+1, len(pushes))
			}
		}
	}
}
