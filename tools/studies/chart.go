package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is a chart of lines over one axis, drawn as SVG. It has a background of its own, so that it can
// be read on light and dark pages.
type chart struct {
	Name  string  `yaml:"name"`
	Title string  `yaml:"title"`
	X     axis    `yaml:"x"`
	Y     axis    `yaml:"y"`
	Lines []lines `yaml:"lines"`
}

// axis is one axis. A logarithmic one leaves out values that are not positive.
type axis struct {
	Title string `yaml:"title"`
	Log   bool   `yaml:"log"`
}

// lines are the lines of some rows: those with the same name are the points of one.
type lines struct {
	Select selection `yaml:",inline"`
	Line   string    `yaml:"line"`   // expression: the name
	X      string    `yaml:"x"`      // expression: a number
	Y      string    `yaml:"y"`      // expression: a number, or a list whose median is drawn with its range
	Dashed bool      `yaml:"dashed"` // what was computed, not measured
	Points bool      `yaml:"points"` // no line between them
}

// line is one line of a chart.
type line struct {
	*lines
	name   string
	points plotter.XYs
	ranges plotter.YErrors // from each point down and up
}

// drawCharts draws the charts of a directory that are not there. Those that are may have lines which nothing
// computes again.
func (s *study) drawCharts(dir string, env map[string]any) error {
	for i := range s.Charts {
		file := filepath.Join(dir, s.Charts[i].Name+".svg")
		if _, err := os.Stat(file); err == nil {
			continue
		}
		svg, err := s.Charts[i].draw(env)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *chart) draw(env map[string]any) ([]byte, error) {
	var all []line
	for i := range c.Lines {
		some, err := c.points(&c.Lines[i], env)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", c.Name, err)
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("chart %s: %w", c.Name, errNothing)
	}
	return c.svg(all)
}

func (c *chart) points(l *lines, env map[string]any) ([]line, error) {
	rows, err := l.Select.pick(env)
	if err != nil {
		return nil, err
	}
	var all []line
	for _, row := range rows {
		name, err := eval(l.Line, row)
		x, err2 := eval(l.X, row)
		y, err3 := eval(l.Y, row)
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		at, ok := number(x)
		values, too := list(y)
		if !ok || !too {
			return nil, fmt.Errorf("line %v: no number in x = %v, y = %v", name, x, y)
		}
		median, low, high := middle(values)
		if c.X.Log && at <= 0 || c.Y.Log && low <= 0 {
			continue
		}
		i := slices.IndexFunc(all, func(m line) bool { return m.name == fmt.Sprint(name) })
		if i < 0 {
			i = len(all)
			all = append(all, line{lines: l, name: fmt.Sprint(name)})
		}
		all[i].points = append(all[i].points, plotter.XY{X: at, Y: median})
		all[i].ranges = append(all[i].ranges, struct{ Low, High float64 }{median - low, high - median})
	}
	return all, nil
}

// svg draws the chart, with its legend below it.
func (c *chart) svg(all []line) ([]byte, error) {
	p, legend := plot.New(), plot.NewLegend()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X.Title, c.Y.Title
	legend.Left, legend.Padding = true, 3
	for i := range all {
		if err := all[i].add(p, &legend, i); err != nil {
			return nil, err
		}
	}
	c.X.fit(&p.X)
	c.Y.fit(&p.Y)
	canvas := vgsvg.New(600, 310+vg.Length(20*len(all)))
	page := draw.New(canvas)
	page.FillPolygon(color.White, []vg.Point{{}, {X: page.Max.X}, page.Max, {Y: page.Max.Y}})
	below := legend.Rectangle(page)
	legend.Draw(draw.Crop(page, 40, 0, 0, 0))
	p.Draw(draw.Crop(page, 5, -35, below.Max.Y-below.Min.Y+10, -5))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

// fit has an axis begin at zero, or begin and end at powers of ten.
func (a *axis) fit(to *plot.Axis) {
	if !a.Log {
		to.Min = min(0, to.Min)
		return
	}
	to.Scale, to.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	to.Min = math.Pow(10, math.Floor(math.Log10(to.Min)))
	to.Max = max(10*to.Min, math.Pow(10, math.Ceil(math.Log10(to.Max))))
}

// add adds line i to a chart.
func (l *line) add(p *plot.Plot, legend *plot.Legend, i int) error {
	path, marks, err := plotter.NewLinePoints(l.points)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(l)
	if err != nil {
		return err
	}
	path.Color = plotutil.DarkColors[i%len(plotutil.DarkColors)]
	marks.Color, bars.Color, marks.Shape = path.Color, path.Color, plotutil.Shape(i)
	switch {
	case l.Dashed:
		path.Dashes = []vg.Length{4, 3}
		p.Add(path)
		legend.Add(l.name, path)
	case l.Points:
		p.Add(marks, bars)
		legend.Add(l.name, marks)
	default:
		p.Add(path, marks, bars)
		legend.Add(l.name, path, marks)
	}
	return nil
}

// Len, XY and YError make a line what error bars are drawn of.

func (l *line) Len() int { return len(l.points) }

func (l *line) XY(i int) (x, y float64) { return l.points.XY(i) }

func (l *line) YError(i int) (low, high float64) { return l.ranges.YError(i) }
