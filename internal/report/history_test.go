package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

func sampleHistory() *stats.History {
	h := &stats.History{
		Schema: stats.HistorySchema, Alpha: 0.0005, MinEffect: 0.03,
		Warnings: []results.Warning{{Code: "partial", Text: "run 00000009 ended early and is left out: " + hostile}},
	}
	slow := stats.FigureHistory{Figure: "latency.fromIntended.p99", Unit: "ns", Changes: []stats.LevelChange{
		{At: 12, Earliest: 11, Latest: 13, Before: 10e6, After: 12e6, Effect: 0.2, Low: ptr(0.18), High: ptr(0.22), Finding: stats.Worse},
		{
			At:       50,
			Earliest: 50,
			Latest:   50,
			Before:   12e6,
			After:    10e6,
			Effect:   -1. / 6,
			Low:      ptr(-0.18),
			High:     ptr(-0.15),
			Finding:  stats.Better,
		},
	}}
	lost := stats.FigureHistory{Figure: "lostSilent", Per: "expected", Unit: "share", Changes: []stats.LevelChange{
		{
			At:       50,
			Earliest: 50,
			Latest:   50,
			After:    0.002,
			Effect:   0.002,
			Absolute: true,
			Low:      ptr(0.001),
			High:     ptr(0.003),
			Finding:  stats.Worse,
		},
	}}
	none := stats.FigureHistory{Figure: "duplicates.rate", Unit: "share"}
	few := stats.FigureHistory{
		Figure: "latency.fromIntended.p999",
		Unit:   "ns",
		Reason: "1 of 60 runs have fewer than 10 samples beyond this quantile",
	}
	for i := range 60 {
		h.Runs = append(h.Runs, stats.HistoryRun{
			RunInfo: stats.RunInfo{
				Run:     fmt.Sprintf("%08x", i),
				Path:    fmt.Sprintf("nightly/%02d", i),
				Version: "1.0.0",
				Started: time.Unix(int64(i)*86400, 0),
				Commit:  fmt.Sprintf("c%d", i),
			},
			Target:        "shop",
			TargetVersion: "1.4",
		})
		level, share := 10e6, 0.0
		if i >= 12 && i < 50 {
			level = 12e6
		}
		if i >= 50 {
			share = 0.002
		}
		slow.Values = append(slow.Values, ptr(level+float64(i%3)*1e5))
		lost.Values, none.Values = append(lost.Values, ptr(share)), append(none.Values, ptr(0))
		few.Values = append(few.Values, ptr(20e6))
	}
	slow.Values[5] = nil
	h.Runs[12].Differs = []string{"target shop 1.3 and " + hostile}
	h.Lanes = []stats.LaneHistory{{Name: "push", System: "events", Mode: "push", Figures: []stats.FigureHistory{slow, few, lost, none}}}
	return h
}

func TestHistoryText(t *testing.T) {
	got := write(t, func(w io.Writer) error { return HistoryText(w, sampleHistory()) })
	for _, want := range []string{
		"60 runs from 1970-01-01 00:00 to 1970-03-01 00:00\n",
		"latency.fromIntended.p99                10.0ms  ▁▁▁▁▁▁████",
		"▁▁▁▁▁        2 changes\n",
		"Run 13 of 60: nightly/12, 1970-01-13 00:00, shop 1.4, commit c12, eventmeter 1.0.0\n",
		"  push latency.fromIntended.p99: 10.0ms to 12.0ms, +20.0% (95 % interval +18.0% to +22.0%), worse;\n    it began with run 12 to 14 (95 %)\n",
		"  push lostSilent/expected: 0 % to 0.2 %, +0.2 % (95 % interval +0.1 % to +0.3 %), worse\n",
		"also differs from the run before: target shop 1.3",
		"push latency.fromIntended.p999: 1 of 60 runs have fewer",
		"Changes below 3 %",
	} {
		if !strings.Contains(strings.ReplaceAll(got, "changes below", "Changes below"), want) {
			t.Fatalf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "duplicates") || strings.ContainsAny(got, "\x1b\r") {
		t.Errorf("a figure that is 0 in every run, or escape codes:\n%s", got)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 && !strings.Contains(line, "x1b") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestHistoryOfNoChange(t *testing.T) {
	h := sampleHistory()
	for i := range h.Lanes[0].Figures {
		h.Lanes[0].Figures[i].Changes = nil
	}
	for _, of := range []func(io.Writer, *stats.History) error{HistoryText, HistoryMarkdown, HistoryHTML} {
		if got := write(t, func(w io.Writer) error { return of(w, h) }); !strings.Contains(got, "No figure changed.") {
			t.Error(got)
		}
	}
}

func TestHistoryMarkdown(t *testing.T) {
	got := write(t, func(w io.Writer) error { return HistoryMarkdown(w, sampleHistory()) })
	for _, want := range []string{"### eventmeter history", "**Run 13 of 60&#58;", "| latency.fromIntended.p99 | 10.0ms |", "| 2 changes |"} {
		if !strings.Contains(got, want) {
			t.Fatalf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "<x>") {
		t.Errorf("markup of the target:\n%s", got)
	}
}

func TestHistoryHTML(t *testing.T) {
	got := write(t, func(w io.Writer) error { return HistoryHTML(w, sampleHistory()) })
	for what, n := range map[string]int{"<svg": 3, "<circle": 59 + 60 + 60, `class="shift worse"`: 2, `class="shift"`: 1, `class="level"`: 3 + 2 + 1, "<script": 0, "http:": 0, "<x>": 0, "<tr><th scope=\"row\">": 60} {
		if k := strings.Count(got, what); k != n {
			t.Errorf("%d times %s, want %d", k, what, n)
		}
	}
	_, body, _ := strings.Cut(got, "<main>")
	body, _, _ = strings.Cut(body, "</main>")
	dec := xml.NewDecoder(strings.NewReader("<main>" + body + "</main>"))
	for {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
	}
}
