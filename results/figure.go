package results

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/profiles"
)

// Bounds have one form, in thresholds, gates and SLOs: [WHERE.]FIGURE OP VALUE.
var boundForm = regexp.MustCompile(`^\s*(?:([a-z0-9*][a-z0-9-]*)\.)?([A-Za-z0-9.]+)\s*(<=|>=|==|!=|<|>)\s*(\S+(?:\s+%)?)\s*$`)

// Bound is a bound on a figure before its figure and its value are looked up. Where is empty if the
// text names no lane.
type Bound struct{ Where, Figure, Op, Value string }

// SplitBound splits the text of a threshold, a gate or an SLO into its parts. ok is false if it has
// another form.
func SplitBound(text string) (b Bound, ok bool) {
	m := boundForm.FindStringSubmatch(text)
	if m == nil {
		return Bound{}, false
	}
	return Bound{m[1], m[2], m[3], strings.ReplaceAll(m[4], " ", "")}, true
}

// FigurePath splits the name of a lane's figure. A quantile alone, such as p99, is that of the
// latency scheduled → received.
func FigurePath(name string) []string {
	path := strings.Split(name, ".")
	if len(path) == 1 && isQuantile(name) {
		return []string{"latency", "fromIntended", name}
	}
	return path
}

func isQuantile(name string) bool {
	return slices.ContainsFunc(new(Quantiles).all(), func(q quantileOf) bool { return q.name == name })
}

// meant returns the full name of the figure below root that an unknown path probably stands for, or
// "": one that has the same parts in the same order and further ones between them, or one that
// differs by a typing error.
func meant(root reflect.Type, path []string) string {
	last := strings.ToLower(path[len(path)-1])
	if len(path) == 1 && isQuantile(last) {
		return strings.Join(FigurePath(last), ".")
	}
	var all []string
	walkFigures(root, nil, func(name string) { all = append(all, name) })
	best := ""
	for _, name := range all {
		if within(path, strings.Split(name, ".")) && (best == "" || strings.Count(name, ".") < strings.Count(best, ".")) {
			best = name
		}
	}
	if best != "" {
		return best
	}
	if len(last) > 1 && last[0] == 'p' && strings.Trim(last[1:], "0123456789") == "" {
		return "" // a percentile that there is not, and all others are as near
	}
	return profiles.Nearest(strings.Join(path, "."), all)
}

// within reports whether parts occur in whole in their order, whole ends as they do, and upper and
// lower case are the same.
func within(parts, whole []string) bool {
	if !strings.EqualFold(parts[len(parts)-1], whole[len(whole)-1]) {
		return false
	}
	for _, w := range whole {
		if strings.EqualFold(parts[0], w) {
			if parts = parts[1:]; len(parts) == 0 {
				return true
			}
		}
	}
	return false
}

// walkFigures calls visit with the name of each figure below t that thresholds can name, except for
// those in maps, whose keys are not known.
func walkFigures(t reflect.Type, path []string, visit func(name string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == growthType:
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if name := jsonName(f); name != "" && name != "-" {
				walkFigures(f.Type, append(path[:len(path):len(path)], name), visit)
			}
		}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Float64, t.Kind() == reflect.Bool:
		visit(strings.Join(path, "."))
	}
}

// unknownFigure is the error about a path that names no figure. known are the names where it ends.
func unknownFigure(root reflect.Type, path []string, end int, known []string) error {
	text := fmt.Sprintf("there is no figure %q", strings.Join(path[:end], "."))
	if name := meant(root, path); name != "" {
		return fmt.Errorf("%s; did you mean %s?", text, name)
	}
	return fmt.Errorf("%s; there are %s", text, strings.Join(known, ", "))
}
