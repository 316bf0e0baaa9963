package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/results"
)

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// tables prints the table of lanes, or several that fit the width.
func (p *printer) tables(lanes []laneOf) {
	for len(lanes) > 0 {
		n, left := 0, width-labelWidth
		for n < len(lanes) && (n == 0 || columnOf(lanes[n]) <= left) {
			left -= columnOf(lanes[n])
			n++
		}
		p.table(lanes[:n])
		lanes = lanes[n:]
	}
}

// columnOf is the width of a lane's column, with a space before it.
func columnOf(l laneOf) int {
	wide := columnWidth
	for _, group := range groups {
		for _, r := range group {
			wide = max(wide, utf8.RuneCountInString(r.cell(l))+1)
		}
	}
	return min(wide, mostWidth)
}

func (p *printer) table(lanes []laneOf) {
	var widths []int
	total := labelWidth
	for _, l := range lanes {
		widths = append(widths, columnOf(l))
		total += columnOf(l)
	}
	p.line("", widths, func(i int) string { return lanes[i].lane.Name })
	p.printf("%s\n", strings.Repeat("─", total))
	for _, group := range rowsOf(lanes) {
		for _, r := range group {
			p.line(r.label, widths, func(i int) string { return r.cell(lanes[i]) })
		}
		p.printf("\n")
	}
}

func (p *printer) line(label string, widths []int, value func(i int) string) {
	var b strings.Builder
	b.WriteString(padRight(label, labelWidth))
	for i, wide := range widths {
		b.WriteString(padLeft(shorten(value(i), wide-1), wide))
	}
	p.printf("%s\n", strings.TrimRight(b.String(), " "))
}

// Clean makes text from a target safe to print; see [errtext.Plain]. Text of a run is cleaned on
// entry, but an archive may hold anything.
func Clean(s string) string { return errtext.Plain(s) }

func plural[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// count formats n with a space between thousands.
func count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func ratio(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		return count(int64(v + 0.5))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// bytes formats v in binary units.
func bytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if v == float64(int64(v)) || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

func quantile(q results.Quantiles, v results.Nanos) string {
	if q.Count == 0 {
		return "–"
	}
	return v.String()
}

// timingText sums up a timing.
func timingText(q results.Quantiles) string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s of %s", quantile(q, q.P50), quantile(q, q.P99), quantile(q, q.Max), count(q.Count))
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s))) + s
}

func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func usage(u *results.Process) string {
	return fmt.Sprintf("%.2f CPUs (%s), %s", u.CPUShare, u.CPU, bytes(float64(u.Memory)))
}

// Ink paints text for a terminal. The zero value leaves it plain.
type Ink struct{ On bool }

// The escape codes of the colours.
const (
	inkOff    = "\x1b[0m"
	inkBold   = "\x1b[1m"
	inkDim    = "\x1b[2m"
	inkRed    = "\x1b[31m"
	inkGreen  = "\x1b[32m"
	inkYellow = "\x1b[33m"
)

// modeInks are the nearest of the sixteen colours to those of the HTML report.
var modeInks = map[string]string{"push": "\x1b[94m", "poll": inkYellow, "webhook": inkGreen}

func (i Ink) paint(code, text string) string {
	if !i.On || code == "" || text == "" {
		return text
	}
	return code + text + inkOff
}

// Bold is for what is read first.
func (i Ink) Bold(text string) string { return i.paint(inkBold, text) }

// Dim is for what is read last.
func (i Ink) Dim(text string) string { return i.paint(inkDim, text) }

// Bad is for what went wrong.
func (i Ink) Bad(text string) string { return i.paint(inkRed, text) }

// Mode is the colour of lanes of a delivery mode.
func (i Ink) Mode(mode, text string) string { return i.paint(modeInks[mode], text) }

// verdict is the colour of a verdict: its word and whether the run is clean.
func (i Ink) verdict(j *judgement, text string) string {
	switch {
	case j.word == "fail":
		return i.paint(inkBold+inkRed, text)
	case j.word == "pass" && len(j.unclean) == 0:
		return i.paint(inkBold+inkGreen, text)
	}
	return i.paint(inkBold+inkYellow, text)
}
