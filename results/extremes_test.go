package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// fill gives every pointer, list and map below v an element, so that every field exists.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 20 && !v.Type().Implements(reflect.TypeFor[json.Marshaler]()) && hasFields(v.Type().Elem()) {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type() != typeRaw && v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		if v.Type() != typeRaw {
			for i := range v.Len() {
				fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if v.Len() == 0 {
			elem := reflect.New(v.Type().Elem()).Elem()
			fill(elem, depth+1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), elem)
		}
	}
}

// hasFields reports whether a value of the type can be filled: histograms belong to their package.
func hasFields(t reflect.Type) bool {
	return !strings.HasPrefix(t.PkgPath(), "github.com/HdrHistogram")
}

// hostileText is longer than any message, and not made again for each field.
var hostileText = "\x00\xff\u202e\n::error::\x1b[31m" + strings.Repeat("é", 1<<10)

// extremes are the values that a field takes.
func extremes(v reflect.Value) []any {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return []any{int64(math.MinInt64), int64(math.MaxInt64)}
	case reflect.Uint32, reflect.Uint64:
		return []any{uint64(math.MaxUint32)}
	case reflect.Float64:
		return []any{math.NaN(), math.Inf(-1), math.MaxFloat64}
	case reflect.String:
		return []any{"", hostileText}
	case reflect.Struct: // a time
		return []any{time.Time{}, time.Unix(0, 0).UTC(), time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	return nil
}

// eachLeaf calls visit for each value below v that has extremes, with its path and the struct field that it belongs to,
// until visit has set one.
func eachLeaf(v reflect.Value, path, field string, visit func(v reflect.Value, path, field string) (set bool)) bool {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		return !v.IsNil() && hasFields(v.Type().Elem()) && eachLeaf(v.Elem(), path, field, visit)
	case kind == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Name != "Schema" && eachLeaf(v.Field(i), path+"."+f.Name, v.Type().String()+"."+f.Name, visit) {
				return true
			}
		}
	case kind == reflect.Slice && v.Type() != typeRaw, kind == reflect.Array:
		for i := range v.Len() {
			if eachLeaf(v.Index(i), path, field, visit) {
				return true
			}
		}
	case kind == reflect.Map:
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			if eachLeaf(elem, path, field, visit) {
				v.SetMapIndex(key, elem)
				return true
			}
		}
	case extremes(v) != nil:
		return visit(v, path, field)
	}
	return false
}

// TestWhatIsWrittenCanBeRead gives every field its extreme values, one at a time: what is written can be read. A number is
// never a reason to write nothing, unless it is part of a sum.
func TestWhatIsWrittenCanBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var file bytes.Buffer
	r, p := archiveOf(t)
	// A histogram is not varied, and takes longer to write and to read than all else: one is enough.
	account := &p.Passes[0].Account
	lane := &account.Lanes[0]
	for _, timing := range []*ledger.Timing{
		&account.FireLatency, &account.FireLag, &lane.Ready.Time, &lane.Latency.FromIntended, &lane.Arrivals.Waited,
	} {
		timing.Histogram = nil
	}
	lane.Series[0].FromIntended, lane.Series[0].FromSent = nil, nil
	for name, c := range map[string]struct {
		base        any
		write, read func(v any) error
		// What cannot be brought within bounds: names, and numbers that have to agree with others.
		agree []string
	}{
		"result": {
			r,
			func(v any) error { return v.(*Result).Write(&file) },
			func(any) error { _, err := Read(&file); return err },
			[]string{".Lanes.Name", ".Started", ".Finished", ".Coverage", ".Part.", ".Upstream.Scheduled", ".Upstream.Published",
				".Upstream.Accepted", ".Upstream.Uncertain", ".Upstream.Refused", ".Upstream.Dropped", ".Lanes.Expected", ".Lanes.Delivered",
				".Lanes.Lost", ".Lanes.Latency."},
		},
		"capacity": {
			&Capacity{Schema: CapacitySchema, Profile: r.Profile, Steps: []CapacityStep{{Number: 1}}},
			func(v any) error { return v.(*Capacity).Write(&file) },
			func(any) error { _, err := ReadCapacity(&file); return err },
			[]string{".Steps.Number", ".Steps.Expected", ".Steps.Delivered", ".Steps.Lost"},
		},
		"part": {
			p,
			func(v any) error { return SavePart(dir, v.(*Part)) },
			func(any) error { _, err := LoadPart(dir); return err },
			[]string{".Index", ".Count", ".Coverage", ".Passes.Began", ".Passes.Account.Interval", ".Passes.Account.Lanes.Name",
				".Passes.Account.Lanes.Series.Number"},
		},
	} {
		fill(reflect.ValueOf(c.base), 0)
		text, err := json.Marshal(c.base)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{} // the fields of a type, once
		eachLeaf(reflect.ValueOf(c.base), "", "", func(first reflect.Value, path, field string) bool {
			if seen[field] {
				return false
			}
			seen[field] = true
			v := reflect.New(reflect.TypeOf(c.base).Elem()).Interface()
			if err := json.Unmarshal(text, v); err != nil {
				t.Fatal(err)
			}
			for i, value := range extremes(first) {
				eachLeaf(reflect.ValueOf(v), "", "", func(v reflect.Value, at, _ string) bool {
					if at == path {
						v.Set(reflect.ValueOf(value).Convert(v.Type()))
					}
					return at == path
				})
				what := fmt.Sprintf("%s%s, value %d", name, path, i)
				file.Reset()
				err := c.write(v)
				if err == nil {
					if err := c.read(v); err != nil {
						t.Errorf("%s is written and cannot be read: %.300v", what, err)
					}
				} else if !errors.Is(err, ErrFormat) || !slices.ContainsFunc(c.agree, func(a string) bool { return strings.HasPrefix(path, a) }) {
					t.Errorf("%s: nothing is written: %.300v", what, err)
				}
			}
			return false
		})
		if len(seen) < 100 {
			t.Errorf("%s has %d fields", name, len(seen))
		}
	}
}

// A number that is brought within bounds is named in a warning.
func TestImplausibleNumbersAreNamed(t *testing.T) {
	r, _ := archiveOf(t)
	r.Lanes[0].Figures = map[string]float64{"x": math.NaN(), "y": 5}
	r.Generator.Others = math.Inf(-1)
	r.Lanes[0].Ready.Time.Max = math.MaxInt64
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	if f := got.Lanes[0].Figures; f["x"] != 0 || f["y"] != 5 || got.Generator.Others != -maxFigure ||
		got.Lanes[0].Ready.Time.Max.Duration() != maxTime*time.Second {
		t.Errorf("%+v, %v, %v", f, got.Generator.Others, got.Lanes[0].Ready.Time.Max)
	}
	want := []string{"3 numbers", `lanes[0].figures."x": NaN`, "lanes[0].ready.time.max: 9223372036854775807 ns", "generator.others: -Inf"}
	if len(got.Warnings) != 1 || got.Warnings[0].Code != "implausible" {
		t.Fatalf("%+v", got.Warnings)
	}
	for _, w := range want {
		if !strings.Contains(got.Warnings[0].Text, w) {
			t.Errorf("no %s in %q", w, got.Warnings[0].Text)
		}
	}
	n := len(r.Warnings)
	if err := r.Write(&text); err != nil || len(r.Warnings) != n {
		t.Errorf("written again: %v, %d warnings", err, len(r.Warnings))
	}
}
