//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// figure is a number that a measurement has under a name.
type figure struct{ name, what, unit string }

var figures = []figure{
	{"deliveries", "deliveries", ""},
	{"lost", "lost, duplicate and unexpected", ""},
	{"memory", "memory per stream", "KiB"},
	{"settled", "… after garbage collection", "KiB"},
	{"heap", "… of that, heap in use", "KiB"},
	{"stack", "… of that, stacks", "KiB"},
	{"calls", "polls or refreshes per second", "/s"},
	{"callCPU", "CPU per poll or refresh, no event", "µs"},
	{"cpu", "CPU per delivery", "µs"},
	{"idle", "CPU while idle", "ms/s"},
	{"allocations", "allocations per delivery", ""},
	{"opening", "streams opened per second", "/s"},
	{"openingCPU", "CPU to open a stream", "µs"},
	{"errorP50", "measuring error, p50", "µs"},
	{"errorP99", "measuring error, p99", "µs"},
	{"kernel", "deliveries with the kernel's time", "%"},
	{"shared", "deliveries that shared a read", "%"},
	{"judged", "rows judged per delivery", ""},
	{"broken", "messages that broke a row", ""},
	{"connections", "connections", ""},
	{"failed", "failed calls", ""},
	{"targetMemory", "target: memory per stream", "KiB"},
	{"targetCPU", "target: CPU per delivery", "µs"},
	{"targetCallCPU", "target: CPU per poll or refresh", "µs"},
}

// counts have no ratio.
var counts = []string{"deliveries", "lost", "connections", "failed", "judged", "broken"}

// value is the median of several runs and their range.
type value struct{ median, low, high float64 }

// valueOf summarizes one or more runs.
func valueOf(runs []float64) value {
	s := slices.Sorted(slices.Values(runs))
	n := len(s)
	return value{median: (s[(n-1)/2] + s[n/2]) / 2, low: s[0], high: s[n-1]}
}

func (v value) String() string {
	if v.low == v.high {
		return number(v.median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(v.median), number(v.low), number(v.high))
}

// line is a line of the table.
type line struct{ row, figure, mine, other, theirs, ratio string }

// Table is the report as a Markdown table, with what a reader needs to know of it below.
func (r *report) Table() string {
	lines := []line{{"row", "figure", "measured", "beside it", "measured", "ratio"}, {}}
	for _, row := range rows {
		lines = append(lines, r.linesOf(row)...)
	}
	cells := func(l *line) []*string {
		return []*string{&l.row, &l.figure, &l.mine, &l.other, &l.theirs, &l.ratio}
	}
	var widths [6]int
	for i := range lines {
		for c, text := range cells(&lines[i]) {
			widths[c] = max(widths[c], len([]rune(*text)))
		}
	}
	var b strings.Builder
	for i := range lines {
		for c, text := range cells(&lines[i]) {
			fill := " "
			if i == 1 {
				fill = "-"
			}
			fmt.Fprintf(&b, "| %s%s ", *text, strings.Repeat(fill, widths[c]-len([]rune(*text))))
		}
		b.WriteString("|\n")
	}
	for _, note := range r.notes() {
		b.WriteString("\n" + note + "\n")
	}
	return b.String()
}

// linesOf are the lines of a row: its figures, each beside that of every other client.
func (r *report) linesOf(row row) (lines []line) {
	runs := map[string]map[string][]float64{} // by client and figure
	for _, m := range r.Measurements {
		if m.Row != row.name {
			continue
		}
		if runs[m.Client] == nil {
			runs[m.Client] = map[string][]float64{}
			if len(runs) == 1 {
				what := fmt.Sprintf("%s streams, %s events/s", grouped(m.Streams), number(m.Rate))
				lines = append(lines, line{row: row.name, figure: row.what, mine: row.clients[0].name, other: what})
			}
		}
		for name, v := range m.Figures {
			runs[m.Client][name] = append(runs[m.Client][name], v)
		}
	}
	for _, f := range figures {
		if !slices.Contains(strings.Fields(row.figures), f.name) {
			continue
		}
		mine := runs[row.clients[0].name][f.name]
		if len(mine) == 0 {
			continue
		}
		l := line{figure: strings.TrimSuffix(f.what+", "+f.unit, ", "), mine: valueOf(mine).String()}
		for _, c := range row.clients[1:] {
			theirs := runs[c.name][f.name]
			if len(theirs) == 0 {
				continue
			}
			l.other, l.theirs, l.ratio = c.name, valueOf(theirs).String(), ""
			if ratios := quotients(mine, theirs); len(ratios) > 0 && !slices.Contains(counts, f.name) {
				l.ratio = valueOf(ratios).String()
			}
			lines = append(lines, l)
			l = line{}
		}
		if l.figure != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// quotients are the ratios of figures that were measured in turn. What is not above zero is noise.
func quotients(mine, theirs []float64) (all []float64) {
	for i := range min(len(mine), len(theirs)) {
		if mine[i] > 0 && theirs[i] > 0 {
			all = append(all, mine[i]/theirs[i])
		}
	}
	return all
}

// tooBusy is how many processors other processes may use.
const tooBusy = 0.1

func (r *report) notes() []string {
	h := r.Host
	notes := []string{fmt.Sprintf("%s/%s %s, %d processors (%s), %.1f GiB of memory, %s; %s, scale %g. "+
		"Medians, with the range in parentheses.",
		h.OS, h.Arch, h.Kernel, h.CPUs, h.CPU, float64(h.Memory)/(1<<30), h.Go, r.Began.Format("2006-01-02"), r.Scale)}
	if len(r.Measurements) > 0 {
		worst := slices.MaxFunc(
			r.Measurements,
			func(a, b measurement) int { return cmp.Compare(a.Figures["others"], b.Figures["others"]) },
		)
		text := fmt.Sprintf("Other processes used up to %.2f processors (%s, %s).", worst.Figures["others"], worst.Row, worst.Client)
		if worst.Figures["others"] > tooBusy {
			text += " Do not trust the times."
		}
		notes = append(notes, text)
	}
	return append(notes, r.Notes...)
}

// number formats a figure with three significant digits.
func number(f float64) string {
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0"
	case f == math.Trunc(f) || a >= 100:
		return grouped(int(math.Round(f)))
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	case a >= 0.01:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.2g", f)
}

// grouped separates thousands: 48,000.
func grouped(n int) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
