package results

import (
	"reflect"
	"testing"
)

// TestTokensAdd: two processes' tokens add up, the first failure is that of the first that has one, and neither changes.
func TestTokensAdd(t *testing.T) {
	a := &Tokens{Lost: 1, Failures: map[string]int64{"http 400": 1, "http 401": 2}, FirstError: "a"}
	b := &Tokens{Lost: 2, Failures: map[string]int64{"http 400": 3}, FirstError: "b"}
	none := &Tokens{Lost: 5}
	for _, c := range []struct{ a, b, want *Tokens }{
		{nil, nil, nil}, {a, nil, a}, {nil, b, b},
		{a, b, &Tokens{Lost: 3, Failures: map[string]int64{"http 400": 4, "http 401": 2}, FirstError: "a"}},
		{none, b, &Tokens{Lost: 7, Failures: map[string]int64{"http 400": 3}, FirstError: "b"}},
		{b, none, &Tokens{Lost: 7, Failures: map[string]int64{"http 400": 3}, FirstError: "b"}},
		{none, none, &Tokens{Lost: 10}},
	} {
		if got := c.a.Add(c.b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v and %+v are %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
	if a.Lost != 1 || a.Failures["http 400"] != 1 || b.Failures["http 400"] != 3 {
		t.Errorf("adding changed %+v or %+v", a, b)
	}
}
