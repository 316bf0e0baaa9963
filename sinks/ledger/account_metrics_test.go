package ledger

import (
	"reflect"
	"testing"
)

// TestEveryCountIsShown changes one count of a lane at a time: some metric shows
// it.
func TestEveryCountIsShown(t *testing.T) {
	t.Parallel()
	notShown := map[string]bool{
		"Undecided":     true, // it is what is not known yet
		"AlsoSuspended": true, // a part of LostUndeliverable
		"Windows":       true, // subscriptions are counted as they are open
	}
	values := func(n *LiveLane) (out []float64) {
		for _, m := range LaneMetrics {
			for _, p := range m.Parts {
				out = append(out, p.Of(n))
			}
		}
		return out
	}
	var walk func(path string, t reflect.Type, at []int, f func(path string, at []int))
	walk = func(path string, typ reflect.Type, at []int, f func(path string, at []int)) {
		for i := range typ.NumField() {
			x := typ.Field(i)
			here := append(append([]int(nil), at...), i)
			if x.Type.Kind() == reflect.Struct {
				walk(path+x.Name+".", x.Type, here, f)
				continue
			}
			if !notShown[x.Name] {
				f(path+x.Name, here)
			}
		}
	}
	shown := 0
	walk("", reflect.TypeFor[LaneCounts](), nil, func(path string, at []int) {
		var n LiveLane
		before := values(&n)
		reflect.ValueOf(&n.LaneCounts).Elem().FieldByIndex(at).SetInt(3e9)
		if reflect.DeepEqual(values(&n), before) {
			t.Errorf("no metric shows %s", path)
		}
		shown++
	})
	if shown < 40 {
		t.Errorf("%d counts were changed", shown)
	}
}
