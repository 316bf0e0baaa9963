package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/results"
)

// SummaryLines is the largest number of lines of a summary.
const SummaryLines = 20

// SummaryOptions say where a summary is shown.
type SummaryOptions struct {
	// Width is how many columns a line may have, 80 at the least.
	Width int
	Ink   Ink
	// Page is the path of report.html; empty = it was not written.
	Page string
}

// Summary writes the end of a run in at most [SummaryLines] lines: the verdict, a line for each lane,
// what failed and what is not clean. [Text] has all figures.
func Summary(w io.Writer, r *results.Result, o SummaryOptions) error {
	s := &summary{printer: printer{w: w}, r: r, o: o}
	s.o.Width = max(80, o.Width)
	j := judge(r)
	head := fmt.Sprintf(
		"%s in %s, %s published",
		whereText(r),
		r.Took(),
		plural(r.Upstream.Published, "event"),
	)
	verdict := s.besides(strings.ToUpper(j.word), j.text, 3)
	verdict[0] = strings.Replace(verdict[0], strings.ToUpper(j.word), s.o.Ink.verdict(&j, strings.ToUpper(j.word)), 1)
	failed, notes := s.failures(), s.notes(&j)
	var end []string
	if o.Page != "" {
		end = []string{"", s.label("report") + Clean(o.Page) + warningsText(r)}
	}
	// The lanes get what the other parts leave of the lines.
	left := SummaryLines - len(verdict) - len(end) - 5 // the head, the headings, and lines without text
	failed, notes = s.trim(failed, 4), s.trim(notes, 4)
	lanes := s.lanes()
	if len(lanes) > left+1-len(failed)-len(notes) {
		lanes = append(lanes[:1:1], s.trim(lanes[1:], max(2, left-len(failed)-len(notes)))...)
	}
	lines := slices.Concat([]string{shorten(head, s.o.Width), ""}, verdict, failed, []string{""}, lanes)
	if len(notes) > 0 {
		lines = slices.Concat(lines, []string{""}, notes)
	}
	for _, l := range slices.Concat(lines, end) {
		s.printf("%s\n", strings.TrimRight(l, " "))
	}
	return s.err
}

type summary struct {
	printer
	r *results.Result
	o SummaryOptions
}

// summaryIndent is the width of the first word of a line, where it has one.
const summaryIndent = 11

func (s *summary) label(word string) string { return padRight(word, summaryIndent) }

// besides writes text beside a word, in at most most lines.
func (s *summary) besides(word, text string, most int) []string {
	indent := max(summaryIndent, utf8.RuneCountInString(word)+2)
	lines := fold(text, s.o.Width-indent)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] = shorten(lines[most-1]+" …", s.o.Width-indent)
	}
	for i := range lines {
		first := ""
		if i == 0 {
			first = word
		}
		lines[i] = padRight(first, indent) + lines[i]
	}
	return lines
}

// trim keeps most lines; the last of them then says how many are left out.
func (s *summary) trim(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	return append(lines[:most-1:most-1], s.label("")+s.o.Ink.Dim(fmt.Sprintf("… and %d more; --full shows all", len(lines)-most+1)))
}

// failures are the thresholds that failed, and by how much.
func (s *summary) failures() (out []string) {
	for i := range s.r.Thresholds {
		v := &s.r.Thresholds[i]
		if !v.Failed() {
			continue
		}
		text := Clean(strings.TrimPrefix(v.Lane+": ", ": ")) + Clean(v.Text)
		if t, err := results.ParseThreshold(v.Threshold); err == nil && v.Measured != nil {
			text += ", " + t.Missed(*v.Measured)
		}
		line := s.label("") + shorten(Clean(v.Threshold)+"  ("+text+")", s.o.Width-summaryIndent)
		out = append(out, s.o.Ink.Bad(line))
	}
	return out
}

// unexpectedHints are the codes of the warnings that say what may cause unexpected deliveries.
var unexpectedHints = []string{"not-subscribed", "after-end", "foreign-run", "stale-events"}

// notes are the events that were not accepted, the figures that are not clean, what causes unexpected
// deliveries, leaks, broken rows, how exactly latencies are known, and the settings that explain differences.
func (s *summary) notes(j *judgement) (out []string) {
	for _, w := range s.r.Warnings {
		if w.Code == results.PublishingFailed {
			out = append(out, s.besides("refused", Clean(w.Text), 2)...)
		}
	}
	for _, u := range j.unclean {
		line := s.besides("not clean", u.String(), 1)[0]
		if u.Fault {
			line = s.o.Ink.Bad(line)
		}
		out = append(out, line)
	}
	for _, w := range s.r.Warnings {
		if slices.Contains(unexpectedHints, w.Code) {
			out = append(out, s.besides("hint", warningText(w), 2)...)
		}
	}
	for _, row := range leakRows(s.r) {
		if row[0] != "no leak" {
			out = append(out, s.o.Ink.Bad(s.besides(row[0], row[1], 1)[0]))
		}
	}
	if rows := conformanceRows(s.r, results.RowBroken); len(rows) > 0 {
		out = append(
			out,
			s.o.Ink.Bad(
				s.besides("broken", fmt.Sprintf("%s of conformance, such as %s", plural(len(rows), "row"), rows[0].Row), 1)[0],
			),
		)
	}
	for i := range s.r.Until {
		out = append(out, s.besides("until", Clean(s.r.Until[i].String()), 1)[0])
	}
	if marks := s.marks(); marks != "" {
		out = append(out, s.o.Ink.Dim(s.besides("marks", marks, 1)[0]))
	}
	for _, text := range settingLines(s.r) {
		out = append(out, s.besides("setting", text, 2)...)
	}
	return out
}

// marks explains the marks of the latencies that are shown.
func (s *summary) marks() string {
	var cells, used []string
	for _, l := range lanesOf(s.r) {
		for _, c := range summaryColumns {
			if strings.HasPrefix(c.head, "p") {
				cells = append(cells, c.value(l))
			}
		}
	}
	for _, m := range []struct{ mark, text string }{
		{"~", "~ below the resolution limit of " + s.r.Generator.ReadDelay.P99.String()},
		{"?", "? too few events to bound the interval"},
		{"!", "! in doubt: see the warnings"},
	} {
		if slices.ContainsFunc(cells, func(c string) bool { return strings.Contains(c, m.mark) }) {
			used = append(used, m.text)
		}
	}
	return strings.Join(used, "; ")
}

// summaryColumns are the figures of a lane's line.
var summaryColumns = []struct {
	head  string
	value func(laneOf) string
}{
	{"expected", func(l laneOf) string { return summaryCell(l, "expected") }},
	{"delivered", func(l laneOf) string { return summaryCell(l, "delivered") }},
	{"loss", func(l laneOf) string {
		lost := l.lane.Lost()
		switch {
		case l.hasNoDeliveries():
			return ""
		case lost == 0:
			return "0"
		}
		return fmt.Sprintf("%s%s", markUnclean, count(lost))
	}},
	{"dup.", func(l laneOf) string { return summaryCell(l, "duplicates") }},
	{"p50", func(l laneOf) string { return summaryCell(l, "p50") }},
	{"p90", func(l laneOf) string { return summaryCell(l, "p90") }},
	{"p99 (95 % interval)", func(l laneOf) string { return summaryCell(l, "p99") }},
	{"wire/event", func(l laneOf) string { return summaryCell(l, "wire cost per event, bytes") }},
}

// summaryCell is the cell of the row with a short name.
func summaryCell(l laneOf, short string) string {
	for _, group := range groups {
		for i := range group {
			if group[i].short == short {
				return group[i].cell(l)
			}
		}
	}
	return ""
}

// summaryFits are what a table leaves out until it fits: the intervals of p50 and p90, the ends of
// long names, all intervals, then columns. A number is never cut.
var summaryFits = []struct {
	name int // columns of a lane's name
	bare int // of the latencies, how many are without their interval
	drop []string
}{
	{16, 0, nil}, {16, 2, nil}, {12, 2, nil}, {8, 2, nil}, {8, 3, nil},
	{8, 3, []string{"p90", "p50"}}, {8, 3, []string{"p90", "p50", "expected"}},
}

// lanes are the headings and the lines of the lanes.
func (s *summary) lanes() []string {
	for _, fit := range summaryFits {
		lines, wide := s.table(fit.name, fit.bare, fit.drop)
		if wide <= s.o.Width || len(fit.drop) == 3 {
			return lines
		}
	}
	return nil // not reached
}

// table is the table of the lanes, and how wide it is.
func (s *summary) table(name, bare int, drop []string) (out []string, wide int) {
	lanes := lanesOf(s.r)
	cells := [][]string{{"lane"}}
	for _, l := range lanes {
		cells = append(cells, []string{shorten(Clean(l.lane.Name), name)})
	}
	for _, c := range summaryColumns {
		if slices.Contains(drop, c.head) {
			continue
		}
		cut := strings.HasPrefix(c.head, "p") && bare > 0
		for i := range cells {
			text := c.head
			if i > 0 {
				text = cmp.Or(c.value(lanes[i-1]), "–")
			}
			if cut {
				text, _, _ = strings.Cut(text, " (")
			}
			cells[i] = append(cells[i], text)
		}
		if cut {
			bare--
		}
	}
	widths := make([]int, len(cells[0]))
	for i := range widths {
		for _, row := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		wide += widths[i]
	}
	gap := 2
	if wide+2*(len(widths)-1) > s.o.Width {
		gap = 1
	}
	for n, row := range cells {
		line := padRight(row[0], widths[0])
		if n > 0 {
			line = s.o.Ink.Mode(lanes[n-1].lane.Mode, line)
		}
		for i, cell := range row[1:] {
			text := padLeft(cell, widths[i+1]+gap)
			if n > 0 && strings.HasPrefix(cell, markUnclean) {
				text = s.o.Ink.Bad(text)
			}
			line += text
		}
		if n == 0 {
			line = s.o.Ink.Dim(line)
		}
		out = append(out, line)
	}
	return out, wide + gap*(len(widths)-1)
}

// warningsText says how many warnings the report has.
func warningsText(r *results.Result) string {
	if len(r.Warnings) == 0 {
		return ""
	}
	return fmt.Sprintf("  (%s)", plural(len(r.Warnings), "warning"))
}

// fold breaks text at spaces into lines of at most n columns.
func fold(text string, n int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len([]rune(*last))+1+len([]rune(word)) > n:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}
