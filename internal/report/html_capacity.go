package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// CapacityHTML writes a capacity search as a single file: the maximum load, latency and throughput by
// load, the steps, the law and the cost sheet. The file makes no network requests and runs no script.
func CapacityHTML(w io.Writer, c *results.Capacity) error {
	v := newCapacityView(c)
	return writePage(w, "capacity.html", v, &v.shell, false)
}

type capacityView struct {
	shell

	Word, Class, Verdict string
	Lines                []string // below the verdict
	SLO, Where, Profile  string
	Warnings             []string
	Plots                []plot
	Head                 []string
	Steps                []stepRow
	Law                  [][2]string
	Doubts               []string
	Costs                []costColumn
	CostLabels           []string
	Machine              string
}

type stepRow struct {
	Cells   []string
	Class   string
	Reasons string
}

type costColumn struct {
	Lane, Basis string
	Cells       []string
	Missing     []string
}

// plot is a chart of a figure of the steps by load.
type plot struct {
	Title, XName, YName, Caption string
	X                            []tick
	Y                            []tick
	Points                       []plotPoint
	Lines                        []plotLine
	// Band is the interval of the maximum load, Found the maximum load itself.
	Band  *plotBand
	Found *float64
	// Above is the end of the region above the bound of the SLO, from the top.
	Above *float64
	Bound string
}

type plotPoint struct {
	X, Y  float64
	Class string
	Shape int
	Text  string
}

type plotLine struct {
	X1, Y1, X2, Y2 float64
	Class          string
}

type plotBand struct{ X, W float64 }

const plotTicks = 5

var stepHead = []string{
	"step",
	"purpose",
	"load",
	"offered/s",
	"achieved/s",
	"p50",
	"p99",
	"p99, published → received",
	"lost",
	"backlog growth",
	"CPUs of the target",
	"memory of the target",
	"verdict",
}

func newCapacityView(c *results.Capacity) *capacityView {
	v := &capacityView{SLO: sloText(c.SLO), Where: targetText(&c.Target), Head: stepHead}
	v.Title = dated("Capacity of "+v.Where, c.Started)
	if name := Clean(c.Name); name != "" {
		v.Title = name + " · " + v.Title
	}
	v.Where += fmt.Sprintf(
		" · profile %s, axis %s · %s in %s",
		nameIn(c.Profile),
		Clean(c.Axis),
		plural(len(c.Steps), "step"),
		results.Nanos(c.Finished.Sub(c.Started)),
	)
	v.judge(c)
	for _, w := range c.Warnings {
		v.Warnings = append(v.Warnings, Clean(w.Text))
	}
	v.Plots = capacityPlots(c)
	for i := range c.Steps {
		s := &c.Steps[i]
		row := stepRow{Class: "step-" + stepClass(s)}
		for _, cell := range stepCells(s) {
			row.Cells = append(row.Cells, spaced(Clean(cell)))
		}
		row.Reasons = Clean(strings.Join(s.Reasons, "; "))
		v.Steps = append(v.Steps, row)
	}
	v.law(c)
	v.costs(c)
	v.Machine = machineText(&c.Host)
	v.Profile = indented(c.Profile)
	return v
}

func (v *capacityView) judge(c *results.Capacity) {
	lines := strings.Split(maximumText(c), "\n")
	v.Word, v.Class = "found", "pass"
	words := map[string]string{
		"bound":     "no limit found",
		"generator": "limited by the generator",
		"exhausted": "not decided",
		"searching": "not finished",
	}
	switch {
	case c.Partial:
		v.Word, v.Class = "partial", "partial"
		lines = append(lines, "The search ended early: "+c.Reason)
	case c.Outcome == "none":
		v.Word, v.Class = "no load met the SLO", "fail"
	case c.Outcome != "found":
		v.Word, v.Class = cmp.Or(words[c.Outcome], Clean(c.Outcome)), "doubtful"
	}
	v.Verdict = Clean(lines[0])
	if c.Maximum.Load > 0 {
		v.Verdict = "Maximum load: " + v.Verdict
	}
	for _, l := range append(lines[1:], c.Stopped) {
		if l != "" {
			v.Lines = append(v.Lines, Clean(l))
		}
	}
	for _, l := range c.Maximum.Limits {
		if strings.Contains(c.Stopped, l) {
			continue
		}
		v.Lines = append(v.Lines, "Above it: "+Clean(l))
	}
}

// stepClass is the verdict of a step as a class.
func stepClass(s *results.CapacityStep) string {
	if !slices.Contains([]string{"passed", "failed", "unclear"}, s.Verdict) {
		return "aside"
	}
	return s.Verdict
}

// The shapes of steps by verdict: a circle, a cross and a diamond.
var stepShapes = map[string]int{"passed": 0, "failed": 6, "unclear": 3}

// judged are the steps that count for the maximum.
func judged(c *results.Capacity) []*results.CapacityStep {
	var out []*results.CapacityStep
	for i := range c.Steps {
		if s := &c.Steps[i]; stepClass(s) != "aside" && s.Load > 0 {
			out = append(out, s)
		}
	}
	return out
}

// capacityPlots are the charts of a search: each latency that the SLO bounds, or else the p99, and
// the throughput.
func capacityPlots(c *results.Capacity) []plot {
	steps := judged(c)
	if len(steps) == 0 {
		return nil
	}
	var out []plot
	for i, bound := range c.SLO.Bounds() {
		if bound.Value > 0 || bound.Name == "p99" && c.SLO.P50+c.SLO.P90+c.SLO.P95+c.SLO.P999 == 0 {
			out = append(out, latencyPlot(c, steps, i, bound))
		}
	}
	return append(out, throughputPlot(c, steps))
}

// loadScale is the axis of loads.
func loadScale(c *results.Capacity, steps []*results.CapacityStep) scale {
	low, high := steps[0].Load, steps[0].Load
	for _, s := range steps {
		low, high = min(low, s.Load), max(high, s.Load)
	}
	return logScale(low, high)
}

func newPlot(c *results.Capacity, x scale, title, yName string) plot {
	p := plot{Title: title, XName: Clean(c.Unit), YName: yName, X: x.ticks(figure, plotTicks)}
	k := c.Maximum
	if k.Load > 0 {
		at := x.at(k.Load)
		p.Found = &at
		from, to := 0.0, 100.0
		if k.From > 0 {
			from = x.at(k.From)
		}
		if k.To > 0 {
			to = x.at(k.To)
		}
		p.Band = &plotBand{from, round2(max(to-from, 0.4))}
	}
	return p
}

// latencyPlot is the chart of quantile number i.
func latencyPlot(c *results.Capacity, steps []*results.CapacityStep, i int, of results.Quantile) plot {
	name, bound := of.Label(), of.Value
	worst := func(s *results.CapacityStep) float64 {
		var v results.Nanos
		for _, l := range s.Lanes {
			if l.FromIntended.Count > 0 {
				v = max(v, l.FromIntended.All()[i].Value)
			}
		}
		return float64(v)
	}
	x := loadScale(c, steps)
	p := newPlot(c, x, "Scheduled → received, "+name+" of the slowest lane", "Latency")
	low, high := float64(max(bound, 1)), float64(bound)
	for _, s := range steps {
		if v := worst(s); v > 0 {
			if bound == 0 && high == 0 {
				low = v
			}
			low, high = min(low, v), max(high, v)
		}
	}
	y := logScale(low, high)
	p.Y = upright(y.ticks(nanosText, plotTicks))
	var empty int
	for _, s := range steps {
		v := worst(s)
		if v == 0 {
			empty++
			continue
		}
		p.add(s, x.at(s.Load), 100-y.at(v), fmt.Sprintf("%s %s", name, results.Nanos(v)))
	}
	if bound > 0 {
		at := round2(100 - y.at(float64(bound)))
		p.Above, p.Bound = &at, bound.String()
		p.Caption = "The shaded region at the top breaks the SLO. "
	}
	p.Caption += "The shaded column is the interval of the maximum load, and the line in it the maximum load."
	if empty > 0 {
		p.Caption += fmt.Sprintf(" In %s nothing was received.", plural(empty, "step"))
	}
	return p
}

func throughputPlot(c *results.Capacity, steps []*results.CapacityStep) plot {
	x := loadScale(c, steps)
	p := newPlot(c, x, "Deliveries per second", "Deliveries per second")
	low, high := steps[0].Offered, 0.0
	for _, s := range steps {
		for _, v := range []float64{s.Offered, s.Achieved} {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	y := logScale(low, high)
	p.Y = upright(y.ticks(figure, plotTicks))
	sorted := slices.Clone(steps)
	slices.SortStableFunc(sorted, func(a, b *results.CapacityStep) int { return cmp.Compare(a.Load, b.Load) })
	for i, s := range sorted {
		if s.Achieved > 0 {
			p.add(s, x.at(s.Load), 100-y.at(s.Achieved), figure(s.Achieved)+" deliveries/s")
		}
		if i > 0 && s.Offered > 0 && sorted[i-1].Offered > 0 {
			p.Lines = append(
				p.Lines,
				plotLine{
					x.at(sorted[i-1].Load),
					round2(100 - y.at(sorted[i-1].Offered)),
					x.at(s.Load),
					round2(100 - y.at(s.Offered)),
					"due",
				},
			)
		}
	}
	p.Caption = "Marks are what was received in each step; the dashed line is what was due. Where marks leave the " +
		"line, the load was not carried: by the target in a failed step, perhaps by the generator in an unclear one."
	return p
}

func (p *plot) add(s *results.CapacityStep, x, y float64, text string) {
	class := stepClass(s)
	p.Points = append(
		p.Points,
		plotPoint{x, round2(y), class, stepShapes[class], fmt.Sprintf("step %d, load %s: %s, %s", s.Number, figure(s.Load), text, class)},
	)
}

// upright turns the ticks of an axis that goes upwards, with positions from the top.
func upright(ticks []tick) []tick {
	for i := range ticks {
		ticks[i].At = round2(100 - ticks[i].At)
	}
	return ticks
}

func (v *capacityView) law(c *results.Capacity) {
	l := c.Law
	if l == nil {
		if c.LawRefused != "" {
			v.Law = [][2]string{{"not fitted", Clean(c.LawRefused)}}
		}
		return
	}
	within := func(r results.CapacityRange) string {
		return fmt.Sprintf("%.4g, 95 %% interval %.4g to %.4g", r.Value, r.Low, r.High)
	}
	v.Law = [][2]string{
		{"N", "load / " + figure(l.Unit)},
		{"lambda, deliveries/s at N = 1", within(l.Lambda)},
		{"sigma, contention", within(l.Sigma)},
		{"kappa, coherency", within(l.Kappa)},
	}
	if l.Peak != nil {
		v.Law = append(v.Law, [2]string{"peak at", fmt.Sprintf("%s, in %.0f %% of the resamples", within(*l.Peak), 100*l.PeakShare)})
	}
	v.Law = append(v.Law, [2]string{"fit", lawFit(l)})
	for _, d := range l.Doubts {
		v.Doubts = append(v.Doubts, Clean(d))
	}
}

func (v *capacityView) costs(c *results.Capacity) {
	for _, r := range costRows {
		v.CostLabels = append(v.CostLabels, r.label)
	}
	for i := range c.Costs {
		l := &c.Costs[i]
		col := costColumn{Lane: Clean(l.Lane + " (" + l.Mode + ")"), Basis: basisText(l)}
		for _, r := range costRows {
			col.Cells = append(col.Cells, Clean(r.value(l)))
		}
		for _, m := range l.Missing {
			col.Missing = append(col.Missing, Clean(m))
		}
		v.Costs = append(v.Costs, col)
	}
}
