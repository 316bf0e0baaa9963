package sinks

import (
	"reflect"
	"testing"
	"time"
)

func TestDistributionsAddUp(t *testing.T) {
	d := func(pairs ...int) (out Distribution) {
		for i := 0; i < len(pairs); i += 2 {
			out.Buckets = append(out.Buckets, Bucket{Low: time.Duration(pairs[i]), High: time.Duration(pairs[i] + 1), Count: int64(pairs[i+1])})
			out.Count += int64(pairs[i+1])
		}
		return out
	}
	for _, c := range []struct{ a, b, want Distribution }{
		{d(), d(), d()},
		{d(1, 2), d(), d(1, 2)},
		{d(), d(1, 2), d(1, 2)},
		{d(1, 2, 5, 1), d(3, 4, 5, 6, 9, 1), d(1, 2, 3, 4, 5, 7, 9, 1)},
	} {
		if got := c.a.Plus(c.b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v and %v are %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestDetailsAddUp sets every number to one, so that none is forgotten. Those
// that are no sums are named.
func TestDetailsAddUp(t *testing.T) {
	noSums := map[string]bool{"Longest": true, "At": true}
	ones := func() Detail {
		d := Detail{Live: Live{Lanes: make([]LiveLane, 1)}, More: make([]LaneDetail, 1)}
		setAll(reflect.ValueOf(&d).Elem())
		return d
	}
	a, b := ones(), ones()
	a.Add(&b)
	for _, v := range []reflect.Value{reflect.ValueOf(a.More[0]), reflect.ValueOf(a.Lanes[0]), reflect.ValueOf(a.Measured)} {
		for i := range v.NumField() {
			name, f := v.Type().Field(i).Name, v.Field(i)
			if !f.CanInt() {
				continue
			}
			want := int64(2)
			if noSums[name] {
				want = 1
			}
			if f.Int() != want {
				t.Errorf("%s.%s is %d, want %d", v.Type().Name(), name, f.Int(), want)
			}
		}
	}
	if n := a.More[0].Traffic[2]; n.Requests != 2 || n.Up != 2 || n.Down != 2 || n.Connections != 2 || n.Failures != 2 {
		t.Errorf("traffic is %+v", n)
	}
}

// setAll sets all integers to one, also those of parts.
func setAll(v reflect.Value) {
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				setAll(v.Field(i))
			}
		}
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			setAll(v.Index(i))
		}
	}
}
