package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

func TestLeaksAreShown(t *testing.T) {
	r := &results.Result{Target: results.Target{Leak: map[string]results.Growth{
		"memory":     {Verdict: results.LeakFound, Slope: 1, After: 9, Reason: "it stays"},
		"heap":       {Verdict: results.LeakUnknown, Slope: 1, Reason: "no cool-down"},
		"files":      {Verdict: results.LeakNone, After: 5, Reason: "flat"},
		"goroutines": {Verdict: results.LeakNone, After: 7, Reason: "flat"},
		"threads":    {Verdict: results.LeakUnknown, Reason: "too short"},
	}}}
	want := [][2]string{{"leak?", "heap: no cool-down"}, {"LEAK", "memory: it stays"}, {"no leak", "files, goroutines"}}
	if got := leakRows(r); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, write := range map[string]func(*strings.Builder) error{
		"text":     func(b *strings.Builder) error { return Text(b, r) },
		"Markdown": func(b *strings.Builder) error { return Markdown(b, r) },
		"HTML":     func(b *strings.Builder) error { return HTML(b, []Page{{Result: r}}) },
	} {
		var b strings.Builder
		must(t, write(&b))
		for _, said := range []string{"no cool-down", "it stays", "files, goroutines"} {
			if !strings.Contains(b.String(), said) {
				t.Errorf("%s: %q is missing", name, said)
			}
		}
		if strings.Contains(b.String(), "too short") {
			t.Errorf("%s speaks of a gauge about which nothing is known", name)
		}
	}
}
