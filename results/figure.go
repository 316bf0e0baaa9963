package results

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	return slices.ContainsFunc(Quantiles{}.All(), func(q Quantile) bool { return q.Name == name })
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

var (
	nanosType     = reflect.TypeFor[Nanos]()
	quantilesType = reflect.TypeFor[Quantiles]()
	intervalType  = reflect.TypeFor[Interval]()
	leakType      = reflect.TypeFor[LeakVerdict]()
	growthType    = reflect.TypeFor[Growth]()
)

// leakValues are the values of verdicts in comparisons.
var leakValues = map[LeakVerdict]float64{LeakNone: 0, LeakFound: 1}

// FigureType walks path through struct fields by their JSON names and map keys.
func FigureType(root reflect.Type, path []string) (reflect.Type, error) {
	t := root
	for i := 0; i < len(path); i++ {
		name := path[i]
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
			i += dotsInKey(t, path[i:])
		case reflect.Struct:
			f, ok := fieldByJSON(t, name)
			if !ok {
				return nil, unknownFigure(root, path, i+1, jsonNames(t))
			}
			t = f.Type
		default:
			return nil, fmt.Errorf("%q has no parts", strings.Join(path[:i], "."))
		}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == growthType || t == leakType {
		return leakType, nil
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Float64, reflect.Bool:
		return t, nil
	case reflect.Struct:
		return nil, fmt.Errorf("%q is a group; name one of %s", strings.Join(path, "."), strings.Join(jsonNames(t), ", "))
	}
	return nil, fmt.Errorf("%q is not a number", strings.Join(path, "."))
}

// dotsInKey is how many dots the key has with which path, the rest of a figure's path, begins. The
// keys of intervals are figures themselves, such as fromSent.p50.
func dotsInKey(elem reflect.Type, path []string) int {
	if elem == intervalType {
		return max(0, len(path)-2)
	}
	return 0
}

// FigureAt returns the figure at path. ok is false if there is none: quantiles without samples, or
// a process that was not observed. A key missing from a map is a count of zero.
func FigureAt(v reflect.Value, path []string) (got float64, kind reflect.Type, ok bool) {
	for i := 0; i < len(path); i++ {
		name := path[i]
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return 0, nil, false
			}
			v = v.Elem()
		}
		if v.Kind() == reflect.Map {
			dots := dotsInKey(v.Type().Elem(), path[i:])
			e := v.MapIndex(reflect.ValueOf(strings.Join(path[i:i+dots+1], ".")))
			i += dots
			switch {
			case e.IsValid():
			case v.Type().Elem() == intervalType, v.Type().Elem() == growthType:
				return 0, nil, false
			default:
				e = reflect.Zero(v.Type().Elem())
			}
			v = e
			continue
		}
		if v.Type() == quantilesType && !v.Interface().(Quantiles).Has(name) {
			return 0, nil, false
		}
		f, found := fieldByJSON(v.Type(), name)
		if !found {
			return 0, nil, false
		}
		v = v.FieldByIndex(f.Index)
	}
	if v.Type() == growthType {
		v = v.FieldByName("Verdict")
	}
	switch v.Kind() {
	case reflect.String:
		got, ok := leakValues[LeakVerdict(v.String())]
		return got, v.Type(), ok
	case reflect.Float64:
		return v.Float(), v.Type(), true
	case reflect.Bool:
		if v.Bool() {
			return 1, v.Type(), true
		}
		return 0, v.Type(), true
	default:
		return float64(v.Int()), v.Type(), true
	}
}

func fieldByJSON(t reflect.Type, name string) (reflect.StructField, bool) {
	fields, known := fieldsByJSON.Load(t)
	if !known {
		named := map[string]reflect.StructField{}
		for _, f := range reflect.VisibleFields(t) {
			if _, twice := named[jsonName(f)]; !twice {
				named[jsonName(f)] = f
			}
		}
		fields, _ = fieldsByJSON.LoadOrStore(t, named)
	}
	f, ok := fields.(map[string]reflect.StructField)[name]
	return f, ok
}

// fieldsByJSON keeps the fields of each struct type, by their names in JSON:
// reports look up hundreds of figures, and listing the fields is slow.
var fieldsByJSON sync.Map

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func jsonNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
