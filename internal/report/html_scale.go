package report

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// Charts that need no script are SVG without a view box: positions along the width are in percent,
// so that a chart has the width of the screen and its text stays readable.

// scale places values on a logarithmic axis, from 0 to 100.
type scale struct{ low, high float64 }

// logScale is a scale that holds low to high, with some room at both ends.
func logScale(low, high float64) scale {
	if !(low > 0) {
		low = 1
	}
	high = max(high, low)
	if high < 2*low { // one value, or nearly
		low, high = low/1.5, high*1.5
	}
	const room = 1.08
	return scale{low / room, high * room}
}

// at is the position of v, which is moved to an end if it lies outside.
func (s scale) at(v float64) float64 {
	low, high := math.Log(s.low), math.Log(s.high)
	return round2(100 * min((math.Log(max(v, s.low))-low)/(high-low), 1))
}

// tick is a named position of an axis.
type tick struct {
	At     float64
	Text   string
	Anchor string // of its text
}

// ticks are at most most round values of the scale.
func (s scale) ticks(say func(float64) string, most int) []tick {
	var out []tick
	for _, v := range s.rounds(most) {
		t := tick{At: s.at(v), Text: say(v), Anchor: "middle"}
		switch {
		case t.At < 6:
			t.Anchor = "start"
		case t.At > 94:
			t.Anchor = "end"
		}
		out = append(out, t)
	}
	return out
}

func (s scale) rounds(most int) []float64 {
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		if out := s.powers(steps, 1); len(out) <= most {
			return out
		}
	}
	for every := 2; ; every++ {
		if out := s.powers([]float64{1}, every); len(out) <= most {
			return out
		}
	}
}

// powers are the multiples of every n-th power of ten within the scale.
func (s scale) powers(of []float64, every int) []float64 {
	var out []float64
	for e := int(math.Floor(math.Log10(s.low))); e <= int(math.Ceil(math.Log10(s.high))); e++ {
		if e%every != 0 {
			continue
		}
		for _, k := range of {
			if v := k * math.Pow(10, float64(e)); v >= s.low && v <= s.high {
				out = append(out, v)
			}
		}
	}
	return out
}

func round2(v float64) float64 { return math.Round(v*100) / 100 }

// shapes are outlines around the origin, in a square of 12 units. A lane is known by its shape as
// well as by its colour: shape n goes with colour n.
var shapes = [hues]string{
	"M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z",
	"M-4.5-4.5H4.5V4.5H-4.5Z",
	"M0-5.5L5.5 4.5H-5.5Z",
	"M0-6L6 0 0 6-6 0Z",
	"M0 5.5L5.5-4.5H-5.5Z",
	"M-1.8-5.5H1.8V-1.8H5.5V1.8H1.8V5.5H-1.8V1.8H-5.5V-1.8H-1.8Z",
	"M-5.1-2.7L-2.7-5.1 0-2.4 2.7-5.1 5.1-2.7 2.4 0 5.1 2.7 2.7 5.1 0 2.4-2.7 5.1-5.1 2.7-2.4 0Z",
	"M0-6L1.6-1.9 6-1.9 2.5.8 3.8 5 0 2.5-3.8 5-2.5.8-6-1.9-1.6-1.9Z",
}

// mark is the mark of a lane, by its colour.
func mark(hue int) template.HTML {
	return template.HTML(
		fmt.Sprintf(`<svg class="mark hue%d" viewBox="-6 -6 12 12" aria-hidden="true"><path d="%s"/></svg>`, hue, shapes[hue%hues]),
	)
}

// outline is the outline of a shape.
func outline(n int) string { return shapes[n%hues] }

// right reports whether the column of that name holds numbers.
func right(column string) bool {
	return column != "purpose" && column != "verdict" && column != "machine" && column != "step"
}

// spaced writes a space before each percent sign, as everywhere on the pages.
func spaced(text string) string { return percentSign.ReplaceAllString(text, "$1 %") }

var percentSign = regexp.MustCompile(`([0-9])%`)

// strips show how the latencies of lanes are distributed, on one logarithmic axis.
type strips struct {
	Strips []strip
	Ticks  []tick
	// Limits names the resolution limits of the runs.
	Limits string
}

// strip is the distribution of one lane: bars from the middle, as high as their share of the
// deliveries.
type strip struct {
	Column   column
	Bars     []stripBar
	P50, P99 float64 // positions
	Limit    float64 // position of the resolution limit of its run, 0 = left of the axis
	Text     string
}

type stripBar struct{ X, W, Y, H float64 }

// A strip has stripBins bars on a height of stripHeight pixels.
const (
	stripBins   = 72
	stripHeight = 36
	stripTicks  = 7
)

// stripsOf returns the strips of the lanes that have a log. Its latencies are scheduled → received.
func stripsOf(columns []column, runs []Page) *strips {
	type known struct {
		column  column
		buckets []results.Bucket
	}
	var all []known
	low, high := math.Inf(1), 0.0
	for _, c := range columns {
		p := &runs[c.run]
		b := merge(p.Logs[p.Result.Lanes[c.place].Name], results.TagIntended, func(time.Duration) bool { return true })
		if len(b) == 0 {
			continue
		}
		all = append(all, known{c, b})
		low, high = min(low, float64(max(b[0].Value, 1))), max(high, float64(b[len(b)-1].Value))
	}
	if all == nil {
		return nil
	}
	axis := logScale(low, high)
	out := &strips{Ticks: axis.ticks(nanosText, stripTicks)}
	var limits []string
	for i := range runs {
		if limit := runs[i].Result.Generator.ReadDelay.P99; limit > 0 {
			limits = append(limits, limit.String())
		}
	}
	out.Limits = strings.Join(limits, ", ")
	for _, k := range all {
		strip := newStrip(k.column, k.buckets, axis)
		if limit := runs[k.column.run].Result.Generator.ReadDelay.P99; limit > 0 {
			strip.Limit = axis.at(float64(limit))
		}
		out.Strips = append(out.Strips, strip)
	}
	return out
}

func newStrip(c column, buckets []results.Bucket, axis scale) strip {
	var bins [stripBins]int64
	for _, b := range buckets {
		n := int(axis.at(float64(b.Value)) / 100 * stripBins)
		bins[min(n, stripBins-1)] += b.Count
	}
	var most int64
	for _, n := range bins {
		most = max(most, n)
	}
	p50, p99, last := at(buckets, 50), at(buckets, 99), buckets[len(buckets)-1].Value
	s := strip{
		Column: c, P50: axis.at(float64(p50)), P99: axis.at(float64(p99)),
		Text: fmt.Sprintf("p50 %s, p99 %s, max %s", p50, p99, last),
	}
	const width = 100.0 / stripBins
	for i, n := range bins {
		if n == 0 {
			continue
		}
		// The square root lets single deliveries be seen beside thousands.
		h := round2(max(2, (stripHeight-4)*math.Sqrt(float64(n)/float64(most))))
		s.Bars = append(s.Bars, stripBar{X: round2(float64(i) * width), W: round2(width + 0.05), Y: round2((stripHeight - h) / 2), H: h})
	}
	return s
}

// nanosText names a round latency on an axis: 5ms, 0.2s.
func nanosText(v float64) string {
	text := results.Nanos(math.Round(v)).String()
	unit := unitOf(text)
	if number := strings.TrimSuffix(text, unit); strings.Contains(number, ".") {
		return strings.TrimRight(strings.TrimRight(number, "0"), ".") + unit
	}
	return text
}

// hues is the number of colours in the page's style; further lanes reuse them.
const hues = 8

// modeHues are the colours of the modes. The first lane of a mode has the mode's colour, so that a
// mode looks the same in every report.
var modeHues = map[string]int{"push": 0, "poll": 1, "webhook": 2}

// huesOf assigns a colour to each lane name: the same in every run, and different from the other
// lanes of its runs as long as there are unused colours.
func huesOf(runs []Page) map[string]int {
	out := map[string]int{}
	beside := map[string]map[string]bool{} // lanes of the same runs
	for i := range runs {
		for _, a := range runs[i].Result.Lanes {
			if beside[a.Name] == nil {
				beside[a.Name] = map[string]bool{}
			}
			for _, b := range runs[i].Result.Lanes {
				beside[a.Name][b.Name] = true
			}
		}
	}
	next := 0
	for i := range runs {
		for _, l := range runs[i].Result.Lanes {
			if _, known := out[l.Name]; known {
				continue
			}
			taken := map[int]bool{}
			for name := range beside[l.Name] {
				if h, known := out[name]; known {
					taken[h] = true
				}
			}
			h, ok := modeHues[l.Mode]
			// The modes' colours come last: a later lane may need its own.
			for _, other := range []int{3, 4, 5, 6, 7, 0, 1, 2} {
				if ok && !taken[h] {
					break
				}
				h, ok = other, true
			}
			if mode, known := modeHues[l.Mode]; taken[h] { // all are taken
				if h = mode; !known {
					h = next % hues
					next++
				}
			}
			out[l.Name] = h
		}
	}
	return out
}
