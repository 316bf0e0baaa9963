package results_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// filled gives v a value everywhere, so that no key of its JSON is left out.
func filledIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				filledIn(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filledIn(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("1"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filledIn(v.Index(0))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		filledIn(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), e)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	}
}

func keysOf(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, w := range v {
			keysOf(w, path+"."+k, into)
		}
	case []any:
		for _, w := range v {
			keysOf(w, path+"[]", into)
		}
	default:
		into[path] = true
	}
}

// TestResultKeys holds the keys of result.json to testdata. Write it again with
// KEYS=write.
func TestResultKeys(t *testing.T) {
	var r results.Result
	filledIn(reflect.ValueOf(&r).Elem())
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	keysOf(v, "", set)
	var keys []string
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	got := strings.Join(keys, "\n") + "\n"
	const file = "testdata/result.keys"
	if os.Getenv("KEYS") == "write" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the keys of result.json are\n%s\nwant\n%s", got, want)
	}
}
