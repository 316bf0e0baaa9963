package report

import (
	"fmt"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

// grade is what a nonzero figure says about a run.
type grade int

const (
	plain  grade = iota // nothing
	notice              // worth a look, and not necessarily the target's fault
	fault               // the target delivered incorrectly
)

// laneFigure is a count of a lane.
type laneFigure struct {
	label string // label of its row; "600 LABEL" must read well
	short string // name in a summary; empty = left out of summaries
	// read returns the count, of the total that it is a part of; nil = none.
	read func(laneOf) float64
	of   func(*results.Lane) int64
	// grade applies where the figure is not 0.
	grade grade
	// ordered figures are of the order of deliveries; grade applies where one is promised.
	ordered bool
	// rare figures have a row only where they are not 0.
	rare bool
	// owed figures concern deliveries: owed or received.
	owed bool
	// loss figures add nothing where a lane received nothing at all.
	loss bool
}

// figuresOfLanes are the counts in the table of lanes, in its order. Every form of a report also
// derives from it which figures are not clean.
var figuresOfLanes = []laneFigure{
	{label: "expected", short: "expected", owed: true, read: path("expected")},
	{label: "delivered", short: "delivered", owed: true, read: path("delivered")},
	{label: "owed, nothing received", owed: true, rare: true, grade: fault, of: expected, read: receivedNothing},
	{label: "silent loss", short: "silent loss", owed: true, loss: true, grade: fault, of: expected, read: path("lostSilent")},
	{label: "announced loss", short: "announced loss", owed: true, loss: true, grade: fault, of: expected, read: path("lostAnnounced")},
	{label: "lost, order unknown", owed: true, loss: true, rare: true, grade: fault, of: expected, read: path("lostOrderUnknown")},
	{label: "lost, undeliverable", owed: true, loss: true, rare: true, grade: notice, of: expected, read: path("lostUndeliverable")},
	{label: "lost, refused by the sink", owed: true, loss: true, rare: true, grade: notice, of: expected, read: path("lostRefused")},
	{label: "lost while suspended", owed: true, loss: true, rare: true, grade: fault, of: expected, read: path("lostSuspended")},
	{label: "gaps per million", owed: true, read: path("gaps.perMillion")},
	{
		label: "duplicates",
		short: "duplicates",
		owed:  true,
		grade: fault,
		of:    delivered,
		read:  path("duplicates.sameEvent", "duplicates.sameEmission"),
	},
	{label: "  redelivered on request", owed: true, read: path("duplicates.requested")},
	{label: "out of order", owed: true, ordered: true, grade: fault, of: delivered, read: path("outOfOrder")},
	{
		label: "other order than other streams", owed: true, ordered: true, rare: true, grade: fault, of: delivered,
		read: path("orderConflicts"),
	},
	{label: "late", owed: true, grade: fault, of: delivered, read: path("late")},
	{label: "unexpected", owed: true, grade: fault, read: path("unexpected")},
	{label: "recovered", owed: true, grade: notice, read: path("recovered")},
	{label: "false loss announcements", owed: true, rare: true, grade: fault, read: path("gaps.falseAlarms")},
	{label: "overclaiming cursors", owed: true, rare: true, grade: fault, read: path("gaps.overclaimed")},
	{label: "cursors that replayed nothing", owed: true, rare: true, grade: fault, read: path("gaps.notReplayed")},
	{label: "latencies out of range", owed: true, rare: true, grade: notice, of: delivered, read: path("latency.fromIntended.outOfRange")},
	{label: "subscriptions not active", rare: true, grade: notice, of: subscriptions, read: notActive},
	{label: "subscriptions ended by the target", rare: true, grade: notice, read: path("detail.terminated")},
	{label: "malformed messages", rare: true, grade: fault, read: path("detail.malformed")},
	{label: "deliveries with a bad signature", rare: true, grade: notice, read: path("detail.rejected")},
	{label: "events without a probe id", rare: true, grade: notice, read: unprobed},
	{label: "broken streams", rare: true, grade: notice, read: cutByOthers},
	{label: "dead streams", rare: true, grade: notice, read: path("detail.deadStreams")},
	{label: "failed calls", rare: true, grade: notice, read: failedCalls},
}

// path returns the sum of figures, named as in result.json. A missing figure is 0.
func path(names ...string) func(laneOf) float64 {
	return func(x laneOf) float64 {
		var sum float64
		for _, name := range names {
			v, _ := x.lane.Figure(name)
			sum += v
		}
		return sum
	}
}

func expected(l *results.Lane) int64      { return l.Expected }
func delivered(l *results.Lane) int64     { return l.Delivered }
func subscriptions(l *results.Lane) int64 { return int64(l.Subscriptions) }

func receivedNothing(x laneOf) float64 {
	if x.lane.ReceivedNothing() {
		return float64(x.lane.Expected)
	}
	return 0
}

func notActive(x laneOf) float64 {
	return float64(max(0, int64(x.lane.Subscriptions)-x.lane.Ready.Active))
}

// unprobed counts events without a probe id. A run that publishes nothing is made to observe them.
func unprobed(x laneOf) float64 {
	if x.upstream.Kind == "none" {
		return 0
	}
	return float64(x.lane.Detail.Unprobed)
}

// cutByOthers leaves out streams that the profile cuts.
func cutByOthers(x laneOf) float64 {
	return max(0, float64(x.lane.Detail.Reconnects)-x.lane.Figures["cuts"])
}

func failedCalls(x laneOf) float64 {
	var sum int64
	for _, n := range x.lane.Failures {
		sum += n
	}
	return float64(sum)
}

// unclean reports whether the figure should be 0 and is not.
func (f *laneFigure) unclean(x laneOf) bool {
	switch {
	case f.grade == plain, f.owed && x.hasNoDeliveries(), f.loss && x.lane.ReceivedNothing():
		return false
	// Webhooks of earlier results do not say that they are unordered.
	case f.ordered && (x.lane.Unordered || x.lane.Mode == string(eventmeter.Webhook)):
		return false
	}
	return f.read(x) != 0
}

// markUnclean precedes an unclean figure, in every form.
const markUnclean = "!"

// row returns the figure's row of the table.
func (f *laneFigure) row() row {
	return row{label: f.label, short: f.short, owed: f.owed, figure: f}
}

func (f *laneFigure) cell(x laneOf) string {
	v := f.read(x)
	text := ratio(v)
	if v == float64(int64(v)) {
		text = count(int64(v))
	}
	if f.unclean(x) {
		return markUnclean + text
	}
	return text
}

// uncleanLine is an unclean figure with its lanes.
type uncleanLine struct {
	Label string
	Lanes string // "push 600 of 6 000 (10 %), poll 3 of 6 000 (0.05 %)"
	Fault bool
}

func (u uncleanLine) String() string { return u.Label + ": " + u.Lanes }

// uncleanLines returns all unclean figures of lanes.
func uncleanLines(lanes []laneOf) []uncleanLine {
	var out []uncleanLine
	for i := range figuresOfLanes {
		f := &figuresOfLanes[i]
		var of []string
		for _, x := range lanes {
			if f.unclean(x) {
				of = append(of, Clean(x.lane.Name)+" "+f.share(x))
			}
		}
		if of != nil {
			out = append(out, uncleanLine{f.label, strings.Join(of, ", "), f.grade == fault})
		}
	}
	return out
}

// share is the figure and its share of the total.
func (f *laneFigure) share(x laneOf) string {
	v := f.read(x)
	if f.of == nil || f.of(x.lane) == 0 {
		return count(int64(v))
	}
	whole := f.of(x.lane)
	return fmt.Sprintf("%s of %s (%.3g %%)", count(int64(v)), count(whole), 100*v/float64(whole))
}

// lanesOf returns the lanes of a result with its upstream.
func lanesOf(r *results.Result) []laneOf {
	lanes := make([]laneOf, len(r.Lanes))
	for i := range r.Lanes {
		lanes[i] = laneOf{&r.Upstream, &r.Lanes[i]}
	}
	return lanes
}
