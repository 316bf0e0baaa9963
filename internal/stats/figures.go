package stats

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// compared is one figure of a lane (or of the run) in comparisons.
type compared struct {
	path, per, unit string
	// tag and rank choose a latency quantile.
	tag  string
	rank int
	// count reads a counting figure.
	count func(l *results.Lane) tallied
}

// laneFigures are the figures of a lane, in the order of reports.
var laneFigures = slices.Concat(
	latencyFigures("latency.fromIntended.", results.TagIntended),
	latencyFigures("latency.fromSent.", results.TagSent),
	countFigures(),
	[]compared{
		{path: "duplicates.rate", unit: "share", count: duplicatesOf},
		{path: "overhead.totalPerDelivered.requests", unit: "requests"},
		{path: "overhead.totalPerDelivered.bytes", unit: "bytes"},
		{path: "overhead.perDelivered.requests", unit: "requests"},
		{path: "overhead.perDelivered.bytes", unit: "bytes"},
		{path: "overhead.perSubscriptionHour.requests", unit: "requests"},
		{path: "overhead.perSubscriptionHour.bytes", unit: "bytes"},
		{path: "process.cpu", per: "received", unit: "ns"},
	},
)

// latencyFigures are the quantiles of a tag, in the order of quantilesCompared.
func latencyFigures(path, tag string) []compared {
	var out []compared
	for rank, name := range [len(quantilesCompared)]string{"p50", "p90", "p95", "p99", "p999"} {
		out = append(out, compared{path: path + name, unit: "ns", tag: tag, rank: rank})
	}
	return out
}

// countFigures are the counts that are compared.
func countFigures() (all []compared) {
	for _, n := range results.LaneCounts {
		if n.Per != "" {
			all = append(all, compared{path: n.Name, per: n.Per, unit: "share", count: func(l *results.Lane) tallied { return tally(l, n) }})
		}
	}
	return all
}

// runFigures are the figures of the whole run. A target's CPU is the lane's
// where lanes take turns and the run's where they do not.
var runFigures = []compared{{path: "target.process.cpu", per: "received", unit: "ns"}}

func figureNames(figures []compared) []string {
	out := make([]string, len(figures))
	for i, f := range figures {
		out[i] = f.path
	}
	return out
}

// measured reads a figure that is neither a quantile nor a count. ok is false if the
// run has none.
func (f *compared) measured(r *Run, lane string) (v float64, ok bool) {
	root := reflect.ValueOf(r.Result).Elem()
	var received int64
	for i := range r.Result.Lanes {
		received += r.Result.Lanes[i].Received
	}
	if lane != "" {
		l := r.lane(lane)
		root, received = reflect.ValueOf(l).Elem(), l.Received
		w := &l.Overhead.Measured
		if w.SubscriptionHours == 0 && strings.Contains(f.path, "perSubscriptionHour") ||
			w.Received == 0 && strings.Contains(f.path, "erDelivered") {
			return 0, false
		}
	}
	v, _, ok = results.FigureAt(root, strings.Split(f.path, "."))
	if ok && f.per == "received" {
		ok = received > 0
		v /= float64(max(received, 1))
	}
	return v, ok
}

// summaryOf returns the lane's latency of a tag.
func summaryOf(l *results.Lane, tag string) *results.Quantiles {
	if tag == results.TagSent {
		return &l.Latency.FromSent
	}
	return &l.Latency.FromIntended
}

// quantile is the name of the quantile that a latency figure is.
func (f *compared) quantile() string { return f.path[strings.LastIndexByte(f.path, '.')+1:] }

func valuesOf(q *results.Quantiles) quantileValues {
	return quantileValues{float64(q.P50), float64(q.P90), float64(q.P95), float64(q.P99), float64(q.P999)}
}

// comparedFigure finds the figure that a gate names.
func comparedFigure(where, path string) error {
	figures, root := laneFigures, reflect.TypeFor[results.Lane]()
	if where == "run" {
		figures, root = runFigures, reflect.TypeFor[results.Result]()
	}
	if slices.Contains(figureNames(figures), path) {
		return nil
	}
	if _, err := results.FigureType(root, strings.Split(path, ".")); err != nil {
		return err
	}
	return fmt.Errorf("%q is not compared; name one of %s", path, strings.Join(figureNames(figures), ", "))
}
