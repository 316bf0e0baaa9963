package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

func TestTrialsReportAndCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := filepath.Join(dir, "before")
	junit, summary := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "summary.md")
	stdout, stderr, code := execute(
		t,
		smoke(
			"--quiet",
			"--trials",
			"2",
			"--out",
			before,
			"--format",
			"junit="+junit,
			"--format",
			"markdown="+summary,
			"--annotate",
			"github",
			"--set=thresholds=[\"*.lostSilent == 0\", \"push.delivered == 1\"]",
		)...)
	if code != exitThreshold && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if !strings.Contains(stdout, "::error ") {
		t.Errorf("no annotation for the threshold that failed:\n%s", stdout)
	}
	text := readFile(t, junit)
	if err := xml.Unmarshal(text, new(any)); err != nil && !strings.Contains(string(text), "<testsuite") {
		t.Errorf("junit: %v\n%s", err, text)
	}
	if text, err := os.ReadFile(summary); err != nil || strings.Count(string(text), "push.delivered == 1") < 2 {
		t.Errorf("the summaries of both trials should stand in one file: %v\n%s", err, text)
	}

	first, second := filepath.Join(before, "trial-001"), filepath.Join(before, "trial-002")
	written, err := os.ReadFile(filepath.Join(first, "report.txt"))
	must(t, err)
	if again, stderr, code := execute(t, "report", first); code != 0 || again != string(written) {
		t.Errorf("exit code %d: the rebuilt report differs\n%s\n%s", code, again, stderr)
	}
	if again, _, code := execute(t, "report", first, "--format", "json"); code != 0 {
		t.Errorf("exit code %d", code)
	} else if saved, err := os.ReadFile(filepath.Join(first, results.File)); err != nil || string(saved) != again {
		t.Errorf("the rebuilt result differs from the saved one: %v", err)
	}

	stdout, stderr, code = execute(t, "compare", first, second, "--format", "json")
	var c stats.Comparison
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != 0 || len(c.Lanes) != 3 {
		t.Errorf("exit code %d, %v\n%s", code, err, stderr)
	}
	if _, stderr, code := execute(
		t,
		"compare",
		first,
		second,
		"--gate",
		"push.p99 <= +0%",
	); code != exitUnjudged ||
		!strings.Contains(stderr, "gate push.p99 <= +0%, push: it cannot be judged") {
		t.Errorf("two seconds cannot tell, so the gate must not be judged: exit code %d\n%s", code, stderr)
	}
	if _, stderr, code := execute(t, "compare", first, first+","+second); code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	for _, args := range [][]string{
		{"compare", first, filepath.Join(dir, "nowhere")}, {"compare", first, second, "--format", "x"},
		{"compare", first, second, "--gate", "x"}, {"report", dir}, {"report", first, "--format", "x"},
		{"run", "--trials", "0"}, {"run", "--annotate", "x"}, {"run", "--profile", "smoke", "--profile", "smoke"},
	} {
		if _, stderr, code := execute(t, args...); code != exitUsage || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	changeArchive(t, first)
}

// changeArchive changes one figure of an archive, which must then be refused.
func changeArchive(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, results.File)
	r := loaded(t, dir)
	r.Lanes[0].Latency.FromSent.Mean++
	f, err := os.Create(name)
	must(t, err)
	must(t, r.Write(f))
	f.Close()
	if _, stderr, code := execute(t, "report", dir); code != exitUsage || !strings.Contains(stderr, "one of them was changed") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func TestCompareWantsTwoSides(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"a"}, {"a", "b", "c"}, {"a", "b", "c", "d"}} {
		_, stderr, code := execute(t, append([]string{"compare"}, args...)...)
		want := fmt.Sprintf("want two sides, A and B, and got %d;", len(args))
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := execute(t, "doctor", "--format=json")
	if code != 0 && code != exitBottleneck {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	var h machineHealth
	must(t, json.Unmarshal([]byte(stdout), &h))
	if h.Host.CPUs == 0 || h.ReadDelay.Count == 0 || len(h.Baseline.Lanes) != 3 || h.Baseline.Lanes[0].Latency.FromSent.P50 <= 0 {
		t.Errorf("%+v", h)
	}
	if doubts := h.Baseline.Doubts(); (code == exitBottleneck) != (len(doubts) > 0) {
		t.Errorf("exit code %d and doubts %v", code, doubts)
	}
}

// TestBurntCoreFlipsTheVerdict keeps half of the machine's processors busy with
// another program: a run must then refuse to vouch for its times. Its counts are judged
// unless there is a symptom.
func TestBurntCoreFlipsTheVerdict(t *testing.T) {
	for range max(1, runtime.NumCPU()/2) {
		cmd := watched(t)
		cmd.Env = append(cmd.Env, asBurner+"=1")
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	stdout, stderr, code := execute(t, smoke("--quiet", "--format=json", "--set", "phases.measure=1s")...)
	r, err := results.Read(strings.NewReader(stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if r.Generator.Others == 0 && runtime.GOOS != "linux" {
		t.Skip("this system does not tell the CPU time of the whole machine")
	}
	if (code == exitBottleneck) != r.Generator.Bottleneck ||
		!slices.ContainsFunc(r.Doubts(), func(s string) bool { return strings.Contains(s, "other processes used") }) {
		t.Errorf("exit code %d with others at %.2f CPUs: %v", code, r.Generator.Others, r.Doubts())
	}
}
