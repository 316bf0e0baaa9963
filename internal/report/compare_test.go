package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func ptr(v float64) *float64 { return &v }

// hostile is text with which a target might inject markup or commands.
const hostile = "]]><x>&\"'\x1b[31m|@all\r\n::error::x ##vso[task.complete] ##teamcity[x] `a` %0A section_start:1:x"

func sampleComparison() *stats.Comparison {
	return &stats.Comparison{
		Schema:     stats.ComparisonSchema,
		Alpha:      0.05,
		MinEffect:  0.03,
		Resolution: 0.1,
		Tested:     5,
		A:          stats.SideInfo{Runs: []stats.RunInfo{{Run: "00000001", Path: "runs/a", Version: "1.0.0"}}},
		B: stats.SideInfo{
			Runs: []stats.RunInfo{{Run: "00000002", Path: "runs/b", Version: "1.0.0"}, {Run: "00000003", Path: "runs/c", Version: "1.0.0"}},
		},
		Lanes: []stats.LaneChange{{Name: "push", System: "events", Mode: "push", Figures: []stats.Change{
			{
				Figure:     "latency.fromIntended.p50",
				Unit:       "ns",
				A:          ptr(12.3e6),
				B:          ptr(12.4e6),
				Effect:     ptr(0.008),
				Low:        ptr(-0.01),
				High:       ptr(0.02),
				P:          ptr(0.41),
				Adjusted:   ptr(0.41),
				Detectable: ptr(0.041),
				Finding:    stats.Same,
			},
			{
				Figure:     "latency.fromIntended.p99",
				Unit:       "ns",
				A:          ptr(50e6),
				B:          ptr(70e6),
				Effect:     ptr(0.4),
				Low:        ptr(0.35),
				High:       ptr(0.45),
				P:          ptr(0.0005),
				Adjusted:   ptr(0.002),
				Detectable: ptr(0.06),
				Finding:    stats.Worse,
			},
			{
				Figure:  "latency.fromIntended.p999",
				Unit:    "ns",
				A:       ptr(60e6),
				B:       ptr(50e6),
				Effect:  ptr(-1. / 6),
				Finding: stats.NotEnough,
				Reason:  "6 samples beyond this quantile; 10 are needed",
			},
			{
				Figure:   "lostSilent",
				Per:      "expected",
				Unit:     "share",
				A:        ptr(0),
				B:        ptr(0.0123),
				Effect:   ptr(0.0123),
				Absolute: true,
				Low:      ptr(0.01),
				High:     ptr(0.015),
				P:        ptr(1e-9),
				Adjusted: ptr(1e-8),
				Finding:  stats.Worse,
			},
			{
				Figure:   "duplicates.rate",
				Unit:     "share",
				A:        ptr(0.02),
				B:        ptr(0.01),
				Effect:   ptr(-0.5),
				Low:      ptr(-0.7),
				High:     ptr(-0.3),
				P:        ptr(1e-9),
				Adjusted: ptr(1e-8),
				Finding:  stats.Better,
			},
			{
				Figure:  "lostAnnounced",
				Per:     "expected",
				Unit:    "share",
				A:       ptr(0.001),
				B:       ptr(0.0005),
				Effect:  ptr(-0.5),
				Low:     ptr(-0.95),
				P:       ptr(1),
				Finding: stats.NotEnough,
				Reason:  "so little data that no difference could be significant",
			},
			{
				Figure:  "overhead.perSubscriptionHour.requests",
				Unit:    "requests",
				A:       ptr(3600),
				B:       ptr(12345),
				Effect:  ptr(2.43),
				Finding: stats.NotEnough,
				Reason:  "one run each: no noise estimate",
			},
			{
				Figure:  "overhead.perDelivered.bytes",
				Unit:    "bytes",
				A:       ptr(4567),
				B:       ptr(4600),
				Effect:  ptr(0.007),
				Finding: stats.NotEnough,
				Reason:  "one run each: no noise estimate",
			},
		}}},
		Run: []stats.Change{
			{
				Figure:  "target.process.cpu",
				Per:     "delivered",
				Unit:    "ns",
				A:       ptr(40000),
				B:       ptr(41000),
				Effect:  ptr(0.025),
				Finding: stats.NotEnough,
				Reason:  "one run each: no noise estimate",
			},
		},
		OnlyB:    []string{"webhook"},
		Warnings: []results.Warning{{Code: "partial", Text: "run 00000002 of B ended early: " + hostile}},
	}
}

func write(t *testing.T, f func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	must(t, f(&b))
	return b.String()
}

func TestCompareText(t *testing.T) {
	got := write(t, func(w io.Writer) error { return CompareText(w, sampleComparison()) })
	golden(t, "compare.txt", got)
	for i, line := range strings.Split(got, "\n") {
		if utf8.RuneCountInString(line) > width {
			t.Errorf("line %d is wider than %d: %s", i+1, width, line)
		}
	}
	if strings.ContainsAny(got, "\x1b\r") {
		t.Error("control characters")
	}
}

func TestCompareMarkdown(t *testing.T) {
	c := sampleComparison()
	golden(t, "compare.md", write(t, func(w io.Writer) error { return CompareMarkdown(w, c) }))
	for i := range c.Lanes[0].Figures {
		c.Lanes[0].Figures[i].Finding = stats.Same
	}
	if got := write(t, func(w io.Writer) error { return CompareMarkdown(w, c) }); !strings.Contains(got, "No figure differs.") {
		t.Errorf("nothing changed: %s", got)
	}
}

func TestCompareDuet(t *testing.T) {
	c := sampleComparison()
	c.Duet = &stats.Duet{Events: 1200, FirstA: 610}
	c.Lanes[0].Figures[1].Method = stats.TypicalStretch
	c.Lanes[0].Paired = &stats.Paired{Events: 1199, Deliveries: 5995}
	c.Lanes = append(c.Lanes, stats.LaneChange{Name: "lists"})
	notes := strings.Join(compareNotes(c), "\n")
	for _, want := range []string{
		"both published 1 200 events at the same instants, A first in 610 of them",
		"push: latencies are compared in 5 995 pairs of deliveries, of 1 199 events that both sides received",
		"lists: no delivery could be paired",
		"push: the change is that of a typical stretch of the run, where other work of the machine hides it least: scheduled → received, p99",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if alone := strings.Join(
		compareNotes(sampleComparison()),
		"\n",
	); strings.Contains(alone, "together:") ||
		strings.Contains(alone, "pair") {
		t.Error(alone)
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0%", 0.0004: "0.0%", -0.0004: "0.0%", 0.05: "+5.0%", -0.123: "-12.3%",
		12.34: "+1234%", -10: "-1000%"} {
		if got := percent(v); got != want {
			t.Errorf("percent(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestMarkup(t *testing.T) {
	for in, want := range map[string]string{
		"plain 1.5ms":        "plain 1.5ms",
		"a|b":                `a\|b`,
		"<img src=x>":        "&lt;img src=x&gt;",
		"@team":              "@\u200bteam",
		"[x](http://y)":      `\[x\]\(http&#58;//y\)`,
		"`code` *b* _i_ ~~s": "\\`code\\` \\*b\\* \\_i\\_ \\~\\~s",
		"&lt;":               "&amp;lt;",
		"a\nb\x1b[0m":        `a b`,
		`back\slash`:         `back\\slash`,
	} {
		if got := Markup(in); got != want {
			t.Errorf("Markup(%q) = %q, want %q", in, got, want)
		}
	}
}

func sampleResult() *results.Result {
	started := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	measured := 300e6
	return &results.Result{
		Schema: results.Schema, Version: "1.0.0", Run: "00c0ffee", Started: started, Finished: started.Add(20500 * time.Millisecond),
		Partial: true, Reason: "interrupted " + hostile,
		Target:   results.Target{URL: "http://127.0.0.1:8080/mcp", Era: "modern", Protocol: "2026-07-28"},
		Upstream: results.Upstream{Kind: "inject", Sources: 2, Published: 400},
		Lanes: []results.Lane{
			{
				Name:          "push",
				System:        "events",
				Mode:          "push",
				Subscriptions: 5,
				Ready:         results.Ready{Active: 5},
				Expected:      2000,
				Delivered:     1999,
				LostSilent:    1,
				Latency:       results.Latency{FromIntended: results.Quantiles{Count: 1999, P50: 2e6, P99: 300e6, P999: 310e6}},
				Overhead:      results.Overhead{PerDelivered: results.Share{Requests: 0.01, Bytes: 12.5}},
			},
		},
		Thresholds: []results.Verdict{
			{Threshold: "*.lostSilent == 0", Lane: "push", Text: "1"},
			{Threshold: "push.latency.fromIntended.p99 < 250ms", Lane: "push", Measured: &measured, Text: "300ms"},
			{Threshold: "run.upstream.dropped == 0", Passed: true, Text: "0"},
		},
		Generator: results.Generator{Bottleneck: true, Reasons: []string{"timers woke 80ms late", "2 % of events were dropped"}},
		Warnings:  []results.Warning{{Code: "late", Lane: "push", Text: hostile}},
	}
}

func TestJUnit(t *testing.T) {
	got := write(t, func(w io.Writer) error { return JUnit(w, sampleResult()) })
	golden(t, "junit.xml", got)
	var doc junitSuites
	must(t, xml.Unmarshal([]byte(got), &doc))
	s := doc.Suites[0]
	if doc.Tests != 5 || doc.Failures != 2 || doc.Errors != 2 || len(s.Cases) != 5 {
		t.Errorf("%d tests, %d failures, %d errors, %d cases", doc.Tests, doc.Failures, doc.Errors, len(s.Cases))
	}
	if c := s.Cases[0]; c.Error == nil || c.Error.Message != "interrupted "+Clean(hostile) {
		t.Errorf("the reason did not survive: %+v", c.Error)
	}
	if c := s.Cases[3]; c.Class != "eventmeter.push" || c.Failure == nil || c.Failure.Message != "measured: 300ms" {
		t.Errorf("threshold: %+v", c)
	}
	if c := s.Cases[4]; c.Class != "eventmeter.run" || c.Failure != nil {
		t.Errorf("passed threshold: %+v", c)
	}
}

func TestMarkdown(t *testing.T) {
	golden(t, "result.md", write(t, func(w io.Writer) error { return Markdown(w, sampleResult()) }))
}

func TestAnnotations(t *testing.T) {
	for _, system := range Systems() {
		got := write(t, func(w io.Writer) error { return Annotations(w, sampleResult(), system) })
		golden(t, "annotations."+system+".txt", got)
		// Whatever a target sends, each line begins with our own text.
		begin := map[string][]string{
			GitHub: {"::error title=eventmeter", "::warning title=eventmeter"}, Azure: {"##vso[task.logissue type="},
			TeamCity: {"##teamcity["}, GitLab: {"\x1b[0Ksection_", "ERROR eventmeter", "WARNING eventmeter"},
		}[system]
		for _, line := range strings.Split(strings.TrimSuffix(got, "\n"), "\n") {
			ok := false
			for _, b := range begin {
				ok = ok || strings.HasPrefix(line, b)
			}
			if !ok {
				t.Errorf("%s: a line begins %q", system, line)
			}
			if system != GitLab && strings.ContainsAny(line, "\r\x1b") || strings.Count(line, "##vso[") > 1 ||
				system == TeamCity && strings.Count(line, "##teamcity[") > 1 {
				t.Errorf("%s: a command within %q", system, line)
			}
		}
		fine := &results.Result{Thresholds: []results.Verdict{{Threshold: "*.lostSilent == 0", Passed: true}}}
		if got := write(t, func(w io.Writer) error { return Annotations(w, fine, system) }); got != "" && system != TeamCity {
			t.Errorf("%s: all is well, and there is %q", system, got)
		}
	}
	if err := Annotations(
		io.Discard,
		sampleResult(),
		"jenkins",
	); err == nil ||
		!strings.Contains(err.Error(), "github, gitlab, azure, teamcity") {
		t.Errorf("unknown system: %v", err)
	}
}

func TestDetectCI(t *testing.T) {
	for key, want := range map[string]string{"GITHUB_ACTIONS=true": GitHub, "GITLAB_CI=true": GitLab,
		"TF_BUILD=True": Azure, "TEAMCITY_VERSION=2025.1": TeamCity, "CI=true": ""} {
		k, v, _ := strings.Cut(key, "=")
		got := DetectCI(func(name string) string {
			if name == k {
				return v
			}
			return ""
		})
		if got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// A comparison read from a file equals the one in memory.
func TestComparisonIsJSON(t *testing.T) {
	var c stats.Comparison
	must(t, json.Unmarshal([]byte(write(t, sampleComparison().Write)), &c))
	want := write(t, func(w io.Writer) error { return CompareText(w, sampleComparison()) })
	if got := write(t, func(w io.Writer) error { return CompareText(w, &c) }); got != want {
		t.Errorf("got\n%s", got)
	}
}

// Wherever text of a target is wrapped, no line begins with what GitHub takes for a command.
func TestWrappedTextIsNoCommand(t *testing.T) {
	for n := range 110 {
		said := Clean(strings.Repeat("x", n) + " ::error title=forged::x\u00a0::stop-commands::y " + strings.Repeat("z", 60) + " ::add-mask::z")
		c, r := sampleComparison(), sampleResult()
		c.Warnings = append(c.Warnings, results.Warning{Code: "x", Text: said})
		r.Partial, r.Reason = true, said
		r.Warnings = append(r.Warnings, results.Warning{Code: "x", Text: said})
		text := write(t, func(w io.Writer) error {
			return errors.Join(CompareText(w, c), Text(w, r), Summary(w, r, SummaryOptions{Width: 80}))
		})
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "::") {
				t.Fatalf("a line begins %q", line)
			}
		}
	}
}

// must ends the test if a step of it has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
