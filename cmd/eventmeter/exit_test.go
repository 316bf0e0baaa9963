package main

import (
	"errors"
	"testing"

	"github.com/eventmeter/eventmeter/results"
)

// TestExitCodeOfAVerdict: a threshold that judged nothing ends a run with a code of
// its own, after everything that weighs more.
func TestExitCodeOfAVerdict(t *testing.T) {
	held, failed := results.Verdict{Threshold: "a", Passed: true}, results.Verdict{Threshold: "b"}
	unjudged := results.Verdict{Threshold: "c", NotEvaluated: "nothing was owed"}
	for name, tt := range map[string]struct {
		verdicts   []results.Verdict
		bottleneck bool
		runErr     error
		want       int
	}{
		"all held":                  {[]results.Verdict{held}, false, nil, exitOK},
		"no thresholds":             {nil, false, nil, exitOK},
		"one judged nothing":        {[]results.Verdict{held, unjudged}, false, nil, exitUnjudged},
		"one failed, too":           {[]results.Verdict{unjudged, failed, held}, false, nil, exitThreshold},
		"a bottleneck":              {[]results.Verdict{unjudged}, true, nil, exitBottleneck},
		"it did not come to an end": {[]results.Verdict{unjudged}, false, errors.New("x"), exitFailure},
	} {
		r := &results.Result{Thresholds: tt.verdicts, Generator: results.Generator{Bottleneck: tt.bottleneck}}
		if got := exitCode(verdict(r, tt.runErr, nil)); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tt.want)
		}
	}
	if exitUnjudged != 5 {
		t.Errorf("the documented code is 5, and not %d", exitUnjudged)
	}
	if got := exitCode(errors.Join(errUnjudged, errThreshold)); got != exitThreshold {
		t.Errorf("of several trials, one of which failed: %d", got)
	}
}
