package goldens

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/report"
	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// drawn pins what a renderer writes.
func drawn(t *testing.T, name string, draw func(io.Writer) error) {
	t.Helper()
	var out strings.Builder
	must(t, draw(&out))
	golden(t, name, readable(out.String()))
}

// A duet: two runs of the same events, compared by pairs of deliveries.
func TestDuet(t *testing.T) {
	dir := t.TempDir()
	var sides [2]*stats.Side
	both := pair(20)
	t.Chdir(dir) // the comparison names the archives
	for i, c := range both {
		name := []string{"baseline", "candidate"}[i]
		m := c.measure(t)
		m.archive(t, name)
		var err error
		if sides[i], err = stats.LoadSide([]string{name}); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(home)
	c, err := stats.CompareDuet(sides[0], sides[1], pairsOf(both), stats.CompareOptions{})
	must(t, err)
	drawn(t, "duet/report.txt", func(w io.Writer) error { return report.CompareText(w, c) })
	drawn(t, "duet/report.md", func(w io.Writer) error { return report.CompareMarkdown(w, c) })
	drawn(t, "duet/result.json", c.Write)
}

// pairsOf are the deliveries that both sides received.
func pairsOf(both [2]*madeUp) *stats.Duet {
	out := &stats.Duet{Events: events - warmUps, FirstA: (events - warmUps) / 2, Lanes: map[string]*stats.Pairs{}}
	a, b := both[0].history, both[1].history
	for lane, g := range a.groups {
		pairs := stats.NewPairs(out.Events)
		for k := range out.Events {
			n := k + warmUps
			for sub := range g.subscriptions {
				came := [2]time.Duration{a.came[lane][sub][n], b.came[lane][sub][n]}
				if came[0] == 0 || came[1] == 0 {
					continue
				}
				var intended, sent [2]time.Duration
				for i, h := range []*history{a, b} {
					at := eventmeter.Instant(came[i])
					intended[i], sent[i] = at.Sub(h.emissions[n].Intended), at.Sub(h.emissions[n].Fired)
				}
				pairs.Add(k, intended, sent)
			}
		}
		out.Lanes[g.name] = pairs
	}
	return out
}

// A check of conformance, at rest and under load.
func TestCheck(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &results.Check{
		Schema: results.CheckSchema, Version: "v0.0.0-golden", Started: began, Finished: began.Add(90 * time.Second), Event: "tick",
		Target: results.Target{URL: "http://127.0.0.1:8080/mcp", Era: "modern", Protocol: "2026-07-28", Name: "target", Version: "1.2.3"},
		Stages: []results.CheckStage{
			{Name: results.CheckStages[0], Subscriptions: 9, Rate: 2, Delivered: 600, Rounds: 3},
			{
				Name: results.CheckStages[1], Subscriptions: 5000, Rate: 20, Delivered: 90000, Rounds: 2,
				Bottleneck: []string{"it used all processors"}, Ended: "the limit of 5m was over",
			},
		},
	}
	rest, load := clean().conformance(4), faulty().conformance(4)
	why := map[string]string{}
	for row := range rest {
		if len(row)%3 == 0 {
			delete(rest, row)
			why[row] = "no event type needs it"
		}
	}
	c.Judge(results.CheckSeen{Account: rest, Why: why}, results.CheckSeen{Account: load, Why: why})
	drawn(t, "check/report.txt", func(w io.Writer) error { return report.Check(w, c) })
	drawn(t, "check/junit.xml", func(w io.Writer) error { return report.CheckJUnit(w, c) })
	drawn(t, "check/result.json", c.Write)
	drawn(t, "check/line.txt", func(w io.Writer) error { _, err := fmt.Fprintln(w, report.CheckLine(c)); return err })
}

// A calibration with a row that differs, which ended early. Its table as text is
// printed while it runs; its expected counts are in cmd/eventmeter/testdata.
func TestCalibration(t *testing.T) {
	c := &report.Calibration{
		Profile: "calibrate", Version: "v0.0.0-golden", Started: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Took: 12 * time.Second,
		Rows: []report.CalibrationRow{
			{Case: "clean", Lane: "push", Passed: true, Text: "expected 120 = 120, delivered 120 = 120"},
			{Case: "drop", Lane: "poll", Text: "expected 120 = 120, lostSilent 12 ≠ 11"},
			{Case: "reorder", Lane: "webhook", Passed: true, Text: "outOfOrder >= 12, 14"},
		},
		Broken: "case late: the target ended",
	}
	drawn(t, "calibration/report.md", func(w io.Writer) error { return report.CalibrationMarkdown(w, c) })
	drawn(t, "calibration/report.html", func(w io.Writer) error { return report.CalibrationHTML(w, c) })
	drawn(t, "calibration/junit.xml", func(w io.Writer) error { return report.CalibrationJUnit(w, c) })
	for _, system := range report.Systems() {
		name := filepath.ToSlash(filepath.Join("calibration", fileOf(system)))
		drawn(t, name, func(w io.Writer) error { return report.CalibrationAnnotations(w, c, system) })
	}
}
