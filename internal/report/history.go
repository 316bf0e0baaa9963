package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/eventmeter/eventmeter/internal/stats"
)

// sparkWidth is how many marks a series has at most in text.
const sparkWidth = 36

// HistoryText writes a history for a terminal: a line for each figure with its course
// over the runs, and then the runs with which figures changed. It contains no escape
// codes, and no line of the tables is wider than 100 columns.
func HistoryText(w io.Writer, h *stats.History) error {
	p := &printer{w: w}
	p.wrapped(historyTitle(h))
	p.printf("\n")
	for _, l := range historyParts(h) {
		p.printf(
			"%s\n%s%s  %s\n%s\n",
			shorten(l.title, width),
			padRight("", figureWidth),
			padLeft("now", valueWidth),
			"runs",
			strings.Repeat("─", width),
		)
		for i := range l.figures {
			f := &l.figures[i]
			text := padRight(
				shorten(seriesLabel(f), figureWidth),
				figureWidth,
			) + padLeft(
				shorten(nowText(f), valueWidth),
				valueWidth,
			) + "  " + padRight(
				spark(f.Values),
				sparkWidth+2,
			) + changesText(
				f,
			)
			p.printf("%s\n", strings.TrimRight(text, " "))
		}
		p.printf("\n")
	}
	for _, line := range historyChanges(h) {
		p.beside(strings.Repeat(" ", line.indent), line.indent+2, line.text)
	}
	p.printf("\n")
	for _, note := range historyNotes(h) {
		p.wrapped(note)
	}
	return p.err
}

// HistoryMarkdown writes a history as a comment: changes first, then every figure,
// folded. Text from a target is escaped.
func HistoryMarkdown(w io.Writer, h *stats.History) error {
	p := &printer{w: w}
	p.printf("### eventmeter history\n\n%s\n\n", Markup(historyTitle(h)))
	for _, line := range historyChanges(h) {
		if line.indent == 0 {
			p.printf("\n**%s**\n\n", Markup(line.text))
		} else {
			p.printf("- %s\n", Markup(line.text))
		}
	}
	p.printf("\n<details><summary>All figures</summary>\n\n")
	for _, l := range historyParts(h) {
		p.printf("**%s**\n\n| figure | now | runs | changes |\n|---|--:|---|---|\n", Markup(l.title))
		for i := range l.figures {
			f := &l.figures[i]
			p.row(Markup(seriesLabel(f)), nowText(f), spark(f.Values), changesText(f))
		}
		p.printf("\n")
	}
	p.printf("</details>\n\n")
	for _, note := range historyNotes(h) {
		p.printf("%s  \n", Markup(note))
	}
	return p.err
}

// historyPart is the figures of a lane or of the whole run, without those that no run
// has.
type historyPart struct {
	title, name string
	figures     []stats.FigureHistory
}

func historyParts(h *stats.History) []historyPart {
	var out []historyPart
	add := func(title, name string, of []stats.FigureHistory) {
		l := historyPart{title: title, name: name}
		for _, f := range of {
			if values := given(f.Values); len(values) > 0 && (f.Unit != "share" || !allZero(values)) {
				l.figures = append(l.figures, f)
			}
		}
		if len(l.figures) > 0 {
			out = append(out, l)
		}
	}
	for i := range h.Lanes {
		l := &h.Lanes[i]
		add(fmt.Sprintf("%s (%s, %s)", Clean(l.Name), Clean(l.System), Clean(l.Mode)), Clean(l.Name), l.Figures)
	}
	add("whole run", "whole run", h.Run)
	return out
}

func given(values []*float64) []float64 {
	var out []float64
	for _, v := range values {
		if v != nil {
			out = append(out, *v)
		}
	}
	return out
}

func allZero(values []float64) bool {
	for _, v := range values {
		if v != 0 {
			return false
		}
	}
	return true
}

func historyTitle(h *stats.History) string {
	first, last := h.Runs[0], h.Runs[len(h.Runs)-1]
	return fmt.Sprintf("%s from %s to %s", plural(int64(len(h.Runs)), "run"), runTime(&first), runTime(&last))
}

func runTime(r *stats.HistoryRun) string { return r.Started.UTC().Format("2006-01-02 15:04") }

// runText names a run and what it measured. Runs are counted from 1.
func runText(h *stats.History, i int) string {
	r := &h.Runs[i]
	parts := []string{Clean(r.Path), runTime(r)}
	if what := strings.TrimSpace(Clean(r.Target) + " " + Clean(r.TargetVersion)); what != "" {
		parts = append(parts, what)
	}
	if r.Commit != "" {
		parts = append(parts, "commit "+Clean(r.Commit))
	}
	parts = append(parts, "eventmeter "+Clean(r.Version))
	return fmt.Sprintf("Run %d of %d: %s", i+1, len(h.Runs), strings.Join(parts, ", "))
}

func seriesLabel(f *stats.FigureHistory) string {
	return figureLabel(&stats.Change{Figure: f.Figure, Per: f.Per})
}

// nowText is the level that the figure has since its last change.
func nowText(f *stats.FigureHistory) string {
	if n := len(f.Changes); n > 0 {
		return stats.FormatFigure(f.Unit, f.Changes[n-1].After)
	}
	return stats.FormatFigure(f.Unit, stats.MedianOf(given(f.Values)))
}

func changesText(f *stats.FigureHistory) string {
	switch {
	case f.Reason != "":
		return "?"
	case len(f.Changes) == 0:
		return ""
	}
	return plural(int64(len(f.Changes)), "change")
}

// A historyLine is a run (indent 0) or what changed with it.
type historyLine struct {
	indent int
	text   string
}

func historyChanges(h *stats.History) []historyLine {
	var out []historyLine
	for _, run := range h.Changed() {
		out = append(out, historyLine{0, runText(h, run)})
		for _, l := range historyParts(h) {
			for i := range l.figures {
				f := &l.figures[i]
				for k := range f.Changes {
					if f.Changes[k].At == run {
						out = append(out, historyLine{2, l.name + " " + seriesLabel(f) + ": " + levelText(f, &f.Changes[k])})
					}
				}
			}
		}
		if d := h.Runs[run].Differs; len(d) > 0 {
			out = append(out, historyLine{2, "also differs from the run before: " + Clean(strings.Join(d, "; "))})
		}
	}
	if out == nil {
		out = []historyLine{{0, "No figure changed."}}
	}
	return out
}

func levelText(f *stats.FigureHistory, c *stats.LevelChange) string {
	change := stats.Change{Unit: f.Unit, A: &c.Before, B: &c.After, Effect: &c.Effect, Absolute: c.Absolute, Low: c.Low, High: c.High}
	t := changeTexts(&change)
	text := fmt.Sprintf(
		"%s to %s, %s (95 %% interval %s to %s), %s",
		t.a,
		t.b,
		t.effect,
		boundText(&change, c.Low, "-∞"),
		boundText(&change, c.High, "+∞"),
		c.Finding,
	)
	if c.Earliest != c.Latest {
		text += fmt.Sprintf("; it began with run %d to %d (95 %%)", c.Earliest+1, c.Latest+1)
	}
	return text
}

func historyNotes(h *stats.History) []string {
	notes := []string{
		fmt.Sprintf(
			"Less is better. A figure of runs that are alike is said to have changed in at most %.3g %% of histories; changes below %.3g %% and levels of fewer than %d runs do not count; \"?\" = not enough data.",
			100*h.Alpha,
			100*h.MinEffect,
			stats.LeastLevel,
		),
	}
	for i := range h.Lanes {
		seen := map[string]bool{}
		for _, f := range h.Lanes[i].Figures {
			if f.Reason != "" && len(given(f.Values)) > 0 && !seen[f.Reason] {
				seen[f.Reason] = true
				notes = append(notes, fmt.Sprintf("%s %s: %s", Clean(h.Lanes[i].Name), f.Figure, f.Reason))
			}
		}
	}
	for _, w := range h.Warnings {
		notes = append(notes, "warning: "+Clean(w.Text))
	}
	return notes
}

// spark draws a series in characters of eight heights, of which each stands for the
// median of as many runs as are needed to fit.
func spark(values []*float64) string {
	per := (len(values) + sparkWidth - 1) / sparkWidth
	var marks []float64
	low, high := math.Inf(1), math.Inf(-1)
	for from := 0; from < len(values); from += per {
		v := math.NaN()
		if of := given(values[from:min(from+per, len(values))]); len(of) > 0 {
			v = stats.MedianOf(of)
			low, high = min(low, v), max(high, v)
		}
		marks = append(marks, v)
	}
	heights := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range marks {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case high == low:
			b.WriteRune(heights[0])
		default:
			b.WriteRune(heights[int((v-low)/(high-low)*float64(len(heights)-1)+0.5)])
		}
	}
	return b.String()
}
