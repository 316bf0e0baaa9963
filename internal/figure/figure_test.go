package figure

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// made is a table with a figure of every rule.
func made() Tables {
	return Tables{{Name: "made up", Figures: []Figure{
		{Name: "parts", Help: "?"},
		{Name: "whole", Help: "?"},
		{Name: "share", Help: "?", Rule: Ratio("parts", "whole")},
		{Name: "perWhole", Unit: "bytes", Help: "?", Rule: Mean("whole")},
		{Name: "most", Help: "?", Rule: Max},
		{Name: "least", Help: "?", Rule: Min},
		{Name: "peak", Help: "?", Rule: Peak, Metric: &Metric{Name: "m", Label: "kind", Value: "peak", Scale: 0.5}},
		{Name: "took", Unit: "ns", Help: "?", Timing: true},
		{Name: "tookP95Ms", Help: "?", Rule: Percentile("took", 95)},
	}}}
}

// slow is the percentile of the one timing that made has.
func slow(timing string, percent float64) float64 {
	if timing != "took" || percent != 95 {
		return -1
	}
	return 40
}

func TestMerge(t *testing.T) {
	a := map[string]float64{"parts": 1, "whole": 4, "share": 0.25, "perWhole": 10, "most": 3, "least": 3, "peak": 5, "tookP95Ms": 40}
	b := map[string]float64{
		"parts":     7,
		"whole":     12,
		"share":     7.0 / 12,
		"perWhole":  30,
		"most":      -2,
		"least":     -2,
		"peak":      9,
		"unknown":   1,
		"tookP95Ms": 20,
	}
	want := map[string]float64{
		"parts":     8,
		"whole":     16,
		"share":     0.5,
		"perWhole":  25,
		"most":      3,
		"least":     -2,
		"peak":      9,
		"unknown":   1,
		"tookP95Ms": 40,
	}
	before := maps.Clone(a)
	got, peaks := made().Merge(slow, a, b)
	if !maps.Equal(got, want) || !slices.Equal(peaks, []string{"peak"}) {
		t.Errorf("%v, peaks %v, want %v", got, peaks, want)
	}
	if !maps.Equal(a, before) {
		t.Error("a part was changed")
	}
	if got, peaks := made().Merge(slow, a); !maps.Equal(got, a) || peaks != nil {
		t.Errorf("of one part: %v, peaks %v", got, peaks)
	}
	// Where there is nothing to divide by, and where a mean weighs nothing.
	none := map[string]float64{"parts": 0, "whole": 0, "share": 0, "perWhole": 7}
	if got, _ := made().Merge(slow, none, none); got["share"] != 0 || got["perWhole"] != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestMergeInSteps: a display adds one part after the other, and a merge all at
// once.
func TestMergeInSteps(t *testing.T) {
	parts := []map[string]float64{
		{"parts": 1, "whole": 4, "share": 0.25, "perWhole": 8, "most": 3, "least": 3, "peak": 5},
		{"parts": 3, "whole": 4, "share": 0.75, "perWhole": 16, "most": 7, "least": 2, "peak": 1},
		{"parts": 4, "whole": 8, "share": 0.5, "perWhole": 32, "most": 5, "least": 9, "peak": 2},
	}
	once, _ := made().Merge(slow, parts...)
	steps := parts[0]
	for _, p := range parts[1:] {
		steps, _ = made().Merge(slow, steps, p)
	}
	if !maps.Equal(once, steps) {
		t.Errorf("at once %v, in steps %v", once, steps)
	}
}

func TestCheck(t *testing.T) {
	if err := made().Check(); err != nil {
		t.Error(err)
	}
	if f := made()[0].Find("peak"); f.Metric.Shown(8) != 4 || (&Metric{}).Shown(8) != 8 || made()[0].Find("none") != nil {
		t.Errorf("%+v", f)
	}
	for want, damage := range map[string]func(t *Table){
		"declared twice":  func(t *Table) { t.Figures[1].Name = "parts" },
		"has no help":     func(t *Table) { t.Figures[1].Help = "" },
		"which is no sum": func(t *Table) { t.Figures[1].Rule = Max },
		"no rule":         func(t *Table) { t.Figures[7].Rule = Max },
		"is no timing":    func(t *Table) { t.Figures[7].Name = "lasted" },
		"lacks a name":    func(t *Table) { t.Figures[6].Metric.Value = "" },
	} {
		tables := made()
		damage(tables[0])
		if err := tables.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that says %q", err, want)
		}
	}
	two := append(made(), made()...)
	two[1].Figures[4].Rule = Min
	if err := two.Check(); err == nil || !strings.Contains(err.Error(), "another rule elsewhere") {
		t.Errorf("a figure with two rules: %v", err)
	}
}

type reasons []string

func (r *reasons) AddFrom(from any) { *r = slices.Concat(*r, *from.(*reasons)) }

type inner struct {
	A, B int64
	Took time.Duration
}

type outer struct {
	inner
	Share   float64
	Longest int64  `merge:"max"`
	Least   int64  `merge:"min"`
	Label   string `merge:"-"`
	Count   int
	Why     reasons
	By      [2]inner
}

func TestAdd(t *testing.T) {
	a := outer{inner{2, 3, 5}, 0.5, 7, 7, "a", 11, reasons{"x"}, [2]inner{{A: 13}, {B: 17}}}
	b := outer{inner{19, 23, 29}, 0.25, 5, 5, "b", 31, reasons{"y"}, [2]inner{{A: 37}, {B: 41}}}
	Add(&a, &b)
	want := outer{inner{21, 26, 34}, 0.75, 7, 5, "a", 42, reasons{"x", "y"}, [2]inner{{A: 50}, {B: 58}}}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("%+v, want %+v", a, want)
	}
	c, d := inner{9, 8, 7}, inner{1, 2, 3}
	if SubtractCounts(&c, &d); c != (inner{8, 6, 4}) {
		t.Errorf("the difference is %+v", c)
	}
	sum := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		x, y := inner{A: 1}, inner{A: 2}
		AddCounts(&x, &y)
		sum += x.A
	}); n > 0 || sum != 303 {
		t.Errorf("%v allocations, the sum is %d", n, sum)
	}
	defer func() {
		if recover() == nil {
			t.Error("more than numbers were added as numbers")
		}
	}()
	AddCounts(&a, &b)
}

// TestAddAsks: a field that nobody has decided on is found at the first merge.
func TestAddAsks(t *testing.T) {
	for where, add := range map[string]func(){
		"Text":  func() { Add(&struct{ Text string }{}, &struct{ Text string }{}) },
		"Array": func() { Add(&struct{ Array [1]string }{}, &struct{ Array [1]string }{}) },
		"Rule": func() {
			Add(&struct {
				Rule int `merge:"more"`
			}{}, &struct {
				Rule int `merge:"more"`
			}{})
		},
		"Month": func() { Add(&struct{ Month time.Weekday }{}, &struct{ Month time.Weekday }{}) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "."+where) {
					t.Errorf("%s: %q", where, text)
				}
			}()
			add()
		}()
	}
}

func BenchmarkAdd(b *testing.B) {
	var x, y struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z int64 }
	b.ReportAllocs()
	for b.Loop() {
		AddCounts(&x, &y)
	}
}
