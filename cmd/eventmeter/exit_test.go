package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/eventmeter/eventmeter/internal/run"
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

// TestCanceledIsNotInterrupted: 130 is the code of a command that a signal has ended. What was
// canceled without one, such as a handshake whose time was over, keeps its own code.
func TestCanceledIsNotInterrupted(t *testing.T) {
	canceled := fmt.Errorf("handshake: %w: %w", run.ErrTarget, context.Canceled)
	if got := exitCode(notInterrupted{canceled}); got != exitTarget {
		t.Errorf("exit code %d, want %d", got, exitTarget)
	}
	if got := exitCode(notInterrupted{context.Canceled}); got != exitFailure {
		t.Errorf("exit code %d, want %d", got, exitFailure)
	}
	if got := exitCode(canceled); got != exitInterrupted {
		t.Errorf("exit code %d, want %d", got, exitInterrupted)
	}
	busy := &results.Result{
		Thresholds: []results.Verdict{{Threshold: "push.lostSilent == 0"}},
		Warnings:   []results.Warning{{Code: results.MachineBusy}},
	}
	if got := exitCode(verdict(busy, nil, nil)); got != exitThreshold {
		t.Errorf("a count failed on a busy machine: exit code %d", got)
	}
}
