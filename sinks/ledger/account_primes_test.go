package ledger

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// numbersOf lists every number that v holds, at any depth, by its path. Of a
// slice it looks at the first element, of a histogram at the number of samples.
func numbersOf(v reflect.Value, path string, into map[string]int64) {
	switch {
	case v.CanInt():
		into[path] = v.Int()
	case v.Kind() == reflect.Struct:
		if t, ok := v.Interface().(Timing); ok {
			into[path+".samples"], into[path+".Below"], into[path+".Above"] = t.samples(), t.Below, t.Above
			return
		}
		if d, ok := v.Interface().(Distribution); ok {
			into[path+".Count"], into[path+".Below"], into[path+".Above"] = d.Count, d.Below, d.Above
			return
		}
		for i := range v.NumField() {
			at := path
			if f := v.Type().Field(i); !f.Anonymous {
				at += "." + f.Name
			}
			numbersOf(v.Field(i), at, into)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			numbersOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i), into)
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		numbersOf(v.Index(0), path, into)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		into[path+".samples"] = v.Interface().(*hdrhistogram.PackedHistogram).TotalCount()
	}
}

// primes returns a filler that gives every number a prime of its own, from the
// first one after n.
func primes(n int64) *int64 { return &n }

// primed fills v with primes after from.
func primed(v any, from int64) {
	next := primes(from)
	fillPrimes(reflect.ValueOf(v).Elem(), next)
}

func fillPrimes(v reflect.Value, next *int64) {
	before := *next
	fill(v, next)
	// What fill has numbered in a row becomes a row of primes.
	row := map[int64]int64{}
	p := before
	for i := before + 1; i <= *next; i++ {
		for p++; !big.NewInt(p).ProbablyPrime(10); p++ {
		}
		row[i] = p
	}
	replaceNumbers(v, row)
}

func replaceNumbers(v reflect.Value, row map[int64]int64) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		if p, ok := row[v.Int()]; ok {
			v.SetInt(p)
		}
	case reflect.Struct:
		if _, ok := v.Interface().(Timing); ok {
			return
		}
		for i := range v.NumField() {
			replaceNumbers(v.Field(i), row)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			replaceNumbers(v.Index(i), row)
		}
	}
}

// notAdded are the numbers of accounts and displays that are no sums, by the end
// of their path, and what two parts of a run are together.
var notAdded = map[string]func(a, b int64) int64{
	".Run":        func(a, _ int64) int64 { return a },
	".Interval":   func(a, _ int64) int64 { return a },
	".At":         func(a, b int64) int64 { return max(a, b) },
	".LongestGap": func(a, b int64) int64 { return max(a, b) },
}

func checkMerged(t *testing.T, a, b, sum any, apart map[string]bool) {
	t.Helper()
	of := func(v any) map[string]int64 {
		out := map[string]int64{}
		numbersOf(reflect.ValueOf(v), "", out)
		return out
	}
	x, y, got := of(a), of(b), of(sum)
	if len(got) != len(x) || len(x) < 20 {
		t.Errorf("%d numbers of %d are left", len(got), len(x))
	}
	checked := 0
	for path, n := range got {
		if apart[path] {
			continue
		}
		checked++
		rule := func(a, b int64) int64 { return a + b }
		for end, other := range notAdded {
			if strings.HasSuffix(path, end) {
				rule = other
			}
		}
		if want := rule(x[path], y[path]); n != want {
			t.Errorf("%s: %d and %d are %d together, want %d", path, x[path], y[path], n, want)
		}
	}
	if checked < 20 {
		t.Errorf("only %d numbers were compared", checked)
	}
}

// TestMergeByValue: two accounts whose numbers are all different primes are what
// the rule of each figure says.
func TestMergeByValue(t *testing.T) {
	t.Parallel()
	var a, b Account
	primed(&a, 100)
	primed(&b, 20_000)
	b.Interval = a.Interval
	b.Lanes[0].Series[0].Number = a.Lanes[0].Series[0].Number
	got, err := MergeAccounts([]Account{a, b}, MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.Lanes[0].Examples = a.Lanes[0].Examples // they are a list, of which some are kept
	if n := got.Lanes[0].Gaps; n.Incidents != got.Lanes[0].GapIncidents || n.Longest != got.Lanes[0].LongestGap {
		t.Errorf("gaps %+v", n)
	}
	apart := map[string]bool{".Lanes.Gaps.Incidents": true, ".Lanes.Gaps.Longest": true, ".Lanes.Series.Number": true}
	for _, f := range []string{".Sub.Lane", ".Sub.Index", ".Source", ".From", ".To", ".EventID", ".At", ".Bytes"} {
		apart[".Lanes.Examples"+f] = true
	}
	checkMerged(t, a, b, got, apart)
}

// TestLiveByValue is the same of what displays and scrapes of several processes
// add up.
func TestLiveByValue(t *testing.T) {
	t.Parallel()
	var a, b, sum Live
	primed(&a, 100)
	primed(&b, 20_000)
	primed(&sum, 100)
	for _, l := range []*Live{&a, &b, &sum} {
		l.Lanes[0].Recent = Quantiles{Count: l.Lanes[0].Open, P99: time.Duration(l.Lanes[0].Open)}
	}
	sum.Add(&b)
	if got, want := sum.Lanes[0].Recent, (Quantiles{Count: a.Lanes[0].Open + b.Lanes[0].Open, P99: b.Lanes[0].Recent.P99}); got != want {
		t.Errorf("recent %+v, want that with the higher p99 and both counts: %+v", got, want)
	}
	apart := map[string]bool{".At": true}
	for _, f := range []string{".P50", ".P90", ".P99", ".Max"} {
		apart[".Lanes.Recent"+f], apart[".Lanes.Whole"+f] = true, true
	}
	checkMerged(t, a, b, sum, apart)
	if sum.At != a.At {
		t.Error("the time of a display changed")
	}
}
