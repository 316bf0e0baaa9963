package report

import (
	"fmt"
	"slices"

	"github.com/mcpload/mcpload/results"
)

// The table of lanes side by side is defined here once. The text report and the
// HTML page show all of it, the summary in Markdown the rows that have a short
// name: what a cell says, and whether it is empty, is the same in all three.

// laneOf is a lane, and what was fired at it.
type laneOf struct {
	upstream *results.Upstream
	lane     *results.Lane
}

// row is one line of the table: a figure of every lane.
type row struct {
	label string
	value func(l *results.Lane) string // nil for the headline of the rows below
	owed  bool                         // it is about what was owed to the lane, or came to it
	short string                       // its name in a summary, empty where it is left out there
}

// has tells whether a lane has such a figure.
func (r *row) has(l laneOf) bool { return !r.owed || !l.hearsNothing() }

// cell is what the row says of a lane: nothing, where the lane has no such
// figure, since a zero would look like a measurement.
func (r *row) cell(l laneOf) string {
	if r.value == nil || !r.has(l) {
		return ""
	}
	return r.value(l.lane)
}

// hearsNothing tells whether a lane has no figures of delivery: it was open
// while events were fired, or while none were meant to be, and nothing was owed
// to it nor came.
func (x laneOf) hearsNothing() bool {
	u, l := x.upstream, x.lane
	return (u.Accepted > 0 || u.Kind == "none") && l.Ready.Active > 0 &&
		l.Expected+l.Delivered+l.Duplicates.SameEvent+l.Duplicates.SameEmission+l.Duplicates.Requested+
			l.OutOfOrder+l.Late+l.Unexpected+l.Recovered == 0
}

// rowsOf are the groups of rows that at least one of the lanes has.
func rowsOf(lanes []laneOf) [][]row {
	var out [][]row
	for _, group := range groups {
		var rows []row
		for _, r := range group {
			if slices.ContainsFunc(lanes, r.has) {
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			out = append(out, rows)
		}
	}
	return out
}

var groups = [][]row{
	{
		{label: "mode", short: "mode", value: func(l *results.Lane) string { return l.Mode }},
		{label: "subscriptions active", value: func(l *results.Lane) string {
			if l.Ready.Active == int64(l.Subscriptions) {
				return count(l.Ready.Active)
			}
			return fmt.Sprintf("%d of %d", l.Ready.Active, l.Subscriptions)
		}},
		{label: "time to ready, p99", value: func(l *results.Lane) string { return quantile(l.Ready.Time, l.Ready.Time.P99) }},
	},
	owed([]row{
		{label: "expected", short: "expected", value: func(l *results.Lane) string { return count(l.Expected) }},
		{label: "delivered", short: "delivered", value: func(l *results.Lane) string { return count(l.Delivered) }},
		{label: "lost in silence", short: "lost in silence", value: func(l *results.Lane) string { return count(l.LostSilent) }},
		{label: "lost, announced", short: "lost, announced", value: func(l *results.Lane) string { return count(l.LostAnnounced) }},
		{label: "gaps per million", value: func(l *results.Lane) string { return ratio(l.Gaps.PerMillion) }},
		{label: "duplicates", short: "duplicates", value: func(l *results.Lane) string { return count(l.Duplicates.SameEvent + l.Duplicates.SameEmission) }},
		{label: "  redelivered on request", value: func(l *results.Lane) string { return count(l.Duplicates.Requested) }},
		{label: "out of order", value: func(l *results.Lane) string { return count(l.OutOfOrder) }},
		{label: "late", value: func(l *results.Lane) string { return count(l.Late) }},
		{label: "unexpected", value: func(l *results.Lane) string { return count(l.Unexpected) }},
		{label: "recovered", value: func(l *results.Lane) string { return count(l.Recovered) }},
	}),
	owed([]row{
		{label: "latency from intended, p50", short: "p50", value: latency("fromIntended.p50", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromIntended, l.FromIntended.P50
		})},
		{label: "  p90", value: latency("fromIntended.p90", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromIntended, l.FromIntended.P90
		})},
		{label: "  p99", short: "p99", value: latency("fromIntended.p99", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromIntended, l.FromIntended.P99
		})},
		{label: "  p99.9", short: "p99.9", value: latency("fromIntended.p999", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromIntended, l.FromIntended.P999
		})},
		{label: "  max", value: latency("fromIntended.max", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromIntended, l.FromIntended.Max
		})},
		{label: "latency from sent, p50", value: latency("fromSent.p50", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromSent, l.FromSent.P50
		})},
		{label: "  p99", value: latency("fromSent.p99", func(l *results.Latency) (results.Quantiles, results.Nanos) {
			return l.FromSent, l.FromSent.P99
		})},
	}),
	slices.Concat([]row{
		{label: "to open one subscription"},
		{label: "  requests", value: func(l *results.Lane) string { return ratio(l.Overhead.PerSubscription.Requests) }},
		{label: "  bytes", value: func(l *results.Lane) string { return bytes(l.Overhead.PerSubscription.Bytes) }},
		{label: "overhead per subscription-hour"},
		{label: "  requests", value: func(l *results.Lane) string { return ratio(l.Overhead.PerSubscriptionHour.Requests) }},
		{label: "  bytes", value: func(l *results.Lane) string { return bytes(l.Overhead.PerSubscriptionHour.Bytes) }},
	}, owed([]row{
		{label: "overhead per delivered event"},
		{label: "  requests", short: "overhead per event, requests", value: func(l *results.Lane) string { return ratio(l.Overhead.PerDelivered.Requests) }},
		{label: "  bytes", short: "overhead per event, bytes", value: func(l *results.Lane) string { return bytes(l.Overhead.PerDelivered.Bytes) }},
	}), []row{
		{label: "connections opened", value: func(l *results.Lane) string { return count(connections(l)) }},
	}),
}

// owed marks rows as being about what was owed to the lane.
func owed(rows []row) []row {
	for i := range rows {
		rows[i].owed = true
	}
	return rows
}

// latency shows one quantile, marked where it is below the noise floor.
func latency(name string, of func(*results.Latency) (results.Quantiles, results.Nanos)) func(*results.Lane) string {
	return func(l *results.Lane) string {
		text := quantile(of(&l.Latency))
		if slices.Contains(l.Latency.BelowFloor, name) {
			return "~" + text
		}
		return text
	}
}

func connections(l *results.Lane) int64 {
	return l.Overhead.Connections + l.Overhead.Causes["events"].Connections
}
