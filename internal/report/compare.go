package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// CompareText writes a comparison for a terminal or a chat: a table for each lane like benchstat's,
// with the change, or a tilde where there is none. It contains no escape codes and no line of the
// tables is wider than 100 columns.
func CompareText(w io.Writer, c *stats.Comparison) error {
	p := &printer{w: w}
	p.wrapped("A  " + sideText(c.A))
	p.wrapped("B  " + sideText(c.B))
	for _, w := range c.Warnings {
		p.wrapped("!  " + warningText(w))
	}
	v := newComparisonView(c)
	p.wrapped(strings.ToUpper(v.Word) + "  " + v.Verdict)
	for _, g := range v.Gates {
		p.wrapped("GATE  " + g.Text)
	}
	p.printf("\n")
	for i := range c.Lanes {
		p.changes(laneTitle(&c.Lanes[i]), c.Lanes[i].Figures)
	}
	if len(c.Run) > 0 {
		p.changes("whole run", c.Run)
	}
	p.shown(c.Upstream)
	for _, line := range compareNotes(c) {
		p.wrapped(line)
	}
	return p.err
}

// wrapped writes text in lines that fit the width, unless a word is longer.
func (p *printer) wrapped(text string) { p.beside("", 2, text) }

// beside writes wrapped text after a label and indents the lines that follow.
func (p *printer) beside(label string, indent int, text string) {
	line, begun := label, false
	for word := range strings.FieldsSeq(text) {
		if begun && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.printf("%s\n", line)
			line, begun = strings.Repeat(" ", indent), false
		}
		if begun {
			line += " "
		}
		line, begun = line+word, true
	}
	p.printf("%s\n", line)
}

func laneTitle(l *stats.LaneChange) string {
	return fmt.Sprintf("%s (%s, %s)", Clean(l.Name), Clean(l.System), Clean(l.Mode))
}

func sideText(s stats.SideInfo) string {
	if len(s.Runs) == 1 {
		r := s.Runs[0]
		return fmt.Sprintf("%s (run %s, eventmeter %s)", Clean(r.Path), Clean(r.Run), Clean(r.Version))
	}
	names := make([]string, len(s.Runs))
	for i, r := range s.Runs {
		names[i] = Clean(r.Path)
	}
	return fmt.Sprintf("%d runs: %s", len(s.Runs), strings.Join(names, ", "))
}

// figureWidth is the width of the first column of the table, the figure, and columnWidths are those of
// A, B, change, interval and p. The finding is last.
const figureWidth = 37

var columnWidths = []int{9, 9, 9, 18, 7}

func (p *printer) changes(title string, figures []stats.Change) {
	p.printf("%s\n", shorten(title, width))
	p.columns("", "", "A", "B", "change", "95 % interval", "p")
	p.printf("%s\n", strings.Repeat("─", width))
	var none []string
	for i := range figures {
		c := &figures[i]
		if c.Finding == stats.Same && c.A != nil && c.B != nil && *c.A == 0 && *c.B == 0 {
			none = append(none, c.Figure)
			continue
		}
		t := changeTexts(c)
		p.columns(figureLabel(c), findingMark(c), t.a, t.b, t.effect, t.bounds, t.p)
	}
	if none != nil {
		p.wrapped("0 on both sides: " + strings.Join(none, ", "))
	}
	p.printf("\n")
}

func (p *printer) columns(label, finding string, cells ...string) {
	line := padRight(shorten(label, figureWidth), figureWidth)
	for i, cell := range cells {
		line += padLeft(shorten(cell, columnWidths[i]-1), columnWidths[i])
	}
	p.printf("%s\n", strings.TrimRight(line+"  "+finding, " "))
}

// figureLabel is the figure's path, which can be copied into a gate, or the name of a latency.
func figureLabel(c *stats.Change) string {
	if c.Per != "" {
		return c.Figure + "/" + c.Per
	}
	return results.FigureName(c.Figure)
}

// findingMark is the finding in the width of the last column.
func findingMark(c *stats.Change) string {
	switch c.Finding {
	case stats.Better:
		return "better"
	case stats.Worse:
		return "WORSE"
	case stats.Same:
		return "same"
	}
	return "?"
}

// changeTexts are the cells of a change, one per column.
type changeText struct{ a, b, effect, bounds, p string }

func changeTexts(c *stats.Change) changeText {
	t := changeText{a: "–", b: "–", effect: "–", p: ""}
	if c.A != nil {
		t.a = stats.FormatFigure(c.Unit, *c.A)
	}
	if c.B != nil {
		t.b = stats.FormatFigure(c.Unit, *c.B)
	}
	if c.Effect == nil {
		return t
	}
	t.effect = effectText(c, c.Effect)
	if c.Finding == stats.Same {
		t.effect = "~"
	}
	if c.Low != nil || c.High != nil {
		t.bounds = boundText(c, c.Low, "-∞") + " " + boundText(c, c.High, "+∞")
	}
	if c.P != nil {
		t.p = pText(*c.P)
	}
	return t
}

func boundText(c *stats.Change, v *float64, none string) string {
	if v == nil {
		return none
	}
	return effectText(c, v)
}

// effectText writes a relative change in percent and an absolute one in the
// figure's unit, with a sign.
func effectText(c *stats.Change, v *float64) string {
	if !c.Absolute {
		return percent(*v)
	}
	if *v < 0 {
		return "-" + stats.FormatFigure(c.Unit, -*v)
	}
	return "+" + stats.FormatFigure(c.Unit, *v)
}

func percent(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10:
		return fmt.Sprintf("%+.0f%%", 100*v)
	case a < 0.0005:
		return "0.0%"
	}
	return fmt.Sprintf("%+.1f%%", 100*v)
}

func pText(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// compareNotes writes the lines below the tables: the meaning of the findings, the detectable
// effects, and warnings.
func compareNotes(c *stats.Comparison) []string {
	notes := []string{
		fmt.Sprintf(
			"Less is better. %s tested together; equal sides differ in at most %.3g %% of comparisons.",
			plural(c.Tested, "figure"),
			100*c.Alpha,
		),
		fmt.Sprintf(
			"Changes below %.3g %% do not count; \"same\" rules out a change of %.3g %%; \"?\" = not enough data.",
			100*c.MinEffect,
			100*c.Resolution,
		),
		"Gates name scheduled → received latency.fromIntended, and published → received latency.fromSent.",
	}
	if d := c.Duet; d != nil {
		notes = append(
			notes,
			fmt.Sprintf(
				"A and B were measured together: both published %s at the same instants, A first in %s of them. Intervals of "+
					"latencies allow for %v, by which two processes of one build may differ.",
				plural(d.Events, "event"),
				count(d.FirstA),
				stats.Allowance,
			),
		)
	}
	for i := range c.Lanes {
		l := &c.Lanes[i]
		switch {
		case l.Paired != nil:
			notes = append(
				notes,
				fmt.Sprintf(
					"%s: latencies are compared in %s of deliveries, of %s that both sides received",
					Clean(l.Name),
					plural(l.Paired.Deliveries, "pair"),
					plural(l.Paired.Events, "event"),
				),
			)
		case c.Duet != nil:
			notes = append(
				notes,
				Clean(
					l.Name,
				)+": no delivery could be paired, because none carries the id of an event or none came to both sides; "+
					"latencies are compared as those of two runs",
			)
		}
		if figures := typicalStretch(l.Figures); figures != "" {
			notes = append(
				notes,
				fmt.Sprintf(
					"%s: the change is that of a typical stretch of the run, where other work of the machine hides it least: %s",
					Clean(l.Name),
					figures,
				),
			)
		}
		if d := detectable(l.Figures); d != "" {
			notes = append(notes, fmt.Sprintf("%s: detectable with 80 %% probability: %s", Clean(l.Name), d))
		}
		for _, r := range reasons(l.Figures) {
			notes = append(notes, Clean(l.Name)+": "+r)
		}
	}
	for _, only := range []struct {
		side  string
		lanes []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.lanes) > 0 {
			notes = append(notes, fmt.Sprintf("only in %s: %s", only.side, Clean(strings.Join(only.lanes, ", "))))
		}
	}
	return notes
}

// typicalStretch lists the figures whose change is not that from A to B of the whole
// run.
func typicalStretch(figures []stats.Change) string {
	var names []string
	for i := range figures {
		if figures[i].Method == stats.TypicalStretch {
			names = append(names, results.FigureName(figures[i].Figure))
		}
	}
	return strings.Join(names, "; ")
}

// detectable names the smallest detectable effects on the latency scheduled → received.
func detectable(figures []stats.Change) string {
	var parts []string
	for i := range figures {
		c := &figures[i]
		if strings.HasPrefix(c.Figure, "latency.fromIntended.") && c.Detectable != nil && !c.Absolute {
			parts = append(parts, fmt.Sprintf("%s of %s", percent(*c.Detectable), results.FigureName(c.Figure)))
		}
	}
	return strings.Join(parts, "; ")
}

// reasons explains the figures without a finding, grouped by reason.
func reasons(figures []stats.Change) []string {
	var order []string
	of := map[string][]string{}
	for i := range figures {
		c := &figures[i]
		if c.Finding != stats.NotEnough || c.Reason == "" {
			continue
		}
		if of[c.Reason] == nil {
			order = append(order, c.Reason)
		}
		of[c.Reason] = append(of[c.Reason], results.FigureName(c.Figure))
	}
	var out []string
	for _, r := range order {
		out = append(out, fmt.Sprintf("? %s: %s", r, strings.Join(of[r], "; ")))
	}
	return out
}
