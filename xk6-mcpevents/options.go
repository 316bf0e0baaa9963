package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/profiles"
	"github.com/grafana/sobek"
)

// duration is a time in a script: "1.5s", or a number of milliseconds.
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		v, err := time.ParseDuration(text)
		if err != nil || v < 0 {
			return fmt.Errorf("%q is not a duration: use a text such as '1.5s', or milliseconds", text)
		}
		*d = duration(v)
		return nil
	}
	var ms float64
	if json.Unmarshal(b, &ms) != nil || ms < 0 {
		return fmt.Errorf("%s is not a duration: use a text such as '1.5s', or milliseconds", b)
	}
	*d = duration(ms * float64(time.Millisecond))
	return nil
}

// or returns the duration, or other if none was given.
func (d *duration) or(other time.Duration) time.Duration {
	if d == nil {
		return other
	}
	return time.Duration(*d)
}

// clientOptions are the second argument of Client.
type clientOptions struct {
	Token    string            `json:"token"`
	Tokens   []string          `json:"tokens"`
	Headers  map[string]string `json:"headers"`
	CA       string            `json:"ca"`
	Era      string            `json:"era"`
	Version  string            `json:"version"`
	Revision string            `json:"revision"`
	OAuth    json.RawMessage   `json:"oauth"`
}

// decode reads an options object strictly, and holds its counts to their
// bounds; undefined and null are no options.
func decode(v sobek.Value, to any) error {
	given, err := objectOf(v)
	if err != nil || given == nil {
		return err
	}
	return readStrictly(given, to, optionsIn(to))
}

// objectOf returns the options of an object, nil for undefined and null.
func objectOf(v sobek.Value) (given map[string]json.RawMessage, err error) {
	if v == nil || sobek.IsUndefined(v) || sobek.IsNull(v) {
		return nil, nil
	}
	// JSON turns such a number into null, which means the default.
	switch name := notFinite(v.Export(), 8); name {
	case "":
	case ".":
		return nil, errors.New("options: give an object")
	default:
		return nil, fmt.Errorf("options: %s is not a finite number", name[1:])
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if json.Unmarshal(raw, &given) != nil {
		return nil, errors.New("options: give an object")
	}
	return given, nil
}

// inOrder returns the keys of an object, sorted, so that the same message comes every time.
func inOrder[V any](object map[string]V) []string { return slices.Sorted(maps.Keys(object)) }

// optionsIn are the names of the options in a struct.
func optionsIn(to any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(to).Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// readStrictly reads options strictly, and holds their counts to their bounds. known
// are the options of the call.
func readStrictly(given map[string]json.RawMessage, to any, known []string) error {
	raw, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if strictly(raw, to) == nil {
		return checkCounts(given)
	}
	for _, name := range inOrder(given) {
		one, err := json.Marshal(map[string]json.RawMessage{name: given[name]})
		if err == nil {
			err = strictly(one, reflect.New(reflect.TypeOf(to).Elem()).Interface())
		}
		if err != nil {
			text := blame(name, err)
			if meant := profiles.Nearest(name, known); meant != "" && !slices.Contains(known, name) {
				text += fmt.Sprintf("; did you mean %q?", meant)
			}
			return fmt.Errorf("options: %s", text)
		}
	}
	return errors.New("options: they are not those of this call")
}

// notFinite returns the path of a number within v that is NaN or infinite, with a dot
// before each key, down to a depth; "" = none.
func notFinite(v any, depth int) string {
	if depth == 0 {
		return ""
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "."
		}
	case map[string]any:
		for _, key := range inOrder(v) {
			if name := notFinite(v[key], depth-1); name != "" {
				return "." + key + strings.TrimSuffix(name, ".")
			}
		}
	case []any:
		for i, one := range v {
			if name := notFinite(one, depth-1); name != "" {
				return "." + strconv.Itoa(i) + strings.TrimSuffix(name, ".")
			}
		}
	}
	return ""
}

func strictly(raw []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// blame describes in a script's terms what is wrong with an option.
func blame(name string, err error) string {
	if text, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return "unknown field " + text
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return name + ": " + err.Error()
	}
	want := "an object"
	switch wrong.Type.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.String:
		want = "a text"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Sprintf("%s: use %s, not a %s", name, want, wrong.Value)
}

// bounds are the smallest and the largest value of a count.
type bounds struct{ least, most int64 }

// maxGroup is the most subscriptions that are opened together.
const maxGroup = 100_000

// countBounds are the bounds of every option that is a count. Most of them cost
// memory or work before the target is contacted.
var countBounds = map[string]bounds{
	"subscriptions": {1, maxGroup}, "streams": {1, maxGroup}, "clients": {1, maxGroup}, "requests": {1, maxGroup},
	"sampleEvery": {1, 1_000_000}, "perSession": {1, maxGroup}, "maxEvents": {1, 1_000_000}, "rotateEvery": {0, 1_000_000},
	"steps": {1, 100_000}, "logEvery": {0, 100_000}, "hangUp": {0, 1_000_000},
	"workers": {1, 10_000}, "count": {1, 10_000_000}, "events": {1, 1_000_000_000},
}

// checkCounts checks the counts among the given options. null is ignored.
func checkCounts(given map[string]json.RawMessage) error {
	for _, name := range inOrder(given) {
		var n *int64
		if _, ok := countBounds[name]; !ok || json.Unmarshal(given[name], &n) != nil || n == nil {
			continue // decode has reported a value that is not a whole number
		}
		if err := checkCount(name, *n); err != nil {
			return err
		}
	}
	return nil
}

func checkCount(name string, n int64) error {
	if b := countBounds[name]; n < b.least || n > b.most {
		return fmt.Errorf("options: %s: use a whole number from %d to %d, not %d", name, b.least, b.most, n)
	}
	return nil
}
