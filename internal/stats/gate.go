package stats

import (
	"errors"
	"fmt"
	"math"
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
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, g)
	}
	return out, errors.Join(errs...)
}

// String returns the gate as it was written.
func (g Gate) String() string { return g.text }

// GateFailure is a gate that did not hold on one lane.
type GateFailure struct {
	Gate string `json:"gate"`
	// Lane is empty for figures of the run.
	Lane string `json:"lane,omitempty"`
	// Unjudged is true if the figure could not be judged, which is not a pass.
	Unjudged bool   `json:"unjudged,omitempty"`
	Text     string `json:"text"`
}

func (g Gate) failures(lane string, figures []Change) []GateFailure {
	f := GateFailure{Gate: g.text, Lane: lane}
	for i := range figures {
		c := &figures[i]
		if c.Figure != g.path {
			continue
		}
		switch {
		case c.A != nil && c.B != nil && *c.A == 0 && *c.B == 0:
			return nil
		case c.Effect == nil || c.Low == nil && c.High == nil:
			f.Unjudged = true
			f.Text = "it cannot be judged: " + c.Reason
		case c.Low != nil && *c.Low > 0 && (c.Absolute || *c.Effect > g.share):
			f.Text = fmt.Sprintf("it got worse, from %s to %s", FormatFigure(c.Unit, *c.A), FormatFigure(c.Unit, *c.B))
			if !c.Absolute {
				f.Text += fmt.Sprintf(" (%+.1f %%, at least %+.1f %%)", 100**c.Effect, 100**c.Low)
			}
		default:
			return nil
		}
		return []GateFailure{f}
	}
	f.Unjudged, f.Text = true, "it was not measured on both sides"
	return []GateFailure{f}
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
