package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats"
)

// CompareHTML writes a comparison as a single file. With the pages of its runs, which may be none,
// the file shows them overlaid below the comparison.
func CompareHTML(w io.Writer, c *stats.Comparison, runs []Page) error {
	compared := newComparisonView(c)
	if len(runs) > 0 {
		v := newView(runs)
		v.Title, v.Comparison = compared.Title, compared
		return writePage(w, "report.html", v, &v.shell, true)
	}
	return writePage(w, "compare.html", compared, &compared.shell, false)
}

// comparisonView is what a page shows of a comparison.
type comparisonView struct {
	shell

	A, B          string
	Word, Class   string // the verdict in a word, and its CSS class
	Verdict       string
	Changed       []changedLine
	Parts         []comparedPart
	Notes         []string
	Warnings      []string
	Upstream      []changeRow
	Worse, Better int
	Gates         []gateLine
}

// gateLine is the verdict of a gate on a lane.
type gateLine struct {
	Text string
	Held bool
}

// changedLine is a figure that differs, in words.
type changedLine struct {
	Where, Figure, Text string
	Worse               bool
}

// comparedPart is one lane, or the whole run.
type comparedPart struct {
	Title string
	Rows  []changeRow
	Ticks []tick
}

// changeRow is a figure of both sides.
type changeRow struct {
	Label, A, B, Effect, Bounds, P, Finding string
	Class                                   string
	// Drawn says that the positions below are known: of the change and of the ends of its
	// interval.
	Drawn         bool
	At, Low, Wide float64
	// Beyond says that the change lies outside the axis: "left", "right" or "".
	Beyond string
}

func newComparisonView(c *stats.Comparison) *comparisonView {
	v := &comparisonView{A: sideText(c.A), B: sideText(c.B), Notes: compareNotes(c)}
	v.Title = fmt.Sprintf("Comparison of %s with %s · eventmeter", shortSide(c.B), shortSide(c.A))
	tested, same := 0, 0
	part := func(title, where string, figures []stats.Change) {
		p := comparedPart{Title: title}
		axis := changeScale(figures)
		p.Ticks = axis.changeTicks()
		for i := range figures {
			f := &figures[i]
			p.Rows = append(p.Rows, newChangeRow(f, axis))
			tested++
			switch {
			case f.Finding == stats.Same:
				same++
			case f.Changed():
				v.changed(where, f)
			}
		}
		v.Parts = append(v.Parts, p)
	}
	for i := range c.Lanes {
		part(laneTitle(&c.Lanes[i]), Clean(c.Lanes[i].Name), c.Lanes[i].Figures)
	}
	if len(c.Run) > 0 {
		part("Whole run", "run", c.Run)
	}
	for _, s := range c.Upstream {
		v.Upstream = append(v.Upstream, changeRow{Label: Clean(s.Figure), A: shownValue(s.Unit, s.A), B: shownValue(s.Unit, s.B)})
	}
	for _, w := range c.Warnings {
		v.Warnings = append(v.Warnings, warningText(w))
	}
	for _, g := range c.Gates {
		v.Gates = append(v.Gates, gateLine{Clean(fmt.Sprintf("%s, %s: %s", g.Threshold, cmp.Or(g.Lane, "run"), g.Text)), g.Passed})
	}
	slices.SortStableFunc(v.Changed, func(a, b changedLine) int { // worse ones first
		switch {
		case a.Worse == b.Worse:
			return 0
		case a.Worse:
			return -1
		}
		return 1
	})
	for i := range v.Notes {
		v.Notes[i] = Clean(v.Notes[i])
	}
	v.judge(tested, same)
	return v
}

// shortSide names a side in a title.
func shortSide(s stats.SideInfo) string {
	if len(s.Runs) == 1 {
		return Clean(filepath.Base(filepath.Clean(s.Runs[0].Path)))
	}
	parent := filepath.Dir(filepath.Clean(s.Runs[0].Path))
	for _, r := range s.Runs {
		if filepath.Dir(filepath.Clean(r.Path)) != parent {
			parent = "."
		}
	}
	if parent == "." || parent == "/" {
		return plural(len(s.Runs), "run")
	}
	return fmt.Sprintf("%s (%s)", Clean(filepath.Base(parent)), plural(len(s.Runs), "run"))
}

func shownValue(unit string, v *float64) string {
	if v == nil {
		return "–"
	}
	return stats.FormatFigure(unit, *v)
}

func (v *comparisonView) changed(where string, f *stats.Change) {
	t := spacedTexts(f)
	line := changedLine{
		Where:  where,
		Figure: figureLabel(f),
		Worse:  f.Finding == stats.Worse,
		Text:   fmt.Sprintf("%s, from %s to %s", t.effect, t.a, t.b),
	}
	if t.bounds != "" {
		line.Text += " (95 % interval " + t.bounds + ")"
	}
	if line.Worse {
		v.Worse++
	} else {
		v.Better++
	}
	v.Changed = append(v.Changed, line)
}

// judge names no side better or worse without a figure that differs.
func (v *comparisonView) judge(tested, same int) {
	figures := plural(tested, "figure")
	rest := fmt.Sprintf("%d are the same, and of %d there is not enough data", same, tested-same-v.Worse-v.Better)
	say := func(word, class, format string, args ...any) {
		v.Word, v.Class, v.Verdict = word, class, fmt.Sprintf(format, args...)
	}
	switch {
	case v.Worse > 0 && v.Better > 0:
		say("mixed", "unclean", "Of %s, %d are worse in B and %d better; %s.", figures, v.Worse, v.Better, rest)
	case v.Worse > 0:
		say("B is worse", "fail", "Of %s, %d are worse in B and none is better; %s.", figures, v.Worse, rest)
	case v.Better > 0:
		say("B is better", "pass", "Of %s, %d are better in B and none is worse; %s.", figures, v.Better, rest)
	case same == 0:
		say("not enough data", "not-judged", "These runs show no difference in any of %s, and rule none out.", figures)
	default:
		say("tie", "not-judged", "No difference was found in any of %s: %s.", figures, rest)
	}
}

func newChangeRow(f *stats.Change, axis changeAxis) changeRow {
	t := spacedTexts(f)
	r := changeRow{Label: figureLabel(f), A: t.a, B: t.b, Effect: t.effect, Bounds: t.bounds, P: t.p, Finding: findingText(f.Finding)}
	switch f.Finding {
	case stats.Worse:
		r.Class = "unclean"
	case stats.Better:
		r.Class = "better"
	}
	if f.Effect == nil || f.Absolute || f.Low == nil && f.High == nil {
		return r
	}
	low, high := 0.0, 100.0
	if f.Low != nil {
		low = axis.at(*f.Low)
	}
	if f.High != nil {
		high = axis.at(*f.High)
	}
	switch {
	case *f.Effect > float64(axis):
		r.Beyond = "right"
	case *f.Effect < -float64(axis):
		r.Beyond = "left"
	}
	r.Drawn, r.At, r.Low, r.Wide = true, axis.at(*f.Effect), low, round2(max(high-low, 0.5))
	return r
}

// spacedTexts are the cells of a change, as pages write them.
func spacedTexts(f *stats.Change) changeText {
	t := changeTexts(f)
	t.effect, t.bounds = spaced(t.effect), ""
	if f.Low != nil || f.High != nil {
		t.bounds = spaced(boundText(f, f.Low, "-∞") + " to " + boundText(f, f.High, "+∞"))
	}
	return t
}

func findingText(f stats.Finding) string {
	if f == stats.NotEnough {
		return "not enough data"
	}
	return string(f)
}

// changeAxis is the axis of relative changes: from -most to +most, with no change in the middle.
type changeAxis float64

// changeScale holds the intervals of figures, unless they are wider than threefold.
func changeScale(figures []stats.Change) changeAxis {
	most := 0.1
	for i := range figures {
		f := &figures[i]
		if f.Absolute {
			continue
		}
		for _, v := range []*float64{f.Effect, f.Low, f.High} {
			if v != nil {
				most = max(most, math.Abs(*v))
			}
		}
	}
	return changeAxis(min(most, 2) * 1.05)
}

func (a changeAxis) at(v float64) float64 {
	return round2(min(max(50+50*v/float64(a), 0), 100))
}

func (a changeAxis) changeTicks() []tick {
	return []tick{{0, spaced(percent(-float64(a))), "start"}, {50, "0", "middle"}, {100, spaced(percent(float64(a))), "end"}}
}
