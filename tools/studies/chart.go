package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chart is a chart of lines over one axis, drawn as SVG. It has a background of its own, so that it can
// be read on light and dark pages.
type chart struct {
	Name  string  `yaml:"name"`
	Title string  `yaml:"title"`
	X     axis    `yaml:"x"`
	Y     axis    `yaml:"y"`
	Lines []lines `yaml:"lines"`
}

// axis is one axis. A logarithmic one leaves out values that are not positive.
type axis struct {
	Title string `yaml:"title"`
	Log   bool   `yaml:"log"`
}

// lines are the lines of some rows: those with the same name are the points of one.
type lines struct {
	Select selection `yaml:",inline"`
	Line   string    `yaml:"line"`   // expression: the name
	X      string    `yaml:"x"`      // expression: a number
	Y      string    `yaml:"y"`      // expression: a number, or a list whose median is drawn with its range
	Dashed bool      `yaml:"dashed"` // what was computed, not measured
	Points bool      `yaml:"points"` // no line between them
}

// line is one line of a chart.
type line struct {
	name   string
	dashed bool
	apart  bool // without a line between the points
	points []point
}

type point struct{ x, y, low, high float64 }

// drawCharts draws the charts of a directory.
func drawCharts(dir string) error {
	s, d, err := read(dir)
	if err != nil {
		return err
	}
	env, err := s.environment(d)
	if err != nil {
		return err
	}
	for i := range s.Charts {
		svg, err := s.Charts[i].draw(env)
		if errors.Is(err, errNothing) && d.Only != "" {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, s.Charts[i].Name+".svg"), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *chart) draw(env map[string]any) ([]byte, error) {
	var all []line
	for i := range c.Lines {
		some, err := c.Lines[i].points(env)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.Name, err)
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("chart %s: %w", c.Name, errNothing)
	}
	return c.svg(all), nil
}

func (l *lines) points(env map[string]any) ([]line, error) {
	rows, err := l.Select.pick(env)
	if err != nil {
		return nil, err
	}
	var all []line
	for _, row := range rows {
		name, err := eval(l.Line, row)
		x, err2 := eval(l.X, row)
		y, err3 := eval(l.Y, row)
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		at, ok := number(x)
		values, too := list(y)
		if !ok || !too {
			return nil, fmt.Errorf("line %v: no number in x = %v, y = %v", name, x, y)
		}
		i := slices.IndexFunc(all, func(m line) bool { return m.name == fmt.Sprint(name) })
		if i < 0 {
			i = len(all)
			all = append(all, line{name: fmt.Sprint(name), dashed: l.Dashed, apart: l.Points})
		}
		median, low, high := middle(values)
		all[i].points = append(all[i].points, point{at, median, low, high})
	}
	for _, m := range all {
		slices.SortStableFunc(m.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	}
	return all, nil
}

// A chart's measures, in pixels.
const (
	chartWidth, chartHeight = 720, 400
	left, right             = 78, 16
	top, bottom             = 44, 56
	legendLine              = 18
)

// hues are those of Okabe and Ito, which people with any colour vision can tell apart; each line has a
// marker of its own as well.
var hues = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}

// markers are paths about the place of a point.
var markers = []string{
	"m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", // a circle
	"m-4.5 -4.5h9v9h-9z",
	"m0 -5.5l5.5 9.5h-11z",
	"m0 -6l6 6l-6 6l-6 -6z",
	"m0 5.5l5.5 -9.5h-11z",
	"m-5 -2h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
}

// scale maps values of an axis to pixels.
type scale struct {
	axis
	lo, hi   float64 // of the values, or of their logarithms
	from, to float64 // pixels
}

func newScale(a axis, values []float64, from, to float64) scale {
	s := scale{axis: a, lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if s.shows(v) {
			s.lo, s.hi = min(s.lo, s.value(v)), max(s.hi, s.value(v))
		}
	}
	switch {
	case s.lo > s.hi: // no values
		s.lo, s.hi = 0, 1
	case a.Log:
		s.lo, s.hi = math.Floor(s.lo+1e-9), math.Ceil(s.hi-1e-9)
		if s.lo >= s.hi {
			s.hi = s.lo + 1
		}
	default:
		s.lo = min(0, s.lo)
		if s.hi == s.lo {
			s.hi = s.lo + 1
		}
		step := niceStep(s.hi - s.lo)
		s.lo, s.hi = math.Floor(s.lo/step)*step, math.Ceil(s.hi/step-1e-9)*step
	}
	return s
}

func (s *scale) value(v float64) float64 {
	if s.Log {
		return math.Log10(v)
	}
	return v
}

func (s *scale) at(v float64) float64 {
	return s.from + (s.value(v)-s.lo)/(s.hi-s.lo)*(s.to-s.from)
}

func (s *scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.Log || v > 0)
}

// niceStep divides a range into four to eight parts of 1, 2 or 5 times a power of ten.
func niceStep(width float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(width/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if width/(m*power) <= 8 {
			return m * power
		}
	}
	return 10 * power
}

// ticks are the labelled places of an axis.
func (s *scale) ticks() (at []float64, labels []string) {
	add := func(v float64) { at, labels = append(at, s.at(v)), append(labels, tickText(v)) }
	if s.Log {
		for e := s.lo; e <= s.hi; e++ {
			add(math.Pow(10, e))
		}
		return at, labels
	}
	step := niceStep(s.hi - s.lo)
	for i := 0; s.lo+float64(i)*step <= s.hi+step/2; i++ {
		v := s.lo + float64(i)*step
		if math.Abs(v) < step/1e6 {
			v = 0
		}
		add(v)
	}
	return at, labels
}

// tickText writes large numbers short enough for an axis.
func tickText(v float64) string {
	switch {
	case v >= 1e6:
		return short(v/1e6) + " M"
	case v >= 1e5:
		return short(v/1e3) + " k"
	}
	return short(v)
}

// svg draws the chart.
func (c *chart) svg(all []line) []byte {
	var xs, ys []float64
	for _, l := range all {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y, p.low, p.high)
		}
	}
	height := chartHeight + legendLine*len(all)
	x := newScale(c.X, xs, left, chartWidth-right)
	y := newScale(c.Y, ys, chartHeight-bottom, top)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	text(&b, left, 24, "start", `font-weight="600" font-size="15"`, c.Title)
	at, labels := y.ticks()
	for i := range at {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#e3e3e3"/>`+"\n", left, at[i], chartWidth-right)
		text(&b, left-8, at[i]+4, "end", "", labels[i])
	}
	at, labels = x.ticks()
	for i := range at {
		fmt.Fprintf(&b, `<path d="M%.1f %dv5" stroke="#555555"/>`+"\n", at[i], chartHeight-bottom)
		half := 4 * float64(len([]rune(labels[i]))) // so that the last label is not cut off
		text(&b, min(at[i], chartWidth-2-half), chartHeight-bottom+20, "middle", "", labels[i])
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" stroke="#555555" fill="none"/>`+"\n", left, top, chartHeight-bottom, chartWidth-right)
	text(&b, (left+chartWidth-right)/2, chartHeight-bottom+42, "middle", "", c.X.Title)
	turned := fmt.Sprintf(`transform="translate(16 %d) rotate(-90)"`, (top+chartHeight-bottom)/2)
	text(&b, 0, 0, "middle", turned, c.Y.Title)
	for i, l := range all {
		l.draw(&b, &x, &y, i)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// draw draws line i with its ranges, its markers and its entry in the legend.
func (l *line) draw(b *bytes.Buffer, x, y *scale, i int) {
	hue, style := hues[i%len(hues)], `stroke-width="2"`
	if l.dashed {
		style = `stroke-width="1.5" stroke-dasharray="6 4"`
	}
	mark := func(x, y float64) {
		if !l.dashed {
			fmt.Fprintf(b, `<path d="M%.1f %.1f%s" fill="%s"/>`+"\n", x, y, markers[i%len(markers)], hue)
		}
	}
	legend := float64(chartHeight + legendLine*i + 6)
	fmt.Fprintf(b, `<path d="M%d %.1fh26" stroke="%s" %s/>`+"\n", left, legend, hue, style)
	text(b, left+34, legend+4, "start", "", l.name)
	mark(left+13, legend)
	var path strings.Builder
	move := "M"
	for _, p := range l.points {
		if !x.shows(p.x) || !y.shows(p.y) {
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", move, x.at(p.x), y.at(p.y))
		move = "L"
		if p.low < p.high && y.shows(p.low) && !l.dashed {
			fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`+"\n", x.at(p.x), y.at(p.low), y.at(p.high), hue)
		}
		mark(x.at(p.x), y.at(p.y))
	}
	if path.Len() > 0 && !l.apart {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" %s/>`+"\n", path.String(), hue, style)
	}
}

func text(b *bytes.Buffer, x, y float64, anchor, more, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222" %s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}
