package selfbench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Schema is the schema of a Report as JSON.
const Schema = "eventmeter.bench/1"

// Report is the result of a run.
type Report struct {
	Schema  string        `json:"schema"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"tookNs"`
	Scale   float64       `json:"scale"`
	Repeats int           `json:"repeats"`
	Machine Machine       `json:"machine"`
	Rows    []Row         `json:"rows"`
	// Notes are about the machine and its noise.
	Notes []string `json:"notes,omitempty"`

	others []float64
}

// Row is one part of a Report.
type Row struct {
	Name  string        `json:"name"`
	Title string        `json:"title"`
	Lines []Line        `json:"lines"`
	Curve []Point       `json:"curve,omitempty"`
	Notes []string      `json:"notes,omitempty"`
	Took  time.Duration `json:"tookNs"`
	// Failed is the reason why the row is not complete.
	Failed string `json:"failed,omitempty"`
}

// Line is one figure and its goal.
type Line struct {
	What string `json:"what"`
	// Goal in words; empty = the figure is only shown.
	Goal string `json:"goal,omitempty"`
	// Measured is the generator's figure. Baseline and Peers are the same figure
	// of other clients, measured in the same run.
	Measured Value  `json:"measured"`
	Baseline *Value `json:"baseline,omitempty"`
	Peers    []Peer `json:"peers,omitempty"`
	// Verdict is "met" or "not met", with ", at a smaller size" if there were
	// fewer streams than the goal names; empty without a goal.
	Verdict string `json:"verdict,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Peer is the figure of another client.
type Peer struct {
	Name string `json:"name"`
	Value
}

// Point is one of a growth curve.
type Point struct {
	Client    string  `json:"client"`
	Streams   int     `json:"streams"`
	Processes int     `json:"processes"`
	Rate      float64 `json:"eventsPerSecond"`
	Memory    float64 `json:"kibPerStream"`
	CPU       float64 `json:"usPerDelivery"`
	Delivered int64   `json:"delivered"`
	Complete  bool    `json:"complete"`
}

// Value is the median of several runs and their range.
type Value struct {
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Runs   []float64 `json:"runs"`
}

// newValue summarizes one or more runs.
func newValue(unit string, runs []float64) Value {
	s := slices.Sorted(slices.Values(runs))
	v := Value{Unit: unit, Runs: runs, Median: s[len(s)/2], Low: s[0], High: s[len(s)-1]}
	if len(s)%2 == 0 {
		v.Median = (s[len(s)/2-1] + s[len(s)/2]) / 2
	}
	return v
}

// of is a figure of each run.
func of(runs []*figures, unit string, f func(*figures) float64) Value {
	all := make([]float64, len(runs))
	for i, r := range runs {
		all[i] = f(r)
	}
	return newValue(unit, all)
}

// over is a value divided by another, run by run, as they were measured in turn.
func over(a, b Value, unit string) Value {
	return relative(a, b, unit, func(x float64) float64 { return x })
}

// relative is a function of that quotient.
func relative(a, b Value, unit string, f func(float64) float64) Value {
	all := make([]float64, min(len(a.Runs), len(b.Runs)))
	for i := range all {
		all[i] = f(ratio(a.Runs[i], b.Runs[i]))
	}
	return newValue(unit, all)
}

// String returns the median and, if runs differ, their range.
func (v Value) String() string {
	if len(v.Runs) < 2 || v.Low == v.High {
		return withUnit(number(v.Median), v.Unit)
	}
	return fmt.Sprintf("%s (%s–%s)", withUnit(number(v.Median), v.Unit), number(v.Low), number(v.High))
}

func withUnit(n, unit string) string {
	if unit == "" {
		return n
	}
	return n + " " + unit
}

// number formats a figure with three significant digits.
func number(f float64) string {
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0"
	case f == math.Trunc(f) || a >= 100:
		return grouped(int64(math.Round(f)))
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a >= 0.01:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.2g", f)
}

// grouped separates thousands: 48,000.
func grouped(n int64) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// Verdicts.
const (
	met    = "met"
	notMet = "not met"
	// smaller is added if the run had fewer streams than the goal names.
	smaller = ", at a smaller size"
)

// line is a figure of each run.
func line(what, unit string, runs []*figures, f func(*figures) float64) Line {
	return Line{What: what, Measured: of(runs, unit, f)}
}

// beside adds the same figure of the baseline.
func (l Line) beside(runs []*figures, f func(*figures) float64) Line {
	v := of(runs, l.Measured.Unit, f)
	l.Baseline = &v
	return l
}

// peer adds the same figure of a peer.
func (l Line) peer(name string, runs []*figures, f func(*figures) float64) Line {
	l.Peers = append(l.Peers, Peer{name, of(runs, l.Measured.Unit, f)})
	return l
}

// goal adds a goal and whether it was met.
func (l Line) goal(text string, ok bool) Line {
	l.Goal, l.Verdict = text, notMet
	if ok {
		l.Verdict = met
	}
	return l
}

// atMost and atLeast judge the median against a bound.
func (l Line) atMost(goal string, bound float64) Line {
	return l.goal(goal, l.Measured.Median <= bound)
}

func (l Line) atLeast(goal string, bound float64) Line {
	return l.goal(goal, l.Measured.Median >= bound)
}

// Limits of noise: tooBusy processors used by other processes, and a factor of
// tooSpread between runs.
const (
	tooBusy   = 0.1
	tooSpread = 1.5
)

// noteNoise adds notes about how busy the machine was and which lines vary.
func (r *Report) noteNoise() {
	worst, known := 0.0, false
	for _, o := range r.others {
		if o >= 0 {
			known = true
			worst = max(worst, o)
		}
	}
	switch {
	case known && worst > tooBusy:
		r.Notes = append(
			r.Notes,
			fmt.Sprintf(
				"The machine was busy: other processes used up to %.2f processors during a measurement. Do not trust the times.",
				worst,
			),
		)
	case known:
		r.Notes = append(
			r.Notes,
			fmt.Sprintf("The machine was quiet: other processes used at most %.2f processors during any measurement.", worst),
		)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, l := range row.Lines {
			if v := l.Measured; len(v.Runs) > 1 && v.Low > 0 && v.High/v.Low > tooSpread {
				row.Notes = append(row.Notes, fmt.Sprintf("%s: runs differ by a factor of %.1f.", l.What, v.High/v.Low))
			}
		}
	}
}
