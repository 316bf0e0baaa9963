package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// chartData is the data that the page's script draws. Times are seconds since the run began or,
// with several runs, since each began to publish; latencies are milliseconds.
type chartData struct {
	Shapes []string  `json:"shapes"` // outlines of the marks of lanes, by hue
	Runs   []runData `json:"runs"`
}

type runData struct {
	Name string `json:"name"`
	// Limit is the resolution limit of the latencies, in milliseconds; 0 = it is not known.
	Limit     float64       `json:"limit"`
	Phases    []phaseData   `json:"phases"`
	Published publishedData `json:"published"`
	Lanes     []laneData    `json:"lanes"`
}

type phaseData struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

type laneData struct {
	Lane       string       `json:"lane"`
	Label      string       `json:"label"` // with the run's name if there are several
	Hue        int          `json:"hue"`
	Intended   [][2]float64 `json:"intended"` // 1/(1-p), latency
	Sent       [][2]float64 `json:"sent"`
	Width      float64      `json:"width"`     // of an interval
	Time       []float64    `json:"time"`      // start of each interval
	Delivered  []*float64   `json:"delivered"` // per second; null in the warm-up, whose deliveries are not counted
	P50        []*float64   `json:"p50"`
	P99        []*float64   `json:"p99"`
	Overtaken  []int64      `json:"overtaken"` // counts
	Duplicates []int64      `json:"duplicates"`
	Late       []int64      `json:"late"`
	OutOfOrder []int64      `json:"outOfOrder"`
	Unexpected []int64      `json:"unexpected"`
}

// curveRow is a lane's curve as a row of a table.
type curveRow struct {
	Column  column
	Latency string
	Cells   []string
}

// curveHead are the quantiles of the table beside the curves.
var curveHead = []float64{50, 75, 90, 95, 99, 99.9, 99.99, 100}

// percentileNames are the heads of the columns of a [curveRow].
func percentileNames() []string {
	out := make([]string, len(curveHead))
	for i, p := range curveHead {
		out[i] = fmt.Sprintf("p%g", p)
	}
	out[len(out)-1] = "max"
	return out
}

// timeTable is one lane's timeline as a table.
type timeTable struct {
	Column column
	Rows   [][]string
}

// mostPoints bounds the intervals of one lane in a chart, mostRows those in a table. Longer runs
// are shown in wider intervals.
const (
	mostPoints = 1200
	mostRows   = 60
)

func (v *view) addCharts(p *Page, i int, columns []column) {
	d := &v.Data.Runs[i]
	if v.Several {
		d.Name = Clean(p.Name)
	}
	var from time.Duration
	if v.Several {
		from = publishingFrom(p.Result)
	}
	d.Limit = millis(p.Result.Generator.ReadDelay.P99)
	d.Phases = []phaseData{}
	d.Lanes = []laneData{}
	for _, ph := range p.Result.Phases {
		d.Phases = append(
			d.Phases,
			phaseData{Name: phaseName(ph), Start: (ph.Start.Duration() - from).Seconds(), End: (ph.End.Duration() - from).Seconds()},
		)
	}
	quiet := true
	for j := range p.Result.Lanes {
		l := &p.Result.Lanes[j]
		log := p.Logs[l.Name]
		lane := laneData{Lane: columns[j].Lane, Label: columns[j].Label(), Hue: columns[j].Hue}
		for _, part := range []struct {
			tag, name string
			to        *[][2]float64
		}{{results.TagIntended, "scheduled → received", &lane.Intended}, {results.TagSent, "published → received", &lane.Sent}} {
			b := merge(log, part.tag, func(time.Duration) bool { return true })
			*part.to = curve(b)
			if len(b) > 0 {
				v.Curves = append(v.Curves, curveRow{Column: columns[j], Latency: part.name, Cells: quantiles(b, curveHead)})
			}
		}
		t := p.Timelines[l.Name]
		counted := countedFrom(p.Result, l.Name)
		lane.timeline(t, log, mostPoints, from, counted)
		if !lane.noIncidents() {
			quiet = false
		}
		d.Lanes = append(d.Lanes, lane)
		if len(t.Points) > 0 {
			v.Times = append(v.Times, timeTable{Column: columns[j], Rows: timeRows(t, log, from, counted)})
		}
	}
	d.Published = newPublished(p.Timelines, from)
	v.Say.add(d.Name, p.Result, d)
	if quiet && (i == 0 || v.Quiet != "") {
		v.Quiet = "There were no overtaken, duplicate, late, out-of-order or unexpected deliveries in any interval."
		if slices.ContainsFunc(p.Result.Lanes, func(l results.Lane) bool { return l.Expected > l.Delivered }) {
			v.Quiet += " What was lost has no interval, because nothing newer arrived after it."
		}
	} else {
		v.Quiet = ""
	}
}

// merge adds up the buckets of the intervals of one tag, ascending.
func merge(log *results.Log, tag string, in func(start time.Duration) bool) []results.Bucket {
	if log == nil {
		return nil
	}
	sum := map[results.Nanos]int64{}
	for _, iv := range log.Intervals {
		if iv.Tag != tag || !in(iv.Start) {
			continue
		}
		for _, b := range iv.Buckets {
			sum[b.Value] += b.Count
		}
	}
	out := make([]results.Bucket, 0, len(sum))
	for v, n := range sum {
		out = append(out, results.Bucket{Value: v, Count: n})
	}
	slices.SortFunc(out, func(a, b results.Bucket) int { return cmp.Compare(a.Value, b.Value) })
	return out
}

// at is the value at percentile p of buckets, by the same rank as in the result.
func at(b []results.Bucket, p float64) results.Nanos {
	var total, seen int64
	for _, x := range b {
		total += x.Count
	}
	rank := results.Rank(p/100, total)
	for _, x := range b {
		if seen += x.Count; seen >= rank {
			return x.Value
		}
	}
	return 0
}

// curve is the latencies by 1/(1-p), with twenty points per decade, as far as the samples allow.
func curve(b []results.Bucket) [][2]float64 {
	out := [][2]float64{}
	if len(b) == 0 {
		return out
	}
	var total float64
	for _, x := range b {
		total += float64(x.Count)
	}
	for k := 0; ; k++ {
		x := math.Pow(10, float64(k)/20)
		if x > total {
			break
		}
		out = append(out, [2]float64{x, millis(at(b, 100*(1-1/x)))})
	}
	return append(out, [2]float64{max(total, 1), millis(b[len(b)-1].Value)})
}

func quantiles(b []results.Bucket, ps []float64) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = at(b, p).String()
	}
	return out
}

// millis is ns in milliseconds, to the microsecond.
func millis(n results.Nanos) float64 { return math.Round(float64(n)/1e3) / 1e3 }

// coarse merges points so that at most most are left. It returns them and their width.
func coarse(t results.Timeline, most int) ([]results.Point, time.Duration) {
	if len(t.Points) == 0 || t.Interval <= 0 {
		return nil, 0
	}
	span := t.Points[len(t.Points)-1].At - t.Points[0].At + t.Interval
	every := (span/t.Interval + time.Duration(most) - 1) / time.Duration(most)
	width := t.Interval * max(every, 1)
	var out []results.Point
	for _, p := range t.Points {
		p.At -= p.At % width
		for n := len(out); n > 0 && out[n-1].At < p.At; n++ { // nothing happened in between
			out = append(out, results.Point{At: out[n-1].At + width})
		}
		if len(out) == 0 {
			out = append(out, results.Point{At: p.At})
		}
		out[len(out)-1].Add(p)
	}
	return out, width
}

func (d *laneData) timeline(t results.Timeline, log *results.Log, most int, from, counted time.Duration) {
	points, width := coarse(t, most)
	d.Width = width.Seconds()
	// A lane without a timeline has empty lists, because the script does not accept null.
	d.Time, d.P50, d.P99, d.Delivered = []float64{}, []*float64{}, []*float64{}, []*float64{}
	d.Overtaken, d.Duplicates, d.Late, d.OutOfOrder, d.Unexpected = []int64{}, []int64{}, []int64{}, []int64{}, []int64{}
	spans := byInterval(log, points, width)
	for i, p := range points {
		d.Time = append(d.Time, (p.At - from).Seconds())
		var given *float64
		if !uncounted(p, width, counted) {
			rate := float64(p.Delivered) / d.Width
			given = &rate
		}
		d.Delivered = append(d.Delivered, given)
		d.Overtaken = append(d.Overtaken, p.Skipped)
		d.Duplicates = append(d.Duplicates, p.Duplicates)
		d.Late = append(d.Late, p.Late)
		d.OutOfOrder = append(d.OutOfOrder, p.OutOfOrder)
		d.Unexpected = append(d.Unexpected, p.Unexpected)
		var p50, p99 *float64
		if b := spans[i]; len(b) > 0 {
			x, y := millis(at(b, 50)), millis(at(b, 99))
			p50, p99 = &x, &y
		}
		d.P50, d.P99 = append(d.P50, p50), append(d.P99, p99)
	}
}

// countedFrom is when deliveries of a lane start to count: the end of the warm-up, of its own turn
// where lanes take turns.
func countedFrom(r *results.Result, lane string) time.Duration {
	for _, ph := range r.Phases {
		if ph.Name == "warm-up" && (ph.Lane == "" || ph.Lane == lane) {
			return ph.End.Duration()
		}
	}
	return 0
}

// uncounted reports whether an interval ended before deliveries of its lane started to count. Zero
// deliveries then do not mean that there were none.
func uncounted(p results.Point, width, counted time.Duration) bool {
	return p.Delivered == 0 && p.At+width <= counted
}

// byInterval is the histogram scheduled → received of each point.
func byInterval(log *results.Log, points []results.Point, width time.Duration) [][]results.Bucket {
	out := make([][]results.Bucket, len(points))
	for i, p := range points {
		from := p.At
		out[i] = merge(log, results.TagIntended, func(start time.Duration) bool { return start >= from && start < from+width })
	}
	return out
}

// noIncidents reports whether no interval has an incident.
func (d *laneData) noIncidents() bool {
	for _, s := range [][]int64{d.Overtaken, d.Duplicates, d.Late, d.OutOfOrder, d.Unexpected} {
		if slices.ContainsFunc(s, func(n int64) bool { return n != 0 }) {
			return false
		}
	}
	return true
}

func timeRows(t results.Timeline, log *results.Log, from, counted time.Duration) [][]string {
	points, width := coarse(t, mostRows)
	spans := byInterval(log, points, width)
	var out [][]string
	for i, p := range points {
		row := []string{
			fmt.Sprintf("%gs", (p.At - from).Round(time.Millisecond).Seconds()),
			count(p.Published + p.WarmUp),
			count(p.Delivered),
			"–",
			"–",
		}
		if uncounted(p, width, counted) {
			row[2] = "–"
		}
		if b := spans[i]; len(b) > 0 {
			row[3], row[4] = at(b, 50).String(), at(b, 99).String()
		}
		for _, n := range []int64{p.Skipped, p.Duplicates, p.Late, p.OutOfOrder, p.Unexpected} {
			row = append(row, count(n))
		}
		out = append(out, row)
	}
	return out
}
