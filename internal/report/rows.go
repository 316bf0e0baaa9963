package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// The table of lanes is defined here once. The text report and the HTML page show all of it, the
// summary in Markdown shows the rows with a short name. Cells are the same in all three.

// laneOf is a lane and the upstream of its run.
type laneOf struct {
	upstream *results.Upstream
	lane     *results.Lane
}

// row is one row of the table: a figure of every lane.
type row struct {
	label string
	value func(l *results.Lane) string // nil, with figure nil: the heading of the rows below
	owed  bool                         // it concerns deliveries: owed or received
	short string                       // name in a summary; empty = left out of summaries

	figure *laneFigure // shown instead of value
}

// class returns the CSS class of the row's cell of a lane.
func (r *row) class(l laneOf) string {
	switch {
	case !r.unclean(l):
		return ""
	case r.figure.grade == fault:
		return " unclean"
	}
	return " unclean notice"
}

// has reports whether a lane has the figure.
func (r *row) has(l laneOf) bool { return !r.owed || !l.hasNoDeliveries() }

// shown reports whether the row is shown for a lane.
func (r *row) shown(l laneOf) bool {
	return r.has(l) && (r.figure == nil || !r.figure.rare || r.figure.read(l) != 0)
}

// headline reports whether the row has no cells.
func (r *row) headline() bool { return r.value == nil && r.figure == nil }

// unclean reports whether the row's figure of a lane should be 0 and is not.
func (r *row) unclean(l laneOf) bool { return r.figure != nil && r.figure.unclean(l) }

// cell returns the row's text for a lane. It is empty if the lane has no such figure, because a
// zero would look like a measurement.
func (r *row) cell(l laneOf) string {
	switch {
	case r.headline() || !r.has(l):
		return ""
	case r.figure != nil:
		return r.figure.cell(l)
	}
	return r.value(l.lane)
}

// hasNoDeliveries reports whether a lane has no figures of deliveries: it was open while events
// were published, or none were to be published, and nothing was owed or received.
func (x laneOf) hasNoDeliveries() bool {
	u, l := x.upstream, x.lane
	return (u.Accepted > 0 || u.Kind == "none") && l.Ready.Active > 0 &&
		l.Expected+l.Delivered+l.Duplicates.SameEvent+l.Duplicates.SameEmission+l.Duplicates.Requested+
			l.OutOfOrder+l.Late+l.Unexpected+l.Recovered == 0
}

// rowsOf returns the groups of rows that at least one of the lanes has.
func rowsOf(lanes []laneOf) [][]row {
	var out [][]row
	for _, group := range groups {
		var rows []row
		for _, r := range group {
			if slices.ContainsFunc(lanes, r.shown) {
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
	countRows(),
	owed([]row{
		{label: "scheduled → received, p50", short: "p50", value: latency("fromIntended.p50")},
		{label: "  p90", short: "p90", value: latency("fromIntended.p90")},
		{label: "  p95", value: latency("fromIntended.p95")},
		{label: "  p99", short: "p99", value: latency("fromIntended.p99")},
		{label: "  p99.9", short: "p99.9", value: latency("fromIntended.p999")},
		{label: "  max", value: latency("fromIntended.max")},
		{label: "published → received, p50", value: latency("fromSent.p50")},
		{label: "  p99", value: latency("fromSent.p99")},
	}),
	slices.Concat(owed([]row{
		{label: "wire cost per delivered event"},
		{label: "  requests", short: "wire cost per event, requests", value: perDelivered(total, requestsOf)},
		{label: "  bytes", short: "wire cost per event, bytes", value: perDelivered(total, bytesOf)},
		{label: "protocol overhead per event"},
		{label: "  requests", short: "overhead per event, requests", value: perDelivered(overhead, requestsOf)},
		{label: "  bytes", short: "overhead per event, bytes", value: perDelivered(overhead, bytesOf)},
	}), []row{
		{label: "opening and ending a subscription"},
		{label: "  requests", value: func(l *results.Lane) string { return ratio(l.Overhead.PerSubscription.Requests) }},
		{label: "  bytes", value: func(l *results.Lane) string { return bytes(l.Overhead.PerSubscription.Bytes) }},
		{label: "overhead per subscription-hour"},
		{label: "  requests", value: func(l *results.Lane) string { return ratio(l.Overhead.PerSubscriptionHour.Requests) }},
		{label: "  bytes", value: func(l *results.Lane) string { return bytes(l.Overhead.PerSubscriptionHour.Bytes) }},
	}, []row{
		{label: "connections opened", value: func(l *results.Lane) string { return count(connections(l)) }},
	}),
}

// countRows are the rows of the counts.
func countRows() []row {
	var rows []row
	for i := range figuresOfLanes {
		rows = append(rows, figuresOfLanes[i].row())
	}
	return rows
}

// perDelivered shows a cost per delivered event. It is missing for a lane without deliveries.
func perDelivered(of func(*results.Overhead) (results.Share, bool), show func(results.Share) string) func(*results.Lane) string {
	return func(l *results.Lane) string {
		share, there := of(&l.Overhead)
		if l.Delivered == 0 || !there {
			return "–"
		}
		return show(share)
	}
}

func total(o *results.Overhead) (results.Share, bool) {
	return o.TotalPerDelivered, o.TotalPerDelivered != results.Share{}
}

// overhead is unknown if nothing was received in the measured window.
func overhead(o *results.Overhead) (results.Share, bool) {
	return o.PerDelivered, o.Measured.Received > 0 || o.PerDelivered != results.Share{}
}

func requestsOf(s results.Share) string { return ratio(s.Requests) }

func bytesOf(s results.Share) string { return bytes(s.Bytes) }

// owed marks rows as concerning deliveries.
func owed(rows []row) []row {
	for i := range rows {
		rows[i].owed = true
	}
	return rows
}

// latency shows one figure of the latencies with its interval, with a mark before it if it is below
// the resolution limit and one behind it if it is in doubt; see [latencyNotes].
func latency(name string) func(*results.Lane) string {
	return func(l *results.Lane) string {
		v, there := l.Figure("latency." + name)
		if !there {
			return "–"
		}
		text := results.Nanos(v).String()
		if in, there := l.Latency.Intervals[name]; there {
			text += " " + intervalText(text, in)
		}
		if slices.Contains(l.Latency.BelowResolution, name) {
			return "~" + text
		}
		return text
	}
}

// intervalText formats the interval of a figure. Its bounds have no unit if they have the figure's.
func intervalText(figure string, in results.Interval) string {
	unit := unitOf(figure)
	low, high := in.Low.String(), "?"
	if in.High > 0 {
		high = in.High.String()
	}
	if unitOf(low) == unit && (in.High == 0 || unitOf(high) == unit) {
		low, high = strings.TrimSuffix(low, unit), strings.TrimSuffix(high, unit)
	}
	text := "(" + low + "–" + high + ")"
	if in.Doubt != "" && in.Doubt != results.FewEvents {
		text += "!"
	}
	return text
}

func unitOf(nanos string) string { return strings.TrimLeft(nanos, "0123456789.") }

func connections(l *results.Lane) int64 {
	return l.Overhead.Connections + l.Overhead.Causes["events"].Connections
}
