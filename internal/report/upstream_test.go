package report

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/stats"
	"github.com/eventmeter/eventmeter/results"
)

// fed is a result with figures of its upstream, a lane without deliveries, and one with.
func fed() *results.Result {
	r := sampleResult()
	r.Upstream = results.Upstream{
		Kind:      "feed",
		Sources:   2,
		Scheduled: 400,
		Published: 400,
		Accepted:  400,
		Figures: map[string]float64{
			"feedServed":   410,
			"feedRepeated": 0,
		},
		Timings: map[string]results.Quantiles{"feedLag": {Count: 400, P50: 125e6, P99: 250e6}},
	}
	r.Lanes[0].Ready.Active = 5
	r.Lanes = append(
		r.Lanes,
		results.Lane{Name: "calls", System: "sep-975", Mode: "push", Subscriptions: 3, Ready: results.Ready{Active: 3}},
	)
	return r
}

func TestUpstreamFiguresEverywhere(t *testing.T) {
	md := write(t, func(w io.Writer) error { return Markdown(w, fed()) })
	for _, want := range []string{"| upstream feed | |\n", "| feedServed | 410 |\n", "| feedLag, p99 | 250ms |\n"} {
		if !strings.Contains(md, want) {
			t.Errorf("%q is missing in\n%s", want, md)
		}
	}
	var doc junitSuites
	must(t, xml.Unmarshal([]byte(write(t, func(w io.Writer) error { return JUnit(w, fed()) })), &doc))
	got := map[string]string{}
	for _, p := range doc.Suites[0].Properties {
		got[p.Name] = p.Value
	}
	if got["upstream.figures.feedServed"] != "410" || got["upstream.figures.feedRepeated"] != "0" ||
		got["upstream.timings.feedLag.p50"] != "125ms" {
		t.Errorf("%v", got)
	}
	c := sampleComparison()
	c.Upstream = []stats.Shown{{Figure: "feedLag.p50", Unit: "ns", A: ptr(125e6), B: ptr(60e6)}, {Figure: "feedServed", A: ptr(410)}}
	text := write(t, func(w io.Writer) error { return CompareText(w, c) })
	md = write(t, func(w io.Writer) error { return CompareMarkdown(w, c) })
	if !strings.Contains(strings.Join(strings.Fields(text), " "), "upstream, not judged A B") ||
		!strings.Contains(strings.Join(strings.Fields(text), " "), "feedLag.p50 125ms 60.0ms feedServed 410.0 –") {
		t.Errorf("%s", text)
	}
	if !strings.Contains(md, "| feedLag.p50 | 125ms | 60.0ms |\n| feedServed | 410.0 | – |\n") {
		t.Errorf("%s", md)
	}
}

// A lane to which nothing was owed shows no zeros. If there are only such lanes, the rows are left
// out.
func TestNothingOwed(t *testing.T) {
	r := fed()
	text := write(t, func(w io.Writer) error { return Text(w, r) })
	row := func(text, label string) []string {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, label+" "); ok {
				return strings.Fields(rest)
			}
		}
		return nil
	}
	if got := row(text, "subscriptions active"); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := row(text, "silent loss"); len(got) != 1 || got[0] != "!1" {
		t.Errorf("%q in\n%s", got, text)
	}
	r.Lanes = r.Lanes[1:]
	if text = write(
		t,
		func(w io.Writer) error { return Text(w, r) },
	); strings.Contains(text, "silent loss") || strings.Contains(text, "latency from") ||
		!strings.Contains(text, "connections opened") {
		t.Errorf("%s", text)
	}
	// If nothing could be published, or no subscription is open, zeros are measurements.
	for name, change := range map[string]func(){
		"none accepted": func() { r.Upstream.Accepted = 0 },
		"none open":     func() { r.Upstream.Accepted, r.Lanes[0].Ready.Active = 1, 0 },
	} {
		change()
		if text = write(t, func(w io.Writer) error { return Text(w, r) }); !strings.Contains(text, "silent loss") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
