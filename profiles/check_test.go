package profiles

import (
	"reflect"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/systems"
)

// TestCheckTags: every check tag can be read, and its field's default is within
// it.
func TestCheckTags(t *testing.T) {
	tags := 0
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for _, f := range fieldsOf(systems.Table, v) {
			here := join(path, f.key)
			if check := f.check; check != "" {
				tags++
				c := &checker{decoder: &decoder{tree: &tree{}, at: map[string]place{"": {}, here: {}}, tainted: map[string]bool{}}}
				c.bound(here, f.value, check)
				if len(c.problems) > 0 && !f.value.IsZero() {
					t.Errorf("%v", c.problems)
				}
			}
			if f.value.Kind() == reflect.Struct {
				walk(here, f.value)
			}
		}
	}
	walk("", reflect.ValueOf(defaultProfile(systems.Table)))
	walk("capacity", reflect.ValueOf(defaultCapacity()))
	for _, s := range systems.Table {
		for _, mode := range s.Modes {
			walk("lane", reflect.ValueOf(defaultLaneOf(systems.Table, mode, s.Name, "")))
		}
	}
	if tags < 100 {
		t.Errorf("%d tags", tags)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		value any
		check string
		want  string // the problem; empty = none
	}{
		{"a", "a|b", ""},
		{"c", "a|b", `no such key "c"; did you mean a?`},
		{"", "a|b", "is missing; give one of a, b"},
		{"", "|a|b", ""},
		{5, "5..", ""},
		{4, "5..", "4 is too small; give at least 5"},
		{7, "5..6", "7 is too many; give at most 6"},
		{-1, "-1..6", ""},
		{time.Second, "1s..1s", ""},
		{time.Duration(0), "1s..", "0s is too short; give at least 1s"},
		{time.Duration(0), "0|1s..", ""},
		{time.Millisecond, "0|1s..", "1ms is too short; give at least 1s"},
		{2 * settings.Longest, "0..", "175200h0m0s is too long; give at most 87600h0m0s"},
		{0.5, "0..1", ""},
		{1.5, "0..1", "1.5 is out of bounds; give 0 to 1"},
		{Rate(2e6), "0..1e6", "2e+06 is out of bounds; give 0 to 1e+06"},
	} {
		ch := &checker{decoder: &decoder{tree: &tree{}, at: map[string]place{"": {}, "key": {}}, tainted: map[string]bool{}}}
		ch.bound("key", reflect.ValueOf(c.value), c.check)
		got := ""
		if len(ch.problems) > 0 {
			got = ch.problems[0].What + "; " + ch.problems[0].Fix
		}
		if got != c.want || len(ch.problems) > 1 {
			t.Errorf("%v in %s: %s, want %s", c.value, c.check, got, c.want)
		}
	}
}
