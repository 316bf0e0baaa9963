package results

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// ErrCondition is wrapped by every error about a condition's text.
var ErrCondition = errors.New("bad condition")

// Condition is how exactly a latency has to be known:
//
//	LANE.PERCENTILE ±SHARE%
//
// LANE is a lane's name, or * for every lane. PERCENTILE is p50, p90, p95, p99 or p999 of the latency
// from the scheduled instant, or the full name of a latency as thresholds have it, such as
// latency.fromSent.p99. +-5% and +/-5% are the same as ±5%. The condition holds where half of the
// width of the figure's interval is at most this share of the figure, and nothing speaks against the
// figure.
type Condition struct {
	text   string
	lane   string
	figure string // as in Latency.Intervals
	path   []string
	within float64
}

var conditionForm = regexp.MustCompile(`^([a-z0-9*][a-z0-9-]*)\.([A-Za-z0-9.]+)\s*(?:±|\+/?-)\s*([0-9.]+)\s*(%?)$`)

// ParseConditions reads all of texts, each of which may hold several conditions with commas between
// them, and joins their errors. Lanes are checked by [Condition.CheckLanes].
func ParseConditions(texts []string) (out []Condition, err error) {
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			one = strings.TrimSpace(one)
			c, bad := parseCondition(one)
			if bad != nil {
				err = errors.Join(err, fmt.Errorf("%w %q: %w", ErrCondition, one, bad))
				continue
			}
			out = append(out, c)
		}
	}
	return out, err
}

func parseCondition(text string) (Condition, error) {
	m := conditionForm.FindStringSubmatch(text)
	if m == nil {
		return Condition{}, errors.New("want LANE.PERCENTILE ±SHARE%, e.g. push.p99 ±5%")
	}
	c := Condition{text: text, lane: m[1], path: strings.Split(m[2], ".")}
	if len(c.path) == 1 {
		c.path = []string{"latency", "fromIntended", c.path[0]}
	}
	if _, err := FigureType(reflect.TypeFor[Lane](), c.path); err != nil {
		return Condition{}, err
	}
	var l Latency
	for _, part := range l.parts() {
		for _, x := range part.q.All() {
			if name := part.name + "." + x.Name; "latency."+name == strings.Join(c.path, ".") {
				c.figure = name
			}
		}
	}
	if c.figure == "" {
		return Condition{}, fmt.Errorf("%q has no interval; name one of p50, p90, p95, p99, p999, or of these in latency.fromSent", m[2])
	}
	percent, err := strconv.ParseFloat(m[3], 64)
	switch {
	case err != nil || percent <= 0 || percent > 100:
		return Condition{}, fmt.Errorf("%q is not a share: write one above 0%% and up to 100%%", m[3]+m[4])
	case m[4] == "":
		return Condition{}, fmt.Errorf("%q has no unit: write ±%s%%", m[3], m[3])
	}
	c.within = percent / 100
	return c, nil
}

// CheckLanes reports a condition on a lane that is not among names, which are those of the lanes
// that receive events.
func (c Condition) CheckLanes(names []string) error {
	for _, n := range names {
		if c.Of(n) {
			return nil
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%w %q: no lane receives events", ErrCondition, c.text)
	}
	return fmt.Errorf(
		"%w %q: there is no lane %q that receives events; those are %s",
		ErrCondition,
		c.text,
		c.lane,
		strings.Join(names, ", "),
	)
}

// Of reports whether the condition is on the lane of that name.
func (c Condition) Of(lane string) bool { return c.lane == "*" || c.lane == lane }

// Judge says how exactly the figure of a lane is known. The doubts of its intervals must be set.
func (c Condition) Judge(l *Lane) Precision {
	out := Precision{Condition: c.text, Lane: l.Name, Figure: c.figure, AtMost: c.within}
	value, _, _ := FigureAt(reflect.ValueOf(l).Elem(), c.path)
	in := l.Latency.Intervals[c.figure]
	out.Value, out.Doubt = Nanos(value), in.Doubt
	if in.High != 0 {
		half := float64(in.High-in.Low) / 2 / max(value, 1)
		out.HalfWidth = &half
		out.Reached = half <= c.within && in.Doubt == ""
	}
	return out
}

// name is the name of the figure as people write it in a condition.
func (p *Precision) name() string {
	if short, ok := strings.CutPrefix(p.Figure, "fromIntended."); ok {
		return p.Lane + "." + short
	}
	return p.Lane + ".latency." + p.Figure
}

// plusMinus writes a half-width: ±4.8 %.
func plusMinus(x float64) string { return "±" + strconv.FormatFloat(100*x, 'g', 3, 64) + " %" }

// Brief says how exactly the figure is known, and how exactly it has to be: push.p99 ±7.2 % of ±5 %.
func (p *Precision) Brief() string {
	now := "±?"
	if p.HalfWidth != nil {
		now = plusMinus(*p.HalfWidth)
	}
	if p.Doubt != "" {
		now += " (" + p.Doubt + ")"
	}
	return p.name() + " " + now + " of " + plusMinus(p.AtMost)
}

// String says how exactly the figure is known, and what ended the measured phase.
func (p *Precision) String() string {
	took, figure := p.Measured.String(), p.name()
	switch {
	case p.Value == 0:
		figure += " has no deliveries"
	case p.HalfWidth == nil: // the doubt says why
		figure += " " + p.Value.String()
	default:
		figure += " " + p.Value.String() + " " + plusMinus(*p.HalfWidth)
	}
	if p.Doubt != "" {
		figure += ", in doubt (" + p.Doubt + "),"
	}
	if p.Reached {
		return "measured " + took + ": " + figure
	}
	end := map[string]string{
		EndedByBound:     ", the bound",
		EndedByCondition: ", although it was before the last deliveries arrived",
		EndedByStop:      ", when the run was stopped",
	}[p.EndedBy]
	return figure + " after " + took + end + ": not " + plusMinus(p.AtMost)
}
