package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/eventmeter/eventmeter/internal/stats"
)

// The size of a chart of a history, in the units of its view box.
const (
	chartWidth  = 360.0
	chartHeight = 120.0
	chartMargin = 24.0
)

// historyView is what the page of a history shows.
type historyView struct {
	shell

	Width, Height float64
	Changes       []historyChange
	Parts         []historyCharts
	Heads         []string
	Rows          []historyRow
	Notes         []string
}

type historyChange struct {
	Run  string
	What []string
}

type historyCharts struct {
	Title  string
	Charts []historyChart
}

// historyChart is the course of one figure: a dot for each run, a line for each level,
// and where it changed.
type historyChart struct {
	Label, Caption string
	Hue            int
	Ticks          []struct {
		Y, TextY float64
		Text     string
	}
	Dots []struct {
		X, Y float64
		Text string
	}
	Levels []struct{ X1, X2, Y float64 }
	Shifts []struct {
		X, X1, W float64
		Worse    bool
	}
}

type historyRow struct {
	Run   string
	Cells []string
}

// HistoryHTML writes a history as a single file with a chart for each figure. The file
// makes no network requests and runs no script.
func HistoryHTML(w io.Writer, h *stats.History) error {
	v := newHistoryView(h)
	return writePage(w, "history.html", v, &v.shell, false)
}

func newHistoryView(h *stats.History) *historyView {
	v := &historyView{
		shell:  shell{Title: historyTitle(h) + " · eventmeter"},
		Width:  chartWidth,
		Height: chartHeight,
		Notes:  historyNotes(h),
	}
	if len(h.Changed()) > 0 {
		for _, line := range historyChanges(h) {
			if line.indent == 0 {
				v.Changes = append(v.Changes, historyChange{Run: line.text})
				continue
			}
			last := &v.Changes[len(v.Changes)-1]
			last.What = append(last.What, line.text)
		}
	}
	for i := range h.Runs {
		v.Rows = append(v.Rows, historyRow{Run: runText(h, i)})
	}
	for hue, part := range historyParts(h) {
		charts := historyCharts{Title: part.title}
		for k := range part.figures {
			f := &part.figures[k]
			charts.Charts = append(charts.Charts, newHistoryChart(h, f, hue%hues))
			v.Heads = append(v.Heads, part.name+" "+seriesLabel(f))
			for i, value := range f.Values {
				text := "–"
				if value != nil {
					text = stats.FormatFigure(f.Unit, *value)
				}
				v.Rows[i].Cells = append(v.Rows[i].Cells, text)
			}
		}
		v.Parts = append(v.Parts, charts)
	}
	return v
}

func newHistoryChart(h *stats.History, f *stats.FigureHistory, hue int) historyChart {
	c := historyChart{Label: seriesLabel(f), Hue: hue}
	values := given(f.Values)
	top := slices.Max(values) * 1.05
	if top <= 0 {
		top = 1
	}
	x := func(run float64) float64 { return round(chartWidth * (run + 0.5) / float64(len(f.Values))) }
	y := func(v float64) float64 {
		return round(chartHeight - chartMargin/2 - v/top*(chartHeight-chartMargin))
	}
	for _, v := range []float64{0, top / 2, top} {
		c.Ticks = append(c.Ticks, struct {
			Y, TextY float64
			Text     string
		}{y(v), y(v) - 2, stats.FormatFigure(f.Unit, v)})
	}
	for i, v := range f.Values {
		if v != nil {
			c.Dots = append(c.Dots, struct {
				X, Y float64
				Text string
			}{x(float64(i)), y(*v), fmt.Sprintf("%s: %s", runText(h, i), stats.FormatFigure(f.Unit, *v))})
		}
	}
	from := -0.5
	for k := range f.Changes {
		s := &f.Changes[k]
		c.Levels = append(c.Levels, struct{ X1, X2, Y float64 }{x(from), x(float64(s.At) - 0.5), y(s.Before)})
		from = float64(s.At) - 0.5
		c.Shifts = append(c.Shifts, struct {
			X, X1, W float64
			Worse    bool
		}{x(from), x(float64(s.Earliest) - 0.5), x(float64(s.Latest)) - x(float64(s.Earliest)), s.Finding == stats.Worse})
		c.Caption += fmt.Sprintf("Run %d: %s. ", s.At+1, levelText(f, s))
	}
	last := stats.MedianOf(values)
	if n := len(f.Changes); n > 0 {
		last = f.Changes[n-1].After
	}
	c.Levels = append(c.Levels, struct{ X1, X2, Y float64 }{x(from), chartWidth, y(last)})
	switch {
	case f.Reason != "":
		c.Caption = "Not searched for changes: " + f.Reason + "."
	case c.Caption == "":
		c.Caption = "No change; the median is " + stats.FormatFigure(f.Unit, last) + "."
	}
	return c
}

// round keeps the page small.
func round(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
