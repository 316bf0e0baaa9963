package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// ErrGate is wrapped by every error about a gate's text.
var ErrGate = errors.New("bad gate")

// Gate is how much worse one figure may become:
//
//	WHERE.FIGURE <= +SHARE
//
// WHERE is a lane's name, * for every lane, or run. FIGURE is written as in
// thresholds, and comparisons have it. SHARE is relative and written 5% or 0.05;
// +0 allows no change for the worse.
type Gate struct {
	text  string
	where string
	path  string
	share float64
}

// ParseGate reads one gate. It checks that the figure is one that is compared;
// lanes are checked by [Comparison.Failed].
func ParseGate(text string) (Gate, error) {
	b, ok := results.SplitBound(text)
	share, more := strings.CutPrefix(b.Value, "+")
	if !ok || b.Where == "" || b.Op != "<=" || !more {
		return Gate{}, fmt.Errorf("%w %q: want LANE.FIGURE <= +SHARE, e.g. push.p99 <= +5%%", ErrGate, text)
	}
	g := Gate{text: strings.TrimSpace(text), where: b.Where, path: b.Figure}
	if g.where != "run" {
		g.path = strings.Join(results.FigurePath(b.Figure), ".")
	}
	if err := comparedFigure(g.where, g.path); err != nil {
		return Gate{}, fmt.Errorf("%w %q: %w", ErrGate, text, err)
	}
	number, percent := strings.CutSuffix(share, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return Gate{}, fmt.Errorf("%w %q: %q is not a share: write e.g. +5%% or +0.05", ErrGate, text, b.Value)
	}
	if g.share = v; percent {
		g.share /= 100
	}
	return g, nil
}

// ParseGates reads all of texts and joins their errors.
func ParseGates(texts []string) ([]Gate, error) {
	var out []Gate
	var errs []error
	for _, text := range texts {
		g, err := ParseGate(text)
		if err == nil {
			out = append(out, g)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// String returns the gate as it was written.
func (g Gate) String() string { return g.text }

// Where returns the name of the gate's lane, * for every lane, or run.
func (g Gate) Where() string { return g.where }

// Events returns how many events a duet needs to judge the gate on a lane; 0 = any number.
func (g Gate) Events() int {
	for _, f := range laneFigures {
		if f.path == g.path && f.tag != "" {
			return int(math.Round(leastTail / (1 - quantilesCompared[f.rank])))
		}
	}
	return 0
}

// judge returns the verdict of the gate on one lane; "" = the run. Where the figure is known on both sides, the
// text has it.
func (g Gate) judge(lane string, figures []Change) results.Verdict {
	i := slices.IndexFunc(figures, func(c Change) bool { return c.Figure == g.path })
	if i < 0 {
		return g.unjudged(lane, "it was not measured on both sides")
	}
	c, v := &figures[i], results.Verdict{Threshold: g.text, Lane: lane}
	if c.A != nil && c.B != nil {
		v.Text = fmt.Sprintf("from %s to %s", FormatFigure(c.Unit, *c.A), FormatFigure(c.Unit, *c.B))
	}
	switch {
	case c.A != nil && c.B != nil && *c.A == 0 && *c.B == 0:
		v.Passed = true
	case c.Effect == nil || c.Low == nil && c.High == nil:
		return g.unjudged(lane, "it cannot be judged: "+c.Reason)
	case c.Low != nil && *c.Low > 0 && (c.Absolute || *c.Effect > g.share):
		v.Text = "it got worse, " + v.Text
		if !c.Absolute {
			v.Text += fmt.Sprintf(" (%+.1f %%, at least %+.1f %%)", 100**c.Effect, 100**c.Low)
		}
	default:
		v.Passed = true
	}
	if v.Passed {
		v.Text = "it held, " + v.Text
	}
	return v
}

// unjudged is the verdict of a gate whose figure cannot be judged, which is not a pass.
func (g Gate) unjudged(lane, why string) results.Verdict {
	return results.Verdict{Threshold: g.text, Lane: lane, NotEvaluated: why, Text: why}
}

// FormatFigure writes the value of a compared figure with its unit: 12.3ms,
// 4.56 KiB, 0.12 %.
func FormatFigure(unit string, v float64) string {
	switch unit {
	case "ns":
		return results.Nanos(math.Round(v)).String()
	case "share":
		return significant(100*v) + " %"
	case "bytes":
		units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
		i := 0
		for ; math.Abs(v) >= 1024 && i < len(units)-1; i++ {
			v /= 1024
		}
		return significant(v) + " " + units[i]
	}
	return significant(v)
}

// significant formats three significant digits, without an exponent where possible.
func significant(v float64) string {
	if a := math.Abs(v); a >= 1000 && a < 1e9 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
