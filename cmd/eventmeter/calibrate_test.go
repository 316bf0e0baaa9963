package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCalibrate runs the whole matrix of faults: what each does is known
// beforehand, and the ledger must have counted exactly that. internal/calibrate runs
// other cases with the race detector. No other test of this package runs beside it:
// a run on a busy machine says nothing of the ledger, and is repeated.
func TestCalibrate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	out, err := calibrated(func() *exec.Cmd { return command(t, "run", "--profile", "calibrate") })
	if err != nil || !strings.Contains(out, "471 of 471 rows equal") {
		t.Errorf("%v\n%s", err, failedRows(out))
	}
	keepsRows(t, out)
}

// calibrated runs a calibration, and again where it says that the machine is too
// busy for it, which says nothing about a count: three times at most.
func calibrated(calibration func() *exec.Cmd) (text string, err error) {
	for range 3 {
		out, failed := calibration().CombinedOutput()
		if text, err = string(out), failed; err == nil || !strings.Contains(text, "this machine is too busy to calibrate on") {
			break
		}
	}
	return text, err
}

// failedRows is the output of a calibration without its good rows.
func failedRows(out string) string {
	var kept strings.Builder
	good := false
	for line := range strings.Lines(out) {
		if m := calibrationRow.FindString(strings.TrimRight(line, "\n")); m != "" {
			good = !strings.Contains(m, " FAIL ")
		} else if !strings.HasPrefix(line, strings.Repeat(" ", 41)) {
			good = false
		}
		if !good {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestCalibrationErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	write := func(old, new string) {
		if !strings.Contains(smallCases, old) {
			t.Fatalf("the profile lacks %q", old)
		}
		must(t, os.WriteFile(file, []byte(strings.Replace(smallCases, old, new, 1)), 0o600))
	}
	write("drop(every=5)", "dorp(every=5)")
	if _, stderr, code := execute(t, "run", "--profile", file); code != exitUsage || !strings.Contains(stderr, `unknown fault "dorp"`) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	write("{name: drop,", "{name: plain,")
	if _, stderr, code := execute(t, "run", "--profile", file); code != exitUsage || !strings.Contains(stderr, "appears twice") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := execute(
		t,
		"run",
		"--profile",
		"calibrate",
		"--format=json",
	); code != exitUsage ||
		!strings.Contains(stderr, "no use for --format json") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := execute(
		t,
		"run",
		"--profile",
		"smoke",
		"--set",
		"target.embedded.faults='drop()'",
	); code != exitUsage ||
		!strings.Contains(stderr, "every=N or rate=SHARE") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := execute(t, "serve", "--faults", "dorp"); code != exitUsage || !strings.Contains(stderr, "dorp") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestFaultPlanIsServed asks the target for its plan, before anything happens.
func TestFaultPlanIsServed(t *testing.T) {
	t.Parallel()
	spec := filepath.Join(t.TempDir(), "faults.txt")
	must(t, os.WriteFile(spec, []byte("drop(every=4) # one in four\nduplicate(every=3, mode=push)\n"), 0o600))
	ready, _ := serveTarget(t, "--faults", spec)
	resp, err := http.Get(ready.Admin + "/faults?sources=1&to=12")
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	var plan struct {
		Spec   string
		Faults []struct {
			Fault, Mode string
			Seqs        []int
		}
	}
	if err := json.Unmarshal(body, &plan); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	got := map[string]int{}
	for _, f := range plan.Faults {
		got[f.Mode+" "+f.Fault] = len(f.Seqs)
	}
	// 12 is dropped, so it is not duplicated.
	for name, want := range map[string]int{"poll drop(every=4)": 3, "push drop(every=4)": 3, "webhook drop(every=4)": 3,
		"push duplicate(mode=push, every=3)": 3} {
		if got[name] != want {
			t.Errorf("%s hits %d, want %d: %s", name, got[name], want, body)
		}
	}
}
