package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/eventmeter/eventmeter/internal/bench"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks"
)

// view shows a run on its way: a block that is drawn over itself on a
// terminal, plain lines elsewhere and where they are asked for.
type view struct {
	w        io.Writer
	quiet    bool
	terminal int // file descriptor, -1 where plain lines are written
	frames   frames

	mu    sync.Mutex
	drawn []int // the widths of the lines of the block
	phase string
	said  string // of the target's trouble
	last  time.Time
}

// plainEvery is how often a line is written where the output is no terminal.
const plainEvery = 2 * time.Second

func newView(w io.Writer, p *profiles.Profile, quiet, plain bool) *view {
	v := &view{w: w, quiet: quiet, terminal: -1, frames: frames{name: report.Clean(p.Name), modes: map[string]string{}}}
	for _, l := range p.Lanes {
		v.frames.modes[l.Name] = l.Mode
	}
	dumb := os.Getenv("TERM") == "dumb"
	if f, ok := w.(*os.File); ok && !plain && !dumb && term.IsTerminal(int(f.Fd())) {
		v.terminal = int(f.Fd())
		v.frames.colour = os.Getenv("NO_COLOR") == ""
	}
	return v
}

// update shows p.
func (v *view) update(p bench.Progress) {
	if v.quiet || p.Phase == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
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

// close removes the block, so that the report stands alone.
func (v *view) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
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

// fit leaves out what a terminal has no line for: what has scrolled out of it
// cannot be drawn over. One line is the cursor's. A height of 0 is not known.
func fit(lines []string, height int) []string {
	room := height - 1
	if height <= 0 || len(lines) <= room || room < 1 {
		return lines
	}
	return append(lines[:room-1:room-1], fmt.Sprintf("  … %d more lines", len(lines)-room+1))
}

// rows is how many lines of the terminal a block takes by now: if it has become
// narrower, lines that fitted go over several.
func rows(widths []int, width int) (n int) {
	for _, w := range widths {
		n += max(1, (w+width-1)/width)
	}
	return n
}

func (v *view) line(p bench.Progress) []string {
	errtext.CleanAll(&p)
	out := []string{phaseText(p), emissionsText(p.Live)}
	for _, l := range p.Live.Lanes {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %d open, %d delivered, p99 %s %s", l.Name, l.Open, l.Delivered, latency(l.Recent, l.Recent.P99), troubles(l))))
	}
	return out
}

func phaseText(p bench.Progress) string {
	text := p.Phase
	if p.Lane != "" {
		text = p.Lane + " " + text
	}
	if left := p.Limit - p.Elapsed; left > 0 {
		text += fmt.Sprintf(" %.0fs left", left.Seconds())
	}
	return text
}

func emissionsText(l sinks.Live) string {
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

// troubles names only what is there.
func troubles(l sinks.LiveLane) string {
	var out []string
	for _, t := range []struct {
		n    int64
		what string
	}{
		{l.Failed + l.Broken, "failed"}, {l.Holes, "missing"}, {l.Duplicates.Total(), "duplicates"},
		{l.OutOfOrder, "out of order"}, {l.Unexpected.Total(), "unexpected"}, {l.Reconnects, "reconnects"},
	} {
		if t.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", t.n, t.what))
		}
	}
	return strings.Join(out, ", ")
}

func latency(q sinks.Quantiles, d time.Duration) string {
	if q.Count == 0 {
		return "–"
	}
	return results.FormatNanos(results.Nanos(d))
}
