package results

import (
	"strings"
	"testing"
)

func TestLeakThresholds(t *testing.T) {
	r := &Result{Target: Target{Leak: map[string]Growth{
		"memory": {Verdict: LeakFound}, "files": {Verdict: LeakNone}, "threads": {Verdict: LeakUnknown, Reason: "no cool-down"},
	}}}
	for text, want := range map[string]string{
		"target.leak.memory == none":     "failed",
		"target.leak.memory == leak":     "held",
		"run.target.leak.memory != none": "held",
		"target.leak.files == none":      "held",
		"target.leak.threads == none":    "no cool-down",
		"target.leak.heap == none":       "the target's heap was not followed",
		"run.target.leak.files.rise < 1": "held",
	} {
		x, err := ParseThreshold(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v := x.Check(r)[0]
		got := v.NotEvaluated
		if got == "" {
			got = map[bool]string{true: "held", false: "failed"}[v.Passed]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"target.leak.memory == some": "write none or leak",
		"target.leak.memory < leak":  "== or !=",
		"target.leak.memory == 0":    "write none or leak",
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
