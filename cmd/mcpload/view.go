package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mcpload/mcpload/internal/bench"
	"github.com/mcpload/mcpload/profiles"
	"github.com/mcpload/mcpload/results"
	"github.com/mcpload/mcpload/sinks"
)

// view shows a run on its way: a block that is drawn over itself on a
// terminal, plain lines elsewhere.
type view struct {
	w        io.Writer
	quiet    bool
	terminal int // file descriptor, -1 where the output is no terminal
	profile  *profiles.Profile

	mu    sync.Mutex
	drawn int // lines of the block
	phase string
	last  time.Time
}

// plainEvery is how often a line is written where the output is no terminal.
const plainEvery = 2 * time.Second

func newView(w io.Writer, p *profiles.Profile, quiet bool) *view {
	v := &view{w: w, quiet: quiet, terminal: -1, profile: p}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v.terminal = int(f.Fd())
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
		v.draw(v.block(p))
		return
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
		v.draw(nil)
	}
}

// draw replaces the block that was drawn before.
func (v *view) draw(lines []string) {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	b.WriteString("\r\x1b[J")
	width, _, err := term.GetSize(v.terminal)
	if err != nil || width < 20 {
		width = 80
	}
	for _, l := range lines {
		if r := []rune(l); len(r) >= width {
			l = string(r[:width-1])
		}
		b.WriteString(l + "\n")
	}
	v.drawn = len(lines)
	_, _ = io.WriteString(v.w, b.String())
}

func (v *view) block(p bench.Progress) []string {
	out := []string{phaseText(p) + "  " + bar(p.Elapsed, p.Limit, 24), shotsText(p.Live)}
	for _, l := range p.Live.Lanes {
		out = append(out, fmt.Sprintf("  %-12s %6d open  %8d delivered  p50 %7s  p99 %7s  %s", l.Name, l.Open, l.Delivered,
			latency(l.Recent, l.Recent.P50), latency(l.Recent, l.Recent.P99), troubles(l)))
	}
	return out
}

func (v *view) line(p bench.Progress) []string {
	out := []string{phaseText(p), shotsText(p.Live)}
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

func shotsText(l sinks.Live) string {
	text := fmt.Sprintf("%d events fired", l.Measured.Fired)
	if l.Measured.Fired == 0 && l.WarmUp.Fired > 0 {
		text = fmt.Sprintf("%d events fired to warm up", l.WarmUp.Fired)
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

func bar(done, whole time.Duration, width int) string {
	if whole <= 0 {
		return ""
	}
	n := int(min(1, float64(done)/float64(whole)) * float64(width))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}
