package ledger

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// fill gives every number and text that v holds, at any depth, a value of its
// own, so that one that is forgotten somewhere is missed.
func fill(v reflect.Value, next *int64) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*Timing); ok {
			*next++
			*t = Timing{Histogram: hdrhistogram.New(lowestNanos, highestNanos, histogramSigs), Below: *next, Above: *next + 1}
			record(t.Histogram.RecordValues(*next*1e6, *next))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Pointer:
		*next++
		h := hdrhistogram.NewPacked(lowestNanos, highestNanos, histogramSigs)
		record(h.RecordValues(*next*1e6, *next))
		v.Set(reflect.ValueOf(h))
	case reflect.Int64, reflect.Int:
		*next++
		v.SetInt(*next)
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*next++
		v.SetUint(uint64(*next))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	}
}

// filled is an account without a zero in it, whose derived figures are right.
func filled() Account {
	a := Account{}
	next := int64(0)
	fill(reflect.ValueOf(&a).Elem(), &next)
	for i := range a.Lanes {
		n := &a.Lanes[i]
		n.Gaps = Gaps{Incidents: n.GapIncidents, Longest: n.LongestGap, PerMillion: float64(n.GapIncidents) / float64(n.Expected) * 1e6}
		n.SubscriptionHours = n.Active.Hours()
		n.Examples[0].Kind = ExampleLostSilent
	}
	return a
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMergeForgetsNothing: an account with one of a lane in which nothing
// happened is itself, field by field, whatever fields accounts may get.
func TestMergeForgetsNothing(t *testing.T) {
	t.Parallel()
	a := filled()
	quiet := Account{Interval: a.Interval, Lanes: []LaneAccount{{Name: a.Lanes[0].Name, System: a.Lanes[0].System, Mode: a.Lanes[0].Mode}}}
	got, err := MergeAccounts([]Account{a, quiet}, MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want, got := asText(t, a), asText(t, got); got != want {
		t.Errorf("merged with nothing\n%s\nwant\n%s", got, want)
	}
}

// TestAccountAsJSON: an account that was written and read is the same.
func TestAccountAsJSON(t *testing.T) {
	t.Parallel()
	a := filled()
	text := asText(t, a)
	var b Account
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	if got := asText(t, b); got != text {
		t.Errorf("read as\n%s\nwritten as\n%s", got, text)
	}
	was, is := a.Lanes[0].Series[0], b.Lanes[0].Series[0]
	for _, h := range [][2]*hdrhistogram.PackedHistogram{{was.FromIntended, is.FromIntended}, {was.FromSent, is.FromSent}} {
		if h[1] == nil || h[1].TotalCount() != h[0].TotalCount() || h[1].Max() != h[0].Max() {
			t.Errorf("%v of an interval is read as %v", h[0], h[1])
		}
	}
	if !b.FireLag.Histogram.Equals(a.FireLag.Histogram) {
		t.Error("buckets differ")
	}
	if err := json.Unmarshal([]byte(`{"FireLag":{"Histogram":"bm9uZQ=="}}`), &b); err == nil {
		t.Error("a histogram that is none was read")
	}
}

func TestMergeAddsUp(t *testing.T) {
	t.Parallel()
	a, b := filled(), filled()
	b.Lanes[0].LongestGap *= 3
	b.Lanes[0].Series[0].Number += 5 // on a clock that began five intervals earlier
	got, err := MergeAccounts([]Account{a, b}, MergeOptions{Shift: []int64{0, -5}})
	if err != nil {
		t.Fatal(err)
	}
	n, one := got.Lanes[0], a.Lanes[0]
	if n.Delivered != 2*one.Delivered || n.LongestGap != 3*one.LongestGap || n.Gaps.Longest != n.LongestGap || n.Active != 2*one.Active {
		t.Errorf("counts %+v of two %+v", n.SubCounts, one.SubCounts)
	}
	if n.Failures[0].Count != 2*one.Failures[0].Count || len(n.Failures) != 1 || len(n.Examples) != 2 {
		t.Errorf("failures %v, examples %v", n.Failures, n.Examples)
	}
	if len(n.Series) != 1 || n.Series[0].Delivered != 2*one.Series[0].Delivered ||
		n.Series[0].FromSent.TotalCount() != 2*one.Series[0].FromSent.TotalCount() {
		t.Errorf("series %+v", n.Series)
	}
	if h := n.Latency.FromIntended.Histogram; h.TotalCount() != 2*one.Latency.FromIntended.Histogram.TotalCount() ||
		h.Max() != one.Latency.FromIntended.Histogram.Max() {
		t.Errorf("%d samples", h.TotalCount())
	}
	for want, change := range map[string]func(*Account){
		"lane 0 is x (x, x) here and other (x, x) there": func(b *Account) { b.Lanes[0].Name = "other" },
		"lane 0 is x (x, x) here and x (other, x) there": func(b *Account) { b.Lanes[0].System = "other" },
		"lane 0 is x (x, x) here and x (x, other) there": func(b *Account) { b.Lanes[0].Mode = "other" },
		"account 1 has 2 lanes and intervals of 1s, the first has 1 and 2s": func(b *Account) {
			b.Interval, b.Lanes = time.Second, append(b.Lanes, LaneAccount{})
		},
	} {
		a, b := filled(), filled()
		a.Interval, b.Interval = 2*time.Second, 2*time.Second
		change(&b)
		if _, err := MergeAccounts([]Account{a, b}, MergeOptions{}); err == nil || err.Error() != "merge accounts: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := MergeAccounts(nil, MergeOptions{}); err == nil {
		t.Error("nothing was added")
	}
}
