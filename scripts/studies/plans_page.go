package main

import (
	"fmt"
	"math"
	"strings"
)

// What was expected before the first measurement. The page says what of it held.
const (
	plansWithin = 0.15 // of what was measured, for CPU and memory
	wireWithin  = 0.05 // for bytes, which are counted
	plansHeld   = 0.90 // share of the 95 % intervals that hold what was measured; 30 are too few to ask for 0.95
)

// plansFigure is a figure that is predicted.
type plansFigure struct {
	name, unit string
	of         func(*plannedPoint) prediction
	per        float64 // in the unit of the page
	within     float64
	log        bool // the chart's axes
}

var plansFigures = []plansFigure{
	{"CPU", "cores", func(p *plannedPoint) prediction { return p.CPU }, 1, plansWithin, true},
	{"memory", "MiB", func(p *plannedPoint) prediction { return p.Memory }, 1 << 20, plansWithin, false},
	{"bytes from subscribers", "KiB/s", func(p *plannedPoint) prediction { return p.Up }, 1 << 10, wireWithin, false},
	{"bytes to subscribers", "KiB/s", func(p *plannedPoint) prediction { return p.Down }, 1 << 10, wireWithin, false},
}

// off is the error as a share of what was measured: above 0, the prediction was too high. It is NaN where
// nothing was measured, as for what subscribers to a stream send.
func (p prediction) off() float64 {
	if p.Measured == 0 {
		return math.NaN()
	}
	return p.Value/p.Measured - 1
}

// holds says whether the interval has what was measured.
func (p prediction) holds() bool { return p.Low <= p.Measured && p.Measured <= p.High }

// plansCount is how a figure came out.
type plansCount struct {
	all, within, held int
	worst             float64 // error, with its sign
	where             string
}

// counted counts the predictions of a figure, of one mode or of all (mode "").
func (s *plans) counted(f *plansFigure, mode string) (c plansCount) {
	for i := range s.Modes {
		m := &s.Modes[i]
		if mode != "" && m.Mode != mode {
			continue
		}
		for j := range m.Points {
			v := f.of(&m.Points[j])
			off := v.off()
			if math.IsNaN(off) {
				continue
			}
			c.all++
			if math.Abs(off) <= f.within {
				c.within++
			}
			if v.holds() {
				c.held++
			}
			if math.Abs(off) > math.Abs(c.worst) || c.where == "" {
				c.worst, c.where = off, fmt.Sprintf("%s with %s subscriptions", m.Mode, count(m.Points[j].Subscriptions))
			}
		}
	}
	return c
}

// signed writes a share as percent with its sign.
func signed(v float64) string { return strings.ReplaceAll(fmt.Sprintf("%+.1f %%", v*100), "-", "−") }

func (s *plans) write(p *page) {
	cpu, memory := s.counted(&plansFigures[0], ""), s.counted(&plansFigures[1], "")
	p.answer("**%d of %d predictions of CPU and %d of %d of memory were within %g %% of what was then measured**, at loads that no search had. The furthest were %s of CPU (%s) and %s of memory (%s). %d of these %d figures were inside their 95 %% intervals.",
		cpu.within, cpu.all, memory.within, memory.all, plansWithin*100, signed(cpu.worst), cpu.where, signed(memory.worst), memory.where, cpu.held+memory.held, cpu.all+memory.all)
	p.heading("What was measured")
	var rows [][]string
	for i := range s.Modes {
		for _, q := range s.Modes[i].Searches {
			rows = append(rows, []string{s.Modes[i].Mode, count(q.Subscriptions), short(float64(q.Subscriptions) / float64(q.Sources)), short(q.From) + " to " + short(q.To), count(q.Steps)})
		}
	}
	p.text("For each mode, `eventmeter capacity` searched three times, and `eventmeter plan` predicted five other loads from the three cost sheets. Then these loads were run, %d times each, on a fresh server each time. Their numbers of subscriptions, events and deliveries are other ones; the TTL of webhooks is half as long again. CPU, memory and bytes are means of the runs.", s.Repeats)
	p.table([]string{"searches", "subscriptions", "fan-out", "events/s", "steps"}, rows)
	p.heading("Predicted and measured")
	for i := range plansFigures[:2] {
		f := &plansFigures[i]
		p.chart(f.name, "predicted against measured "+f.name, s.against(f))
	}
	s.table(p)
	p.text("An error above 0 means that the prediction was too high. Rates include the drain, in which nothing is published.")
	p.heading("What was expected before")
	s.hypotheses(p)
	p.changesIt("Another server: the reference server is a Go program that keeps everything in memory. The model of `plan` is the same for all, its costs are measured, and its shape may not fit: repeat this with your own searches and one run.")
	p.changesIt("A load far outside the searches. `plan` widens its intervals there, and warns above three times what was measured.")
	p.changesIt("A machine whose speed changes. On a virtual machine, equal loads took up to 1.7 times the CPU time of an hour before, and plans made from searches at such a time were up to 71 %% too high for runs after it.")
}

// against draws predictions with their intervals over what was measured.
func (s *plans) against(f *plansFigure) chart {
	ch := chart{title: "Predicted and measured " + f.name + " of the server", x: axis{title: "measured, " + f.unit, log: f.log}, y: axis{title: "predicted, " + f.unit + ", 95 % interval", log: f.log}}
	least, most := math.Inf(1), 0.0
	for i := range s.Modes {
		line := series{name: s.Modes[i].Mode, hue: i + 1, apart: true}
		for j := range s.Modes[i].Points {
			v := f.of(&s.Modes[i].Points[j])
			x := v.Measured / f.per
			least, most = min(least, x), max(most, x)
			line.points = append(line.points, point{x: x, y: v.Value / f.per, low: v.Low / f.per, high: v.High / f.per})
		}
		ch.series = append(ch.series, line)
	}
	ch.series = append(ch.series, series{name: "as measured", expected: true, hue: 7, points: []point{{x: least, y: least}, {x: most, y: most}}},
		series{name: fmt.Sprintf("± %g %%", f.within*100), expected: true, hue: 8, points: []point{
			{x: least, y: least * (1 - f.within)}, {x: most, y: most * (1 - f.within)}, {x: math.NaN()}, {x: least, y: least * (1 + f.within)}, {x: most, y: most * (1 + f.within)}}})
	return ch
}

func (s *plans) table(p *page) {
	var rows [][]string
	for i := range s.Modes {
		m := &s.Modes[i]
		for j := range m.Points {
			q := &m.Points[j]
			row := []string{m.Mode, count(q.Subscriptions), number(q.Rate), number(q.FanOut)}
			for k := range plansFigures {
				f := &plansFigures[k]
				v := f.of(q)
				if math.IsNaN(v.off()) {
					row = append(row, "–", "–")
					continue
				}
				text := signed(v.off())
				if !v.holds() {
					text += " ¹"
				}
				row = append(row, number(v.Measured/f.per), text)
			}
			rows = append(rows, row)
		}
	}
	head := []string{"mode", "subscriptions", "events/s", "fan-out"}
	for k := range plansFigures {
		head = append(head, plansFigures[k].name+", "+plansFigures[k].unit, "error")
	}
	p.table(head, rows)
	p.text("¹ Outside the 95 %% interval of the prediction.")
}

func (s *plans) hypotheses(p *page) {
	var rows [][]string
	add := func(what string, ok bool, found string) { rows = append(rows, []string{what, held(ok), found}) }
	inside, all := 0, 0
	for i := range plansFigures {
		f := &plansFigures[i]
		c := s.counted(f, "")
		inside, all = inside+c.held, all+c.all
		var by []string
		for j := range s.Modes {
			if of := s.counted(f, s.Modes[j].Mode); of.all > 0 {
				by = append(by, fmt.Sprintf("%s %d of %d", s.Modes[j].Mode, of.within, of.all))
			}
		}
		add(fmt.Sprintf("Predictions of %s are within %g %%", f.name, f.within*100), c.all > 0 && c.within == c.all, fmt.Sprintf("%s; furthest %s, %s", strings.Join(by, ", "), signed(c.worst), c.where))
	}
	add(fmt.Sprintf("%g %% of the 95 %% intervals have what was measured", plansHeld*100), all > 0 && float64(inside) >= plansHeld*float64(all), fmt.Sprintf("%d of %d", inside, all))
	lost := int64(0)
	for i := range s.Modes {
		for j := range s.Modes[i].Points {
			lost += s.Modes[i].Points[j].Lost
		}
	}
	add("Nothing is lost at these loads", lost == 0, count(lost)+" lost")
	p.table([]string{"expected", "verdict", "found"}, rows)
}
