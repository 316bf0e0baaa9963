package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart is a chart of lines over one axis, drawn as SVG. It has a background of its own, so that it
// can be read on light and dark pages.
type chart struct {
	title  string
	x, y   axis
	series []series
}

// axis is one axis. Ends of 0 are chosen from the data; a logarithmic axis leaves out values that are
// not positive.
type axis struct {
	title string
	log   bool
	from  float64
	to    float64
	// ticks replaces the numbers of the axis by names, at 0, 1, 2, …
	names []string
}

// series is one line.
type series struct {
	name   string
	points []point
	// expected draws a thin dashed line without markers: what was computed, not measured
	expected bool
	// hue is the line's colour and marker, from 1; 0 = those of its place in the chart. What was
	// expected of a line has its colour.
	hue int
	// apart draws markers without a line between them
	apart bool
}

// point is a value, with the ends of its interval where low < high.
type point struct{ x, y, low, high float64 }

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

// scale maps values of an axis to pixels.
type scale struct {
	axis
	lo, hi   float64 // of the values, or of their logarithms
	from, to float64 // pixels
}

func newScale(a axis, values []float64, from, to float64) scale {
	s := scale{axis: a, lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to}
	for _, v := range append(values, a.from, a.to) {
		if (v == a.from || v == a.to) && v == 0 || !s.shows(v) {
			continue
		}
		s.lo, s.hi = min(s.lo, s.value(v)), max(s.hi, s.value(v))
	}
	switch {
	case s.lo > s.hi: // no values
		s.lo, s.hi = 0, 1
	case a.names != nil:
		s.lo, s.hi = -0.5, float64(len(a.names))-0.5
	case a.log:
		s.lo, s.hi = math.Floor(s.lo+1e-9), math.Ceil(s.hi-1e-9)
		if s.lo == s.hi {
			s.hi++
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
	if s.log {
		return math.Log10(v)
	}
	return v
}

func (s *scale) at(v float64) float64 {
	return s.from + (s.value(v)-s.lo)/(s.hi-s.lo)*(s.to-s.from)
}

func (s *scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.log || v > 0)
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

// tick is a labelled place on an axis.
type tick struct {
	at    float64
	label string
}

func (s *scale) ticks() []tick {
	var t []tick
	switch {
	case s.names != nil:
		for i, n := range s.names {
			t = append(t, tick{s.at(float64(i)), n})
		}
	case s.log:
		for e := s.lo; e <= s.hi; e++ {
			t = append(t, tick{s.at(math.Pow(10, e)), power(e)})
		}
	default:
		step := niceStep(s.hi - s.lo)
		for i := 0; s.lo+float64(i)*step <= s.hi+step/2; i++ {
			v := s.lo + float64(i)*step
			if math.Abs(v) < step/1e6 {
				v = 0
			}
			t = append(t, tick{s.at(v), short(v)})
		}
	}
	return t
}

// power writes a power of ten, the large ones short enough for an axis.
func power(e float64) string {
	switch v := math.Pow(10, e); {
	case v >= 1e6:
		return short(v/1e6) + " M"
	case v >= 1e5:
		return short(v/1e3) + " k"
	default:
		return short(v)
	}
}

// short writes v as number does, without zeros at the end.
func short(v float64) string {
	s := number(v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// svg draws the chart.
func (c chart) svg() []byte {
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
			if p.low < p.high {
				ys = append(ys, p.low, p.high)
			}
		}
	}
	height := chartHeight + legendLine*len(c.series)
	x, y := newScale(c.x, xs, left, chartWidth-right), newScale(c.y, ys, chartHeight-bottom, top)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="%s">`+"\n", chartWidth, height, chartWidth, height, html.EscapeString(c.title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	text(&b, left, 24, "start", "font-weight=\"600\" font-size=\"15\"", c.title)
	for _, t := range y.ticks() {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#e3e3e3"/>`+"\n", left, t.at, chartWidth-right)
		text(&b, left-8, t.at+4, "end", "", t.label)
	}
	for _, t := range x.ticks() {
		fmt.Fprintf(&b, `<path d="M%.1f %dv5" stroke="#555555"/>`+"\n", t.at, chartHeight-bottom)
		half := 4 * float64(len([]rune(t.label))) // so that the last label is not cut off
		text(&b, min(t.at, chartWidth-2-half), chartHeight-bottom+20, "middle", "", t.label)
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" stroke="#555555" fill="none"/>`+"\n", left, top, chartHeight-bottom, chartWidth-right)
	text(&b, (left+chartWidth-right)/2, chartHeight-bottom+42, "middle", "", c.x.title)
	text(&b, 0, 0, "middle", fmt.Sprintf(`transform="translate(16 %d) rotate(-90)"`, (top+chartHeight-bottom)/2), c.y.title)
	for i, s := range c.series {
		s.draw(&b, &x, &y, i)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// draw draws a line with its intervals, its markers, and its entry in the legend.
func (s series) draw(b *bytes.Buffer, x, y *scale, i int) {
	look := i
	if s.hue > 0 {
		look = s.hue - 1
	}
	hue, style := hues[look%len(hues)], `stroke-width="2"`
	if s.expected {
		style = `stroke-width="1.5" stroke-dasharray="6 4"`
	}
	var path strings.Builder
	move := "M"
	for _, p := range s.points {
		if !x.shows(p.x) || !y.shows(p.y) {
			move = "M" // a gap: nothing was measured here
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", move, x.at(p.x), y.at(p.y))
		move = "L"
	}
	if path.Len() > 0 && !s.apart {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" %s/>`+"\n", path.String(), hue, style)
	}
	legend := float64(chartHeight + legendLine*i + 6)
	fmt.Fprintf(b, `<path d="M%d %.1fh26" stroke="%s" %s/>`+"\n", left, legend, hue, style)
	text(b, left+34, legend+4, "start", "", s.name)
	if s.expected {
		return
	}
	marker(b, left+13, legend, hue, look)
	for _, p := range s.points {
		if !x.shows(p.x) || !y.shows(p.y) {
			continue
		}
		if p.low < p.high && y.shows(p.low) {
			fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`+"\n", x.at(p.x), y.at(p.low), y.at(p.high), hue)
		}
		marker(b, x.at(p.x), y.at(p.y), hue, look)
	}
}

// marker draws the mark of line i.
func marker(b *bytes.Buffer, x, y float64, hue string, i int) {
	paths := []string{
		"", // a circle
		"M%.1f %.1fm-4.5 -4.5h9v9h-9z",
		"M%.1f %.1fm0 -5.5l5.5 9.5h-11z",
		"M%.1f %.1fm0 -6l6 6l-6 6l-6 -6z",
		"M%.1f %.1fm0 5.5l5.5 -9.5h-11z",
		"M%.1f %.1fm-5 -2h3.5v-3.5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5z",
	}
	if p := paths[i%len(paths)]; p != "" {
		fmt.Fprintf(b, `<path d="`+p+`" fill="%s"/>`+"\n", x, y, hue)
		return
	}
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"/>`+"\n", x, y, hue)
}

func text(b *bytes.Buffer, x, y float64, anchor, more, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222" %s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}

// byX returns points in the order in which a line visits them.
func byX(points []point) []point {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return points
}
