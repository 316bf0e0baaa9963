// Package report turns a result into what people and programs read.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/results"
)

// width is how wide the text report may be.
const width = 100

// Text writes the result for a terminal or a chat: what ran, one table with a
// column for each lane, thresholds, the generator's own health and warnings.
// It contains no escape codes and no line of the tables is wider than 100
// columns.
func Text(w io.Writer, r *results.Result) error {
	p := &printer{w: w}
	p.head(r)
	for _, lanes := range columns(r.Lanes) {
		p.table(&r.Upstream, lanes)
	}
	p.own(r.Lanes)
	p.upstream(&r.Upstream)
	p.resolution(r)
	p.verdicts(r)
	p.part(r)
	p.shards(r)
	p.generator(r)
	p.warnings(r.Warnings)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) head(r *results.Result) {
	p.printf("%s, %s, in %s", whereText(r), agreedText(r), results.FormatNanos(results.Nanos(r.Finished.Sub(r.Started))))
	if r.Partial {
		p.printf(" · PARTIAL: %s", Clean(r.Reason))
	}
	u := r.Upstream
	p.printf("\n%s published by %s from %s", plural(u.Fired, "event"), Clean(u.Kind), plural(int64(u.Sources), "source"))
	for _, x := range []struct {
		n    int64
		what string
	}{{u.Uncertain, "uncertain"}, {u.Refused, "refused"}, {u.Dropped, "dropped"}} {
		if x.n > 0 {
			p.printf(", %d %s", x.n, x.what)
		}
	}
	if u.Lag.Count > 0 {
		p.printf("; sent %s after intended at p99", results.FormatNanos(u.Lag.P99))
	}
	p.printf("\n\n")
}

// columns cuts lanes into tables that fit the width.
func columns(lanes []results.Lane) [][]results.Lane {
	var out [][]results.Lane
	const perTable = (width - labelWidth) / columnWidth
	for len(lanes) > 0 {
		n := min(len(lanes), perTable)
		out = append(out, lanes[:n])
		lanes = lanes[n:]
	}
	return out
}

const (
	noteIndent  = 11 // of what stands beside verdict, generator, warning
	labelWidth  = 34
	columnWidth = 13
)

func (p *printer) table(u *results.Upstream, lanes []results.Lane) {
	var all []laneOf
	for i := range lanes {
		all = append(all, laneOf{u, &lanes[i]})
	}
	p.line("", len(lanes), func(i int) string { return lanes[i].Name })
	p.printf("%s\n", strings.Repeat("─", labelWidth+columnWidth*len(lanes)))
	for _, group := range rowsOf(all) {
		for _, r := range group {
			p.line(r.label, len(lanes), func(i int) string { return r.cell(all[i]) })
		}
		p.printf("\n")
	}
}

func (p *printer) line(label string, n int, value func(i int) string) {
	var b strings.Builder
	b.WriteString(padRight(label, labelWidth))
	for i := range n {
		b.WriteString(padLeft(shorten(value(i), columnWidth-1), columnWidth))
	}
	p.printf("%s\n", strings.TrimRight(b.String(), " "))
}

// own lists the figures that only a lane's system has.
func (p *printer) own(lanes []results.Lane) {
	for i := range lanes {
		l := &lanes[i]
		if len(l.Figures)+len(l.Timings) == 0 {
			continue
		}
		p.printf("%s (%s)\n", Clean(l.Name), Clean(l.System))
		for _, name := range slices.Sorted(maps.Keys(l.Figures)) {
			p.printf("  %s%s\n", padRight(name, labelWidth), padLeft(ratio(l.Figures[name]), columnWidth))
		}
		for _, name := range slices.Sorted(maps.Keys(l.Timings)) {
			q := l.Timings[name]
			p.printf("  %sp50 %s, p99 %s, max %s of %s\n", padRight(name, labelWidth), quantile(q, q.P50), quantile(q, q.P99), quantile(q, q.Max), count(q.Count))
		}
		p.printf("\n")
	}
}

// resolution explains the mark of figures below the resolution limit, where there are any.
func (p *printer) resolution(r *results.Result) {
	if text := resolutionText(r); text != "" {
		p.printf("%s\n\n", text)
	}
}

// floorText is empty where no figure is below the resolution limit.
func resolutionText(r *results.Result) string {
	for _, l := range r.Lanes {
		if len(l.Latency.BelowResolution) > 0 {
			return fmt.Sprintf("~ below this run's resolution limit of %s: no smaller than that can be told apart", results.FormatNanos(r.Generator.ReadDelay.P99))
		}
	}
	return ""
}

func (p *printer) verdicts(r *results.Result) {
	marks := map[string]string{wordHeld: "pass", wordFailed: "FAIL", wordNotEvaluated: "NOT EVALUATED"}
	for _, h := range heldRows(r.Thresholds) {
		p.printf("%s  %s  (%s)\n", marks[h.Word], h.Threshold, strings.TrimPrefix(h.Lanes+": "+h.Text, ": "))
	}
	if len(r.Thresholds) > 0 {
		p.printf("\n")
	}
	j := judge(r)
	p.beside("verdict    ", noteIndent, strings.ToUpper(j.word)+": "+j.text)
	for _, u := range j.unclean {
		p.beside("not clean  ", noteIndent, u.String())
	}
	for _, s := range settingLines(r) {
		p.beside("setting    ", noteIndent, s)
	}
	p.printf("\n")
}

func (p *printer) generator(r *results.Result) {
	in := r.Generator
	p.printf("generator  %s, %d goroutines\n", usage(&in.Process), in.Goroutines)
	p.printf("           at p99: read delay %s, timers %s late; longest GC pause %s\n",
		results.FormatNanos(in.ReadDelay.P99), results.FormatNanos(in.TimerLag.P99), results.FormatNanos(in.GCPauses.Max))
	if a := in.Arrivals; a.Kernel > 0 {
		p.printf("           %s of %s deliveries timed by the kernel, %s shared a read\n", count(a.Kernel), count(a.Counted), count(a.Shared))
		p.printf("           at p99: error of those times %s; wait until read %s, left out\n", results.FormatNanos(a.Error.P99), results.FormatNanos(a.Waited.P99))
	}
	if r.Target.Process != nil {
		p.printf("target     %s\n", usage(r.Target.Process))
	}
	for _, reason := range in.Reasons {
		p.printf("BOTTLENECK %s\n", Clean(reason))
	}
}

func usage(u *results.Process) string {
	return fmt.Sprintf("%.2f CPUs (%s), %s", u.CPUShare, results.FormatNanos(u.CPU), bytes(float64(u.Memory)))
}

func (p *printer) warnings(ws []results.Warning) {
	for _, w := range ws {
		lane := ""
		if w.Lane != "" {
			lane = w.Lane + ": "
		}
		p.printf("warning    %s%s\n", lane, Clean(w.Text))
	}
}

// Clean makes text that may come from the target safe to print, see
// [errtext.Plain]. Text of a run was cleaned where it entered; an archive may hold
// anything.
func Clean(s string) string { return errtext.Plain(s) }

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// count writes n with a space between thousands.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
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

// bytes writes v in binary units.
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
	return results.FormatNanos(v)
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
