package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// publishedData is the events published over time, of a whole run.
type publishedData struct {
	Width     float64   `json:"width"`
	Time      []float64 `json:"time"`
	Published []float64 `json:"published"` // per second, warm-up included
}

// publishedOf is the timeline of the run. The timeline of a lane counts the events published while
// that lane was open: lanes that are open together have the same counts, lanes that take turns each
// have those of their turn.
func publishedOf(of map[string]results.Timeline) results.Timeline {
	var out results.Timeline
	at := map[time.Duration]results.Point{}
	for _, t := range of {
		out.Interval = max(out.Interval, t.Interval)
		for _, p := range t.Points {
			q := at[p.At]
			at[p.At] = results.Point{
				At:        p.At,
				Published: max(p.Published, q.Published),
				WarmUp:    max(p.WarmUp, q.WarmUp),
				Dropped:   max(p.Dropped, q.Dropped),
			}
		}
	}
	for _, p := range at {
		if p.Published+p.WarmUp+p.Dropped > 0 {
			out.Points = append(out.Points, p)
		}
	}
	slices.SortFunc(out.Points, func(a, b results.Point) int { return int(a.At - b.At) })
	return out
}

// newPublished is the chart data of a run whose clock is shown from the instant from on.
func newPublished(of map[string]results.Timeline, from time.Duration) publishedData {
	points, width := coarse(publishedOf(of), mostPoints)
	d := publishedData{Width: width.Seconds(), Time: []float64{}, Published: []float64{}}
	for _, p := range points {
		d.Time = append(d.Time, (p.At - from).Seconds())
		d.Published = append(d.Published, float64(p.Published+p.WarmUp)/d.Width)
	}
	if n := len(points); n > 0 { // the last interval needs an end
		d.Time, d.Published = append(d.Time, (points[n-1].At+width-from).Seconds()), append(d.Published, 0)
	}
	return d
}

// publishingFrom is when a run began to publish. Overlaid runs are aligned at this instant.
func publishingFrom(r *results.Result) time.Duration {
	for _, ph := range r.Phases {
		if ph.Name != "attach" && ph.Name != "wait" { // a shard waits for the others
			return ph.Start.Duration()
		}
	}
	return 0
}

// captions describe the charts in words, with a sentence for each run.
type captions struct {
	Curve, Published, Delivered, Latency, Incidents []string
	// Warmed is set if a run had a warm-up, whose deliveries are not counted.
	Warmed bool
}

func (c *captions) add(name string, r *results.Result, d *runData) {
	say := func(to *[]string, before string, parts []string) {
		if len(parts) == 0 {
			return
		}
		if name != "" {
			before = name + ": " + before
		}
		*to = append(*to, before+strings.Join(parts, "; ")+".")
	}
	var spans []string
	for i := range r.Lanes {
		if q := r.Lanes[i].Latency.FromIntended; q.Count > 0 {
			spans = append(
				spans,
				fmt.Sprintf("%s %s to %s", Clean(r.Lanes[i].Name), q.P50, q.Max),
			)
		}
	}
	say(&c.Curve, "Median to maximum: ", spans)
	say(&c.Published, "", d.publishedText(&r.Upstream))
	say(&c.Delivered, "Highest rate in an interval: ", each(d, func(l *laneData) string {
		if i := highest(l.Delivered); i >= 0 {
			return fmt.Sprintf("%s/s at %s", ratio(*l.Delivered[i]), timeText(l.Time[i]))
		}
		return ""
	}))
	say(&c.Latency, "Highest p99 of an interval: ", each(d, func(l *laneData) string {
		most := highest(l.P99)
		if most < 0 {
			return ""
		}
		return fmt.Sprintf("%s at %s", millisText(*l.P99[most]), timeText(l.Time[most]))
	}))
	c.Warmed = c.Warmed || r.Upstream.Warmup > 0
	say(&c.Incidents, "", each(d, (*laneData).incidentText))
}

// each returns the lane's name and text for every lane with a text.
func each(d *runData, of func(*laneData) string) []string {
	var out []string
	for i := range d.Lanes {
		if text := of(&d.Lanes[i]); text != "" {
			out = append(out, d.Lanes[i].Lane+" "+text)
		}
	}
	return out
}

func (d *runData) publishedText(u *results.Upstream) []string {
	i := peak(d.Published.Published)
	if i < 0 {
		return nil
	}
	return []string{
		fmt.Sprintf(
			"%s in the measured phase, %s in the warm-up; highest rate %s/s at %s",
			plural(u.Published, "event"),
			count(u.Warmup),
			ratio(d.Published.Published[i]),
			timeText(d.Published.Time[i]),
		),
	}
}

func (l *laneData) incidentText() string {
	var parts []string
	for _, k := range []struct {
		name string
		n    []int64
	}{
		{"overtaken", l.Overtaken}, {"duplicate", l.Duplicates}, {"late", l.Late},
		{"out of order", l.OutOfOrder}, {"unexpected", l.Unexpected},
	} {
		var sum int64
		first, last := -1, -1
		for i, n := range k.n {
			if sum += n; n > 0 {
				if last = i; first < 0 {
					first = i
				}
			}
		}
		switch {
		case first < 0:
		case first == last:
			parts = append(parts, fmt.Sprintf("%s %s at %s", count(sum), k.name, timeText(l.Time[first])))
		default:
			parts = append(parts, fmt.Sprintf("%s %s from %s to %s", count(sum), k.name, timeText(l.Time[first]), timeText(l.Time[last])))
		}
	}
	return strings.Join(parts, ", ")
}

// peak is the index of the first largest value above 0, or -1.
func peak(vs []float64) int {
	most := -1
	for i, v := range vs {
		if v > 0 && (most < 0 || v > vs[most]) {
			most = i
		}
	}
	return most
}

// highest is the index of the first largest known value above 0, or -1.
func highest(vs []*float64) int {
	most := -1
	for i, v := range vs {
		if v != nil && *v > 0 && (most < 0 || *v > *vs[most]) {
			most = i
		}
	}
	return most
}

func millisText(ms float64) string { return results.Nanos(ms * 1e6).String() }

// timeText formats the start of an interval, but not earlier than the shown clock begins.
func timeText(s float64) string { return fmt.Sprintf("%.1fs", max(s, 0)) }

// listed joins names with commas and "and".
func listed(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}
