package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/bench"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/sinks"
)

// frames makes the pictures of a run on its way, one after another. It is not
// safe for concurrent use.
type frames struct {
	name   string
	modes  map[string]string // by lane
	colour bool

	phases []string // so far, in order
	lanes  map[string]*laneTrace
}

// laneTrace is what a lane's line remembers.
type laneTrace struct {
	points    []time.Duration // p99, a point for each traceEvery; -1 = nothing came
	at        time.Time       // of the newest point
	delivered int64           // by then
	rate      float64         // per second, since
}

const (
	traceEvery  = 500 * time.Millisecond
	tracePoints = 24
)

// The colours, for those who have not asked for none.
const (
	plainText = "\x1b[0m"
	bold      = "\x1b[1m"
	dim       = "\x1b[2m"
	red       = "\x1b[31m"
)

// modeColours come as near to those of the HTML report as sixteen colours do.
// Nothing else has them.
var modeColours = map[string]string{"push": "\x1b[94m", "poll": "\x1b[33m", "webhook": "\x1b[32m"}

// laneColumns are the figures of a lane's line. A narrow terminal has those that
// it has room for: half a number would be a wrong one.
var laneColumns = []struct {
	head  string
	width int
	from  int // shown on terminals of at least that many columns
	value func(l *sinks.LiveLane, t *laneTrace) string
}{
	{"open", 9, 44, func(l *sinks.LiveLane, _ *laneTrace) string { return fmt.Sprint(l.Open) }},
	{"delivered", 11, 35, func(l *sinks.LiveLane, _ *laneTrace) string { return fmt.Sprint(l.Delivered) }},
	{"per s", 9, 53, func(_ *sinks.LiveLane, t *laneTrace) string { return fmt.Sprintf("%.0f", t.rate) }},
	{"p50", 9, 62, func(l *sinks.LiveLane, _ *laneTrace) string { return latency(l.Recent, l.Recent.P50) }},
	{"p99", 9, 24, func(l *sinks.LiveLane, _ *laneTrace) string { return latency(l.Recent, l.Recent.P99) }},
}

// laneWidth is what a lane's line takes with all columns, without the drawing.
const laneWidth = 14 + 9 + 11 + 9 + 9 + 9

func (f *frames) paint(colour, text string) string {
	if !f.colour || text == "" {
		return text
	}
	return colour + text + plainText
}

// next is the picture of p, each line at most width columns wide.
func (f *frames) next(p bench.Progress, width int, now time.Time) []string {
	errtext.CleanAll(&p)
	name := phaseName(p)
	if len(f.phases) == 0 || f.phases[len(f.phases)-1] != name {
		f.phases = append(f.phases, name)
	}
	head := fmt.Sprintf("  %-12s", "lane")
	for _, c := range laneColumns {
		if width >= c.from {
			head += fmt.Sprintf("%*s", c.width, c.head)
		}
	}
	out := []string{f.path(), f.progress(p, width), f.paint(dim, head)}
	if p.Trouble != "" {
		out = append(out, f.paint(red, "  "+p.Trouble))
	}
	for _, l := range p.Live.Lanes {
		out = append(out, f.lane(l, width, now))
		if t := troubles(l); t != "" {
			out = append(out, "    "+f.paint(red, t))
		}
	}
	for i, l := range out {
		out[i] = cut(l, width-1)
	}
	return out
}

func phaseName(p bench.Progress) string {
	if p.Lane != "" {
		return p.Lane + " " + p.Phase
	}
	return p.Phase
}

// path is what is over, and what is going on. Where lanes take turns it would
// grow beyond any terminal, so it shows the newest.
func (f *frames) path() string {
	done := f.phases[:len(f.phases)-1]
	var b strings.Builder
	b.WriteString(f.paint(bold, f.name))
	if len(done) > 4 {
		b.WriteString("  …")
	}
	for _, p := range done[max(0, len(done)-4):] {
		b.WriteString("  " + "✓" + " " + f.paint(dim, p))
	}
	b.WriteString("  " + f.paint(bold, "▸ "+f.phases[len(f.phases)-1]))
	return b.String()
}

func (f *frames) progress(p bench.Progress, width int) string {
	left := "  "
	if rest := p.Limit - p.Elapsed; rest > 0 {
		left = fmt.Sprintf("  %4.0f s left  ", rest.Seconds())
	}
	return "  " + f.bar(p.Elapsed, p.Limit, min(30, width/3)) + left + emissionsText(p.Live)
}

// bar fills as done nears whole.
func (f *frames) bar(done, whole time.Duration, width int) string {
	if whole <= 0 || width < 4 {
		return ""
	}
	n := int(min(1, max(0, float64(done)/float64(whole))) * float64(width))
	return strings.Repeat("━", n) + f.paint(dim, strings.Repeat("─", width-n))
}

func (f *frames) lane(l sinks.LiveLane, width int, now time.Time) string {
	t := f.trace(l, now)
	name := l.Name
	if utf8.RuneCountInString(name) > 12 {
		name = string([]rune(name)[:11]) + "…"
	}
	line := "  " + f.paint(modeColours[f.modes[l.Name]], fmt.Sprintf("%-12s", name))
	for _, c := range laneColumns {
		if width >= c.from {
			line += fmt.Sprintf("%*s", c.width, c.value(&l, t))
		}
	}
	if room := width - 1 - laneWidth - 2; room >= 8 {
		line += "  " + f.paint(modeColours[f.modes[l.Name]], spark(t.points[max(0, len(t.points)-room):]))
	}
	return line
}

// trace adds a point to a lane's line where it is time for one.
func (f *frames) trace(l sinks.LiveLane, now time.Time) *laneTrace {
	if f.lanes == nil {
		f.lanes = map[string]*laneTrace{}
	}
	t := f.lanes[l.Name]
	if t == nil {
		t = &laneTrace{at: now, delivered: l.Delivered}
		f.lanes[l.Name] = t
		return t
	}
	since := now.Sub(t.at)
	if since < traceEvery {
		return t
	}
	p := time.Duration(-1)
	if l.Recent.Count > 0 {
		p = l.Recent.P99
	}
	t.rate = float64(l.Delivered-t.delivered) / since.Seconds()
	t.at, t.delivered = now, l.Delivered
	t.points = append(t.points, p)
	if n := len(t.points) - tracePoints; n > 0 {
		t.points = slices.Delete(t.points, 0, n)
	}
	return t
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// spark draws points against the largest of them, from the first on at which
// anything came; a gap where nothing did.
func spark(points []time.Duration) string {
	for len(points) > 0 && points[0] < 0 {
		points = points[1:]
	}
	if len(points) == 0 {
		return ""
	}
	top := max(slices.Max(points), 1)
	out := make([]rune, len(points))
	for i, p := range points {
		if p < 0 {
			out[i] = ' '
			continue
		}
		out[i] = sparks[min(int(float64(p)/float64(top)*float64(len(sparks))), len(sparks)-1)]
	}
	return string(out)
}

// shown is how many columns a line takes, without its escape codes.
func shown(line string) (n int) {
	inside := false
	for _, c := range line {
		switch {
		case c == '\x1b':
			inside = true
		case inside:
			inside = c != 'm'
		default:
			n++
		}
	}
	return n
}

// cut shortens a line to width columns; its escape codes stay whole.
func cut(line string, width int) string {
	if shown(line) <= width {
		return line
	}
	var b strings.Builder
	n, inside, painted := 0, false, false
	for _, c := range line {
		switch {
		case c == '\x1b':
			inside, painted = true, true
		case inside:
			inside = c != 'm'
		default:
			if n++; n > width {
				continue
			}
		}
		b.WriteRune(c)
	}
	if painted {
		b.WriteString(plainText)
	}
	return b.String()
}
