package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// view shows the progress of a run: a block that is redrawn in place on a terminal,
// and plain lines elsewhere or with --plain.
type view struct {
	w io.Writer
	viewOptions
	terminal int // file descriptor, -1 where plain lines are written
	frames   frames

	mu    sync.Mutex
	drawn []int // the widths of the lines of the block
	phase string
	said  string // the trouble of the target that was printed last
	last  time.Time
	kept  keptPhase
}

// plainEvery is the time between two lines if the output is no terminal.
const plainEvery = 2 * time.Second

// viewOptions are the flags of a view.
type viewOptions struct{ quiet, plain, verbose bool }

func newView(w io.Writer, p *profiles.Profile, o viewOptions) *view {
	v := &view{w: w, viewOptions: o, terminal: -1, frames: frames{name: report.Clean(p.Name), modes: map[string]string{}}}
	for _, l := range p.Lanes {
		v.frames.modes[l.Name] = l.Mode
	}
	if fd, ok := terminalOf(w); ok && !o.plain {
		v.terminal = fd
		v.frames.ink = inkOf(w)
	}
	return v
}

// terminalOf returns the file descriptor of a terminal that can be drawn on.
func terminalOf(w io.Writer) (fd int, ok bool) {
	if o, is := w.(*output); is {
		w = o.w
	}
	f, is := w.(interface{ Fd() uintptr })
	if !is || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return -1, false
	}
	return int(f.Fd()), true
}

// inkOf paints on terminals, unless NO_COLOR is set.
func inkOf(w io.Writer) report.Ink {
	_, ok := terminalOf(w)
	return report.Ink{On: ok && os.Getenv("NO_COLOR") == ""}
}

// update shows p.
func (v *view) update(p run.Progress) {
	if v.quiet || p.Phase == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.verbose {
		v.keep(p)
	}
	if v.terminal >= 0 {
		v.draw(func(width, height int) []string { return fit(v.frames.next(p, width, time.Now()), height) })
		return
	}
	if p.Trouble != v.said {
		if v.said = p.Trouble; v.said != "" {
			fmt.Fprintln(v.w, report.Clean(v.said))
		}
	}
	if p.Phase == v.phase && time.Since(v.last) < plainEvery {
		return
	}
	v.phase, v.last = p.Phase, time.Now()
	fmt.Fprintln(v.w, strings.Join(v.line(p), "  "))
}

// keep prints a line about a phase that is over, which stays.
func (v *view) keep(p run.Progress) {
	name := phaseName(p)
	if name == v.kept.phase {
		v.kept.last = p
		return
	}
	if was := v.kept; was.phase != "" {
		v.clear()
		var open, delivered int64
		for _, l := range was.last.Live.Lanes {
			open, delivered = open+l.Open, delivered+l.Delivered
		}
		fmt.Fprintf(v.w, "%s  %-10s %7s  %d open, %s, %d delivered\n", time.Now().Format("15:04:05.000"), report.Clean(was.phase),
			results.Nanos(was.last.Elapsed), open, emissionsText(was.last.Live), delivered)
	}
	v.kept = keptPhase{name, p}
}

// keptPhase is the phase that goes on, and its newest progress.
type keptPhase struct {
	phase string
	last  run.Progress
}

// close removes the block, so that the report stands alone.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	flush(v.w)
}

// clear removes the block, where there is one.
func (v *view) clear() {
	if v.terminal >= 0 {
		v.draw(func(_, _ int) []string { return nil })
	}
}

// draw replaces the block that was drawn before.
func (v *view) draw(block func(width, height int) []string) {
	width, height, err := term.GetSize(v.terminal)
	if err != nil || width < 20 {
		width = 80
	}
	lines := block(width, height)
	var b strings.Builder
	if n := rows(v.drawn, width); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", n)
	}
	b.WriteString("\r\x1b[J")
	v.drawn = v.drawn[:0]
	for _, l := range lines {
		b.WriteString(l + "\n")
		v.drawn = append(v.drawn, shown(l))
	}
	_, _ = io.WriteString(v.w, b.String())
}

// fit cuts a block to the height of the terminal, because lines that have scrolled
// out cannot be redrawn. One line is left for the cursor. A height of 0 means that it
// is not known.
func fit(lines []string, height int) []string {
	room := height - 1
	if height <= 0 || len(lines) <= room || room < 1 {
		return lines
	}
	return append(lines[:room-1:room-1], fmt.Sprintf("  … %d more lines", len(lines)-room+1))
}

// rows returns how many lines of the terminal a drawn block takes now: lines wrap if
// the terminal has become narrower.
func rows(widths []int, width int) (n int) {
	for _, w := range widths {
		n += max(1, (w+width-1)/width)
	}
	return n
}

func (v *view) line(p run.Progress) []string {
	errtext.CleanAll(&p)
	out := []string{phaseText(p), emissionsText(p.Live)}
	for _, l := range p.Live.Lanes {
		text := fmt.Sprintf("%s: %d open, %d delivered, p99 %s %s", l.Name, l.Open, l.Delivered, latency(l.Recent, l.Recent.P99), troubles(l))
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

func phaseText(p run.Progress) string {
	text := phaseName(p)
	if left := p.Limit - p.Elapsed; left > 0 {
		text += fmt.Sprintf(" %.0fs left", left.Seconds())
	}
	if p.Until != "" && p.Phase == "measure" {
		text += " at most, until " + p.Until
	}
	return text
}

func emissionsText(l ledger.Live) string {
	text := fmt.Sprintf("%d events published", l.Measured.Fired)
	if l.Measured.Fired == 0 && l.WarmUp.Fired > 0 {
		text = fmt.Sprintf("%d events published to warm up", l.WarmUp.Fired)
	}
	if bad := l.Measured.Uncertain + l.Measured.Refused; bad > 0 {
		text += fmt.Sprintf(", %d failed", bad)
	}
	if l.Measured.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", l.Measured.Dropped)
	}
	return text
}

// troubles lists the counts of trouble that are not 0.
func troubles(l ledger.LiveLane) string {
	var out []string
	for _, t := range []struct {
		n    int64
		what string
	}{
		{l.Failed + l.Broken, "failed"}, {l.Holes, "missing"}, {l.Duplicates.Total(), "duplicates"},
		{l.OutOfOrder, "out of order"}, {l.OrderConflicts, "in another order"}, {l.Unexpected.Total(), "unexpected"},
		{l.Reconnects, "reconnects"},
	} {
		if t.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", t.n, t.what))
		}
	}
	return strings.Join(out, ", ")
}

func latency(q ledger.Quantiles, d time.Duration) string {
	if q.Count == 0 {
		return "–"
	}
	return results.Nanos(d).String()
}

// frames renders the successive views of a run in progress. It is not safe for
// concurrent use.
type frames struct {
	name  string
	modes map[string]string // by lane
	ink   report.Ink

	phases []string // so far, in order
	lanes  map[string]*laneTrace
}

// laneTrace is the history that a lane's line shows.
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

// laneColumns are the figures of a lane's line. A narrow terminal shows only the
// columns that fit, because a number that is cut off would be wrong.
var laneColumns = []struct {
	head  string
	width int
	from  int // shown on terminals of at least that many columns
	value func(l *ledger.LiveLane, t *laneTrace) string
}{
	{"open", 9, 44, func(l *ledger.LiveLane, _ *laneTrace) string { return fmt.Sprint(l.Open) }},
	{"delivered", 11, 35, func(l *ledger.LiveLane, _ *laneTrace) string { return fmt.Sprint(l.Delivered) }},
	{"per s", 9, 53, func(_ *ledger.LiveLane, t *laneTrace) string { return fmt.Sprintf("%.0f", t.rate) }},
	{"p50", 9, 62, func(l *ledger.LiveLane, _ *laneTrace) string { return latency(l.Recent, l.Recent.P50) }},
	{"p99", 9, 24, func(l *ledger.LiveLane, _ *laneTrace) string { return latency(l.Recent, l.Recent.P99) }},
}

// laneWidth is the width of a lane's line with all columns but the chart.
const laneWidth = 14 + 9 + 11 + 9 + 9 + 9

// leastChart is the width of the narrowest chart.
const leastChart = 8

// next renders p in lines of at most width columns.
func (f *frames) next(p run.Progress, width int, now time.Time) []string {
	errtext.CleanAll(&p)
	name := phaseName(p)
	if len(f.phases) == 0 || f.phases[len(f.phases)-1] != name {
		f.phases = append(f.phases, name)
	}
	for _, l := range p.Live.Lanes {
		f.trace(l, now)
	}
	top := f.top()
	head := fmt.Sprintf("  %-12s", "lane")
	for _, c := range laneColumns {
		if width >= c.from {
			head += fmt.Sprintf("%*s", c.width, c.head)
		}
	}
	if width-1-laneWidth-2 >= leastChart {
		head += "  p99"
		if top > 0 {
			head += ", █ = " + results.Nanos(top).String()
		}
	}
	out := []string{f.path(), f.progress(p, width), f.ink.Dim(head)}
	if p.Until != "" && p.Phase == "measure" {
		out = append(out, f.ink.Dim("  until "+p.Until))
	}
	if p.Trouble != "" {
		out = append(out, f.ink.Bad("  "+p.Trouble))
	}
	for _, l := range p.Live.Lanes {
		out = append(out, f.lane(l, width, top))
		if t := troubles(l); t != "" {
			out = append(out, "    "+f.ink.Bad(t))
		}
	}
	for i, l := range out {
		out[i] = cut(l, width-1)
	}
	return out
}

func phaseName(p run.Progress) string {
	if p.Lane != "" {
		return p.Lane + " " + p.Phase
	}
	return p.Phase
}

// path lists the phases that are over and the current one. If lanes take turns, the
// list outgrows any terminal, so it shows the newest ones.
func (f *frames) path() string {
	done := f.phases[:len(f.phases)-1]
	var b strings.Builder
	b.WriteString(f.ink.Bold(f.name))
	if len(done) > 4 {
		b.WriteString("  …")
	}
	for _, p := range done[max(0, len(done)-4):] {
		b.WriteString("  ✓ " + f.ink.Dim(p))
	}
	b.WriteString("  " + f.ink.Bold("▸ "+f.phases[len(f.phases)-1]))
	return b.String()
}

func (f *frames) progress(p run.Progress, width int) string {
	left := "  "
	if rest := p.Limit - p.Elapsed; rest > 0 {
		left = fmt.Sprintf("  %4.0f s left  ", rest.Seconds())
	}
	return "  " + f.bar(p.Elapsed, p.Limit, min(30, width/3)) + left + emissionsText(p.Live)
}

// bar draws done as a share of whole.
func (f *frames) bar(done, whole time.Duration, width int) string {
	if whole <= 0 || width < 4 {
		return ""
	}
	n := int(min(1, max(0, float64(done)/float64(whole))) * float64(width))
	return strings.Repeat("━", n) + f.ink.Dim(strings.Repeat("─", width-n))
}

// top is the largest p99 that the charts show. It is the same for all lanes, so that
// their heights can be compared.
func (f *frames) top() (top time.Duration) {
	for _, t := range f.lanes {
		for _, p := range t.points {
			top = max(top, p)
		}
	}
	return top
}

func (f *frames) lane(l ledger.LiveLane, width int, top time.Duration) string {
	t := f.lanes[l.Name]
	name := l.Name
	if utf8.RuneCountInString(name) > 12 {
		name = string([]rune(name)[:11]) + "…"
	}
	line := "  " + f.ink.Mode(f.modes[l.Name], fmt.Sprintf("%-12s", name))
	for _, c := range laneColumns {
		if width >= c.from {
			line += fmt.Sprintf("%*s", c.width, c.value(&l, t))
		}
	}
	if room := width - 1 - laneWidth - 2; room >= leastChart {
		line += "  " + f.ink.Mode(f.modes[l.Name], spark(t.points[max(0, len(t.points)-room):], top))
	}
	return line
}

// trace adds a point to a lane's history if it is time for one.
func (f *frames) trace(l ledger.LiveLane, now time.Time) {
	if f.lanes == nil {
		f.lanes = map[string]*laneTrace{}
	}
	t := f.lanes[l.Name]
	if t == nil {
		t = &laneTrace{at: now, delivered: l.Delivered}
		f.lanes[l.Name] = t
		return
	}
	since := now.Sub(t.at)
	if since < traceEvery {
		return
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
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// spark draws points relative to top, beginning with the first at which anything came.
// Points without deliveries are gaps.
func spark(points []time.Duration, top time.Duration) string {
	for len(points) > 0 && points[0] < 0 {
		points = points[1:]
	}
	if len(points) == 0 {
		return ""
	}
	top = max(top, 1)
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

// shown returns the number of columns of a line, without its escape codes.
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

// cut shortens a line to width columns and keeps its escape codes whole.
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
		b.WriteString("\x1b[0m")
	}
	return b.String()
}
