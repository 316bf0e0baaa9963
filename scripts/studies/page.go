package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// page is the page of a study while it is written.
type page struct {
	entry   entry
	file    file
	lead    string
	body    bytes.Buffer
	changes []string
	charts  map[string]chart
}

// answer is the first paragraph: what a reader quotes. Call it once.
func (p *page) answer(format string, args ...any) { p.lead = fmt.Sprintf(format, args...) }

// text adds a paragraph.
func (p *page) text(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n\n", args...) }

// heading begins a section.
func (p *page) heading(s string) { fmt.Fprintf(&p.body, "## %s\n\n", s) }

// changesIt adds a line to "What would change the answer".
func (p *page) changesIt(format string, args ...any) {
	p.changes = append(p.changes, fmt.Sprintf(format, args...))
}

// table adds a table. The first column is text, the others are numbers.
func (p *page) table(head []string, rows [][]string) {
	fmt.Fprintf(&p.body, "| %s |\n|---%s|\n", strings.Join(head, " | "), strings.Repeat("|--:", len(head)-1))
	for _, r := range rows {
		fmt.Fprintf(&p.body, "| %s |\n", strings.Join(r, " | "))
	}
	p.body.WriteString("\n")
}

// chart adds a chart as NAME.svg. The description is for those who cannot see it.
func (p *page) chart(name, description string, c chart) {
	p.charts[name+".svg"] = c
	p.text("![%s](%s.svg)", description, name)
}

func (p *page) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", p.entry.question, p.lead)
	if p.file.Scale != 1 {
		fmt.Fprintf(&b, "**This is a small trial (scale %g), not the study.**\n\n", p.file.Scale)
	}
	b.Write(p.body.Bytes())
	b.WriteString("## Conditions\n\n")
	b.WriteString(p.conditions())
	b.WriteString("\n\n")
	if len(p.changes) > 0 {
		b.WriteString("## What would change the answer\n\n")
		for _, c := range p.changes {
			fmt.Fprintf(&b, "- %s\n", c)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "## Run it again\n\n```\ngo run ./scripts/studies %s\n```\n\n%s on such a machine. `data.json` has the figures and the arguments of all runs, `runs` their results, and `go run ./scripts/studies -page DIR` writes this page from them.\n", p.entry.name, p.took())
	return b.Bytes()
}

// conditions says on what the figures were measured, and names the runs whose figures describe the
// generator more than the target.
func (p *page) conditions() string {
	f := &p.file
	var loads, slow []string
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, r := range f.Runs {
		lowest, highest = min(lowest, r.Load), max(highest, r.Load)
		if len(r.Bottleneck) > 0 {
			slow = append(slow, "`"+r.Name+"`")
		}
	}
	if len(f.Runs) > 0 && lowest >= 0 {
		loads = append(loads, fmt.Sprintf(" The load average was %.1f to %.1f at the ends of the runs, whose own load is part of it.", lowest, highest))
	}
	s := fmt.Sprintf("%s, %s/%s, kernel %s, %s, %d processors that generator, target and upstream share, all on one machine. %d runs.%s",
		f.Started.Format(time.DateOnly), f.Machine.OS, f.Machine.Arch, f.Machine.Kernel, f.Machine.Go, f.Machine.CPUs, len(f.Runs), strings.Join(loads, ""))
	switch {
	case len(slow) == 0:
		s += " The generator was the bottleneck in none of them."
	case len(slow) == len(f.Runs):
		s += " **The generator was the bottleneck in all of them**: their latencies say little about the target."
	default:
		s += fmt.Sprintf(" **The generator was the bottleneck in %d of them** (%s): their latencies say little about the target.", len(slow), strings.Join(slow, ", "))
	}
	return s
}

func (p *page) took() string {
	return "It takes about " + minutes(p.file.Finished.Sub(p.file.Started))
}

func minutes(d time.Duration) string {
	if n := int(math.Ceil(d.Minutes())); n != 1 {
		return fmt.Sprintf("%d minutes", n)
	}
	return "a minute"
}

// number writes v with three significant digits, and thousands apart.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a == 0:
		return "0"
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

// count writes n with thousands apart.
func count[N ~int | ~int64](n N) string { return grouped(int64(n)) }

// whole writes a count that is kept as a float.
func whole(v float64) string { return grouped(int64(math.Round(v))) }

func grouped(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// duration writes d with three significant digits.
func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return number(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return number(d.Seconds()*1e3) + " ms"
	default:
		return number(d.Seconds()*1e6) + " µs"
	}
}

// ofSeconds writes a number of seconds as duration does.
func ofSeconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }

// spread is the median of repeated measurements, and the range that they span.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	N      int     `json:"n"`
}

// spreadOf needs one value at least.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Low: v[0], High: v[n-1], N: n}
}

// String writes "12.3 (11.8–13.9)", the range only where there is one.
func (s spread) String() string {
	if s.N < 2 {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Low), number(s.High))
}
