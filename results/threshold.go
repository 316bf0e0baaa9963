package results

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/profiles"
)

// ErrThreshold is wrapped by every error about a threshold's text.
var ErrThreshold = errors.New("bad threshold")

// Threshold is a bound on one figure:
//
//	WHERE.FIGURE OP VALUE
//
// WHERE is a lane's name, * for every lane, or run for figures of the whole
// run. FIGURE is a path of field names in the lane (or in the result) as they
// are spelled in result.json; p50, p90, p95, p99 and p999 alone are those of
// latency.fromIntended. OP is <, <=, >, >=, == or !=. VALUE is a number;
// durations take a Go duration (250ms), ratios may be written with %, and the verdict on a leak is
// none or leak. target.leak.NAME is short for run.target.leak.NAME.
type Threshold struct {
	text  string
	where string
	path  []string
	op    string
	value float64
}

// ParseThreshold reads one threshold. It checks that the figure exists and that
// the value has the figure's unit; lanes are checked by [Threshold.Check].
func ParseThreshold(text string) (Threshold, error) {
	b, ok := SplitBound(text)
	switch {
	case !ok:
		return Threshold{}, fmt.Errorf("%w %q: want LANE.FIGURE OP VALUE, e.g. push.p99 < 250ms or *.lostSilent == 0", ErrThreshold, text)
	case b.Where == "":
		return Threshold{}, fmt.Errorf(
			"%w %q: it names no lane; write *.%s for every lane, or LANE.%[3]s",
			ErrThreshold,
			text,
			strings.TrimSpace(text),
		)
	}
	t := Threshold{text: strings.TrimSpace(text), where: b.Where, path: strings.Split(b.Figure, "."), op: b.Op}
	if t.where != "run" {
		t.path = FigurePath(b.Figure)
	}
	if t.where == "target" && t.path[0] == "leak" { // no lane has such a figure
		t.where, t.path = "run", append([]string{"target"}, t.path...)
	}
	root := reflect.TypeFor[Lane]()
	if t.where == "run" {
		root = reflect.TypeFor[Result]()
	}
	kind, err := FigureType(root, t.path)
	if err != nil {
		return Threshold{}, fmt.Errorf("%w %q: %w", ErrThreshold, text, err)
	}
	if t.value, err = parseValue(b.Value, kind); err != nil {
		return Threshold{}, fmt.Errorf("%w %q: %w", ErrThreshold, text, err)
	}
	if kind == leakType && t.op != "==" && t.op != "!=" {
		return Threshold{}, fmt.Errorf("%w %q: compare a verdict with == or !=", ErrThreshold, text)
	}
	return t, nil
}

// ParseThresholds reads all of texts and joins their errors.
func ParseThresholds(texts []string) ([]Threshold, error) {
	var out []Threshold
	var errs []error
	for _, text := range texts {
		t, err := ParseThreshold(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

// CheckLanes reports a threshold that names a lane which is not among names.
func (t Threshold) CheckLanes(names []string) error {
	if t.where == "*" || t.where == "run" {
		return nil
	}
	for _, n := range names {
		if n == t.where {
			return nil
		}
	}
	return fmt.Errorf("%w %q: there is no lane %q; the lanes are %s", ErrThreshold, t.text, t.where, strings.Join(names, ", "))
}

// Known are the names that figures can have which only some lanes or upstreams have.
type Known struct {
	Lanes    map[string][]string // by lane: the figures and timings of its system
	Upstream []string            // those of the kind of upstream
}

// CheckNames reports a threshold on a figure that cannot exist. A count that may occur and
// did not is 0.
func (t Threshold) CheckNames(k Known) error {
	known, at := t.closedSet(k)
	if at == 0 || slices.Contains(known, t.path[at]) {
		return nil
	}
	err := fmt.Errorf("%w %q: there is no figure %q", ErrThreshold, t.text, strings.Join(t.path[:at+1], "."))
	switch near := profiles.Nearest(t.path[at], known); {
	case near != "":
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	case len(known) > 0:
		err = fmt.Errorf("%w; there are %s", err, strings.Join(known, ", "))
	}
	return err
}

// closedSet returns the names that the part of the path at a position can have; 0 = there is
// no such part.
func (t Threshold) closedSet(k Known) (known []string, at int) {
	first := t.path[0]
	switch {
	case len(t.path) < 2:
		return nil, 0
	case t.where == "run":
		if first == "upstream" && len(t.path) > 2 && (t.path[1] == "figures" || t.path[1] == "timings") {
			return k.Upstream, 2
		}
		return nil, 0
	case first == "figures" || first == "timings":
		for lane, names := range k.Lanes {
			if t.where == "*" || t.where == lane {
				known = append(known, names...)
			}
		}
		slices.Sort(known)
		return slices.Compact(known), 1
	case first == "failures": // their names have spaces, which a threshold cannot have
		return nil, 1
	}
	if i := slices.Index(t.path, "causes"); first == "overhead" && i > 0 && i+1 < len(t.path) {
		for c := range eventmeter.Causes {
			known = append(known, eventmeter.Cause(c).String())
		}
		return known, i + 1
	}
	return nil, 0
}

// String returns the threshold as it was written.
func (t Threshold) String() string { return t.text }

// Check evaluates t on r and returns a verdict for each lane that t names. With *, lanes that
// subscribe to no source are left out where the figure is about received events.
func (t Threshold) Check(r *Result) []Verdict {
	busy := len(r.Doubts()) > 0
	if t.where == "run" {
		v := t.verdict("", busy, reflect.ValueOf(r).Elem(), func(got float64) string { return r.unjudged(t.path, got) })
		return []Verdict{v}
	}
	var out []Verdict
	silent := r.lanesWithoutSources()
	for i := range r.Lanes {
		l := &r.Lanes[i]
		if t.where != "*" && t.where != l.Name {
			continue
		}
		v := t.verdict(l.Name, busy, reflect.ValueOf(l).Elem(), func(got float64) string { return l.unjudged(&r.Upstream, t.path, got) })
		if t.where == "*" && v.NotEvaluated != "" && silent[l.Name] {
			continue
		}
		out = append(out, v)
	}
	switch {
	case out != nil:
	case t.where == "*":
		out = append(out, t.notEvaluated("", "no lane subscribes to a source"))
	default:
		out = append(out, t.notEvaluated(t.where, "the lane did not run"))
	}
	return out
}

// notEvaluated is the verdict of a threshold that judged nothing.
func (t Threshold) notEvaluated(lane, why string) Verdict {
	return Verdict{Threshold: t.text, Lane: lane, NotEvaluated: why, Text: why}
}

func (t Threshold) verdict(lane string, busy bool, root reflect.Value, unjudged func(got float64) string) Verdict {
	got, kind, ok := FigureAt(root, t.path)
	if why := unjudged(got); why != "" {
		return t.notEvaluated(lane, why)
	}
	switch {
	case !ok:
		return t.notEvaluated(lane, "nothing was measured")
	case busy && kind == nanosType:
		return t.notEvaluated(lane, "the machine was busy")
	}
	return Verdict{Threshold: t.text, Lane: lane, Measured: &got, Text: formatFigure(got, kind), Passed: t.holds(got)}
}

func (t Threshold) holds(got float64) bool {
	switch t.op {
	case "<":
		return got < t.value
	case "<=":
		return got <= t.value
	case ">":
		return got > t.value
	case ">=":
		return got >= t.value
	case "==":
		return got == t.value
	default:
		return got != t.value
	}
}

func parseValue(text string, kind reflect.Type) (float64, error) {
	if kind == nanosType {
		if text == "0" {
			return 0, nil
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: write e.g. 250ms or 1.5s", text)
		}
		return float64(d), nil
	}
	if kind.Kind() == reflect.Bool {
		switch text {
		case "true":
			return 1, nil
		case "false":
			return 0, nil
		}
		return 0, fmt.Errorf("%q is neither true nor false", text)
	}
	if kind == leakType {
		v, ok := leakValues[LeakVerdict(text)]
		if !ok {
			return 0, fmt.Errorf("%q is no verdict: write none or leak", text)
		}
		return v, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	if percent && kind.Kind() != reflect.Float64 {
		return 0, fmt.Errorf("%q: this figure is a count, not a ratio: write a number", text)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

func formatFigure(v float64, kind reflect.Type) string {
	switch {
	case kind == nanosType:
		return Nanos(v).String()
	case kind.Kind() == reflect.Bool:
		return strconv.FormatBool(v != 0)
	case kind == leakType && v == 0:
		return string(LeakNone)
	case kind == leakType:
		return string(LeakFound)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Missed says by how much got, which does not hold, is beyond the value of t: "12.5ms (10 %) above".
func (t Threshold) Missed(got float64) string {
	kind, err := FigureType(reflect.TypeFor[Lane](), t.path)
	if t.where == "run" {
		kind, err = FigureType(reflect.TypeFor[Result](), t.path)
	}
	if err != nil || kind == leakType || kind.Kind() == reflect.Bool || t.op == "!=" {
		return "not as required"
	}
	by, side := got-t.value, "above"
	if by < 0 {
		by, side = -by, "below"
	}
	if by == 0 {
		return "exactly the bound"
	}
	if t.value == 0 {
		return formatFigure(by, kind) + " " + side
	}
	return fmt.Sprintf("%s (%.3g %%) %s", formatFigure(by, kind), 100*by/math.Abs(t.value), side)
}
