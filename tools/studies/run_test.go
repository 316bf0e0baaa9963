package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programVariable has this test binary be the program that studies run.
const programVariable = "EVENTMETER_STUDIES_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "" {
		os.Exit(m.Run())
	}
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(99) // as where a threshold failed
}

// program is a stand-in for eventmeter: it serves counters, or writes a result with the rate that was set.
func program(args []string) error {
	if args[0] == "serve" {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"attempts": 7, "subscriptions": {"webhook": 3}}`)
		}))
		defer s.Close()
		if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": s.URL + "/mcp", "admin": s.URL}); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	var out, admin string
	rate := 0.0
	for i, a := range args {
		switch {
		case a == "--out":
			out = args[i+1]
		case a == "--upstream-url":
			admin = args[i+1]
		case strings.HasPrefix(a, "schedule.rate="):
			if _, err := fmt.Sscanf(a, "schedule.rate=%g/s", &rate); err != nil {
				return err
			}
		}
	}
	if admin != "" { // a counter was read before the run
		if _, err := http.Get(admin); err != nil {
			return err
		}
	}
	text := fmt.Sprintf(`{"started": "2026-01-02T03:04:05Z", "generator": {"bottleneck": %t, "reasons": ["slow"]},
		"phases": [{"name": "measure", "start": 1000000000, "end": 3000000000}],
		"lanes": [{"name": "push", "received": %g}, {"name": "poll", "received": 1}]}`, rate == 20, 2*rate)
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "result.json"), []byte(text), 0o644)
}

const testStudy = `
title: Does it run?
runs:
  - group: plain
    name: plain-${rate}-${repeat}
    matrix: {rate: [10, 20]}
    repeats: 2
    let: {n: "int(scaled(100, 5))", more: ["a=${n}"]}
    args: [run, --profile, push]
    set: ["schedule.rate=${rate}/s", "${more}"]
    lanes: [push, poll]
    figures: {speed: 'lane.received / seconds("measure")'}
  - group: served
    name: served
    args: [run]
    options: '{"Senders": 2}'
    set: [schedule.rate=1/s]
    figures: {received: lane.received}
    sampled: {attempts: 'sample("attempts", phase("measure").end)', stored: "samples[0].subscriptions.webhook"}
values: {fastest: 'max(map(filter(rows, .lane == "push"), .speed))'}
tables:
  - name: speeds
    of: [plain]
    where: lane == "push"
    by: [rate]
    columns: [rate: short(rate), speed: speed, share: percent(median(speed) / fastest), simulated: [a, b]]
  - {name: counters, of: [served], columns: [attempts: attempts, stored: whole(stored)]}
charts:
  - name: speeds
    title: Speed < rate
    x: {title: rate, log: true}
    y: {title: speed}
    lines: [{of: [plain], by: [rate, lane], line: lane, x: rate, y: speed}]
`

// made runs the test study into a new directory.
func made(t *testing.T, flags ...string) (dir string, d *data) {
	t.Helper()
	t.Setenv(programVariable, "1")
	from := filepath.Join(t.TempDir(), "2026-01-02-test")
	must(t, os.Mkdir(from, 0o755))
	must(t, os.WriteFile(filepath.Join(from, studyFile), []byte(testStudy), 0o644))
	dir = filepath.Join(t.TempDir(), "out")
	args := append([]string{"run", "-eventmeter", os.Args[0], "-out", dir}, flags...)
	var out, log bytes.Buffer
	if err := command(t.Context(), append(args, from), nil, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	d, err := loadData(dir)
	must(t, err)
	return dir, d
}

func names(d *data) string {
	var all []string
	for _, r := range d.Runs {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

func TestRunMakesDataTablesAndCharts(t *testing.T) {
	dir, d := made(t)
	if got, want := names(d), "plain-10-1 plain-20-1 plain-10-2 plain-20-2 served"; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	first := d.Runs[0]
	want := "run --profile push --set schedule.rate=10/s --set a=100 --quiet --out TEMP/plain-10-1"
	if got := strings.Join(first.Args, " "); got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	if first.ExitCode != 99 || len(first.Bottleneck) != 0 || len(d.Runs[1].Bottleneck) != 1 {
		t.Errorf("exit code %d, bottlenecks %q and %q", first.ExitCode, first.Bottleneck, d.Runs[1].Bottleneck)
	}
	served := d.Runs[4]
	if got := inJSON(t, served.Rows); got != `[{"attempts":7,"received":2,"stored":3}]` || served.Server != `{"Senders": 2}` {
		t.Errorf("rows %s of the server %s", got, served.Server)
	}
	page, err := os.ReadFile(filepath.Join(dir, pageFile))
	must(t, err)
	for _, want := range []string{
		"# Does it run?\n\n![Speed < rate](speeds.svg)\n",
		"| rate | speed | share |\n|---|--:|--:|\n| 10 | 10.0 (10.0–10.0) | 50.0 % |\n| 20 | 20.0 (20.0–20.0) | 100.0 % |\n",
		"| attempts | stored |\n|---|--:|\n| 7.00 | 3 |\n",
		"5 runs.", "**The generator was the bottleneck in 2 of them** (`plain-20-1`, `plain-20-2`)",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "speeds.svg"))
	must(t, err)
	checkXML(t, "speeds", svg)
	must(t, command(t.Context(), []string{"render", dir}, nil, io.Discard, io.Discard))
	if again, err := loadData(dir); err != nil || inJSON(t, again) != inJSON(t, d) {
		t.Errorf("read again (%v):\n%s\nmeasured:\n%s", err, inJSON(t, again), inJSON(t, d))
	}
}

func TestSmallTrial(t *testing.T) {
	dir, d := made(t, "-scale", "0.1")
	if got, want := names(d), "plain-10-1 plain-20-1 served"; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	if got := inJSON(t, d.Runs[0].Cell); got != `{"n":10,"rate":10}` {
		t.Errorf("cell %s", got)
	}
	page, err := os.ReadFile(filepath.Join(dir, pageFile))
	must(t, err)
	if want := "This is a small trial (scale 0.1)"; !strings.Contains(string(page), want) {
		t.Errorf("the page has no %q:\n%s", want, page)
	}
}

func TestFailedRunKeepsWhatWasMeasured(t *testing.T) {
	t.Setenv(programVariable, "1")
	from := t.TempDir()
	text := strings.Replace(testStudy, "rate: [10, 20]", "rate: [10, fast]", 1)
	must(t, os.WriteFile(filepath.Join(from, studyFile), []byte(text), 0o644))
	out := filepath.Join(t.TempDir(), "out")
	err := command(t.Context(), []string{"run", "-eventmeter", os.Args[0], "-out", out, from}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "plain-fast-1") {
		t.Fatalf("error %v, want one that names plain-fast-1", err)
	}
	d, err := loadData(out)
	if err != nil || !d.Partial || len(d.Runs) != 1 {
		t.Fatalf("data of the run before: %+v, %v", d, err)
	}
	if err := render(out); err == nil || !strings.Contains(err.Error(), "ended early") {
		t.Errorf("tables of half a study: error %v", err)
	}
}

func TestStudyErrors(t *testing.T) {
	for _, c := range []struct{ what, from, to, want string }{
		{"unknown key", "repeats: 2", "repeat: 2", "repeat"},
		{"two runs of one name", "plain-${rate}-${repeat}", "plain-${rate}", "two runs have the name plain-10"},
		{"unknown variable in a name", "plain-${rate}", "plain-${speed}", "speed"},
		{"bad expression", `"int(scaled(100, 5))"`, `"int(scaled(100"`, "scaled"},
		{"axis without values", "rate: [10, 20]", "rate: 10", "rate"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.Replace(testStudy, c.from, c.to, 1)
			if text == testStudy {
				t.Fatalf("%q is not in the study", c.from)
			}
			must(t, os.WriteFile(filepath.Join(dir, studyFile), []byte(text), 0o644))
			s, err := loadStudy(dir)
			if err == nil {
				_, err = s.expand(1)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "want run or render"},
		{[]string{"run"}, "one study"},
		{[]string{"run", "-scale", "2", "x"}, "scale"},
		{[]string{"measure", "x"}, `no command "measure"`},
		{[]string{"render", t.TempDir()}, studyFile},
	} {
		if err := command(t.Context(), c.args, nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestRewriteWantsEachTableOnce(t *testing.T) {
	parts := map[string]string{"a": "new\n"}
	page, err := rewrite("x\n<!-- studies: a -->\nold\n<!-- end -->\ny\n", parts)
	if want := "x\n<!-- studies: a -->\nnew\n<!-- end -->\ny\n"; err != nil || page != want {
		t.Errorf("%q, %v, want %q", page, err, want)
	}
	for _, bad := range []string{"x\n", "<!-- studies: a -->\nold\n", strings.Repeat("<!-- studies: a -->\n<!-- end -->\n", 2)} {
		if _, err := rewrite(bad, parts); err == nil {
			t.Errorf("%q was rewritten", bad)
		}
	}
}

func TestSampleIsInterpolated(t *testing.T) {
	sample := sampleOf([]any{map[string]any{"t": 1.0, "n": 10.0}, map[string]any{"t": 3.0, "n": 20.0}})
	for at, want := range map[float64]float64{0: 10, 1: 10, 2: 15, 3: 20, 9: 20} {
		if got, err := sample("n", at); err != nil || got != want {
			t.Errorf("at %g: %v, %v, want %g", at, got, err, want)
		}
	}
}

func TestNumbersAsTablesShowThem(t *testing.T) {
	for code, want := range map[string]string{
		`digits(1234.5)`: "1\u202f235", `digits(12.34)`: "12.3", `digits(0.01234)`: "0.0123", `digits(0)`: "0",
		`short(10.04)`: "10", `short(0.25)`: "0.25", `whole(-1234)`: "-1\u202f234", `percent(0.123)`: "12.3 %",
		`signed(-0.1)`: "−10.0 %", `time(0.0012)`: "1.20 ms", `time(90)`: "1m30s", `time(2)`: "2.00 s", `time(3e-6)`: "3.00 µs",
		`spread([3, 1, 2])`: "2.00 (1.00–3.00)", `spread([5])`: "5.00",
		`digits(10 - last(filter([1, 2, 3], # < 3)))`: "8.00", `thousandths(0.25)`: "0.250",
	} {
		if got, err := eval(code, nil); err != nil || got != want {
			t.Errorf("%s = %v, %v, want %s", code, got, err, want)
		}
	}
	for _, code := range []string{`digits(nil)`, `whole("x")`, `spread([])`, `digits(1, 2)`, `findLast([1], true)`, `spread([1, nil])`} {
		if v, err := eval(code, nil); err == nil {
			t.Errorf("%s = %v, want an error", code, v)
		}
	}
}
