package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// firedData is what was fired when, of a whole run.
type firedData struct {
	Width float64   `json:"width"`
	Time  []float64 `json:"time"`
	Fired []float64 `json:"published"` // per second, warm-up included
}

// firedOf is the run's own timeline. Each lane's has what was fired while that
// lane was open: all have the same where they are open together, and where they
// take turns each has that of its turn.
func firedOf(of map[string]results.Timeline) results.Timeline {
	var out results.Timeline
	at := map[time.Duration]results.Point{}
	for _, t := range of {
		out.Interval = max(out.Interval, t.Interval)
		for _, p := range t.Points {
			q := at[p.At]
			at[p.At] = results.Point{At: p.At, Fired: max(p.Fired, q.Fired), WarmUp: max(p.WarmUp, q.WarmUp), Dropped: max(p.Dropped, q.Dropped)}
		}
	}
	for _, p := range at {
		if p.Fired+p.WarmUp+p.Dropped > 0 {
			out.Points = append(out.Points, p)
		}
	}
	slices.SortFunc(out.Points, func(a, b results.Point) int { return int(a.At - b.At) })
	return out
}

// newFired is that of a run whose clock is shown from that instant on.
func newFired(of map[string]results.Timeline, from time.Duration) firedData {
	points, width := coarse(firedOf(of), mostPoints)
	d := firedData{Width: width.Seconds(), Time: []float64{}, Fired: []float64{}}
	for _, p := range points {
		d.Time = append(d.Time, (p.At - from).Seconds())
		d.Fired = append(d.Fired, float64(p.Fired+p.WarmUp)/d.Width)
	}
	if n := len(points); n > 0 { // the last interval ends, too
		d.Time, d.Fired = append(d.Time, (points[n-1].At+width-from).Seconds()), append(d.Fired, 0)
	}
	return d
}

// firingFrom is when a run began to fire: runs that lie on each other are laid
// so that they began together.
func firingFrom(r *results.Result) time.Duration {
	for _, ph := range r.Phases {
		if ph.Name != "attach" && ph.Name != "wait" { // a shard waits for the others
			return ph.Start.Duration()
		}
	}
	return 0
}

// captions say in words what the charts show, a sentence for each run.
type captions struct {
	Curve, Fired, Given, Latency, Incidents []string
	// Warmed: a run fired events to warm up, whose deliveries are not counted.
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
			spans = append(spans, fmt.Sprintf("%s %s to %s", Clean(r.Lanes[i].Name), results.FormatNanos(q.P50), results.FormatNanos(q.Max)))
		}
	}
	say(&c.Curve, "From the median to the slowest: ", spans)
	say(&c.Fired, "", d.firedText(&r.Upstream))
	say(&c.Given, "Most in one interval: ", each(d, func(l *laneData) string {
		if i := highest(l.Given); i >= 0 {
			return fmt.Sprintf("%s a second at %s", ratio(*l.Given[i]), sayTime(l.Time[i]))
		}
		return ""
	}))
	say(&c.Latency, "The highest p99 of an interval: ", each(d, func(l *laneData) string {
		most := highest(l.P99)
		if most < 0 {
			return ""
		}
		return fmt.Sprintf("%s at %s", sayMillis(*l.P99[most]), sayTime(l.Time[most]))
	}))
	c.Warmed = c.Warmed || r.Upstream.Warmup > 0
	say(&c.Incidents, "", each(d, (*laneData).incidentText))
}

// each says something of every lane for which there is something to say.
func each(d *runData, of func(*laneData) string) []string {
	var out []string
	for i := range d.Lanes {
		if text := of(&d.Lanes[i]); text != "" {
			out = append(out, d.Lanes[i].Lane+" "+text)
		}
	}
	return out
}

func (d *runData) firedText(u *results.Upstream) []string {
	i := peak(d.Fired.Fired)
	if i < 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s in the measured part, and %s before to warm up; at most %s a second, at %s", plural(u.Fired, "event"), count(u.Warmup), ratio(d.Fired.Fired[i]), sayTime(d.Fired.Time[i]))}
}

func (l *laneData) incidentText() string {
	var parts []string
	for _, k := range []struct {
		name string
		n    []int64
	}{{"passed over", l.Missed}, {"twice", l.Twice}, {"late", l.Late}, {"out of order", l.Disorder}, {"unexpected", l.Strange}} {
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
			parts = append(parts, fmt.Sprintf("%s %s at %s", count(sum), k.name, sayTime(l.Time[first])))
		default:
			parts = append(parts, fmt.Sprintf("%s %s from %s to %s", count(sum), k.name, sayTime(l.Time[first]), sayTime(l.Time[last])))
		}
	}
	return strings.Join(parts, ", ")
}

// peak is the index of the first largest value above 0, -1 without one.
func peak(vs []float64) int {
	most := -1
	for i, v := range vs {
		if v > 0 && (most < 0 || v > vs[most]) {
			most = i
		}
	}
	return most
}

// highest is the index of the first largest value that is known and above 0, -1
// without one.
func highest(vs []*float64) int {
	most := -1
	for i, v := range vs {
		if v != nil && *v > 0 && (most < 0 || *v > *vs[most]) {
			most = i
		}
	}
	return most
}

func sayMillis(ms float64) string { return results.FormatNanos(results.Nanos(ms * 1e6)) }

// sayTime leaves out what of an interval lies before the clock that is shown.
func sayTime(s float64) string { return fmt.Sprintf("%.1f s", max(s, 0)) }

// listed joins names as a sentence does.
func listed(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}
