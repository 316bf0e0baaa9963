// Package report renders results for people and programs: text, HTML, Markdown, JUnit and CI
// annotations.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// width is how wide the text report may be.
const width = 100

// Text writes the result for a terminal or a chat: what ran, one table with a
// column for each lane, thresholds, the generator's own health and warnings.
// It contains no escape codes and no line of the tables is wider than 100
// columns.
func Text(w io.Writer, r *results.Result) error {
	p := &printer{w: w}
	p.head(r)
	p.tables(lanesOf(r))
	p.own(r.Lanes)
	p.ownFigures("upstream ("+Clean(r.Upstream.Kind)+")", r.Upstream.Figures, r.Upstream.Timings)
	p.latencyNotes(r)
	p.verdicts(r)
	p.conformance(r)
	p.part(r)
	p.shards(r)
	p.generator(r)
	p.leaks(r)
	p.warnings(r.Warnings)
	return p.err
}

func (p *printer) head(r *results.Result) {
	p.printf("%s, %s, in %s", whereText(r), protocolText(r), r.Took())
	if r.Partial {
		p.printf(" · PARTIAL: %s", Clean(r.Reason))
	}
	u := r.Upstream
	p.printf("\n%s published by %s from %s", plural(u.Published, "event"), Clean(u.Kind), plural(u.Sources, "source"))
	for _, x := range []struct {
		n    int64
		what string
	}{{u.Uncertain, "uncertain"}, {u.Refused, "refused"}, {u.Dropped, "dropped"}} {
		if x.n > 0 {
			p.printf(", %d %s", x.n, x.what)
		}
	}
	if u.Lag.Count > 0 {
		p.printf("; published %s after scheduled at p99", u.Lag.P99)
	}
	p.printf("\n")
	for i := range r.Until {
		p.beside("until      ", noteIndent, Clean(r.Until[i].String()))
	}
	p.printf("\n")
}

const (
	noteIndent  = 11 // of text after verdict, generator, warning
	labelWidth  = 34
	columnWidth = 13 // of a column, at the least
	mostWidth   = 24 // and at the most
)

// own lists the figures of a lane's system.
func (p *printer) own(lanes []results.Lane) {
	for i := range lanes {
		l := &lanes[i]
		p.ownFigures(Clean(l.Name)+" ("+Clean(l.System)+")", l.Figures, l.Timings)
	}
}

// ownFigures lists the figures and timings of a system or of a kind of upstream.
func (p *printer) ownFigures(title string, figures map[string]float64, timings map[string]results.Quantiles) {
	if len(figures)+len(timings) == 0 {
		return
	}
	p.printf("%s\n", title)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		p.printf("  %s%s\n", padRight(name, labelWidth), padLeft(ratio(figures[name]), columnWidth))
	}
	for _, name := range slices.Sorted(maps.Keys(timings)) {
		p.printf("  %s%s\n", padRight(name, labelWidth), timingText(timings[name]))
	}
	p.printf("\n")
}

func (p *printer) latencyNotes(r *results.Result) {
	notes := latencyNotes(r)
	for _, text := range notes {
		p.printf("%s\n", text)
	}
	if notes != nil {
		p.printf("\n")
	}
}

// latencyNotes explains the marks of latencies, as far as the lanes have them.
func latencyNotes(r *results.Result) []string {
	var below, intervals, few, doubts bool
	for i := range r.Lanes {
		l := &r.Lanes[i].Latency
		below = below || len(l.BelowResolution) > 0
		for _, in := range l.Intervals {
			intervals = true
			few = few || in.High == 0
			doubts = doubts || in.Doubt != "" && in.Doubt != results.FewEvents
		}
	}
	var notes []string
	for _, n := range []struct {
		there bool
		text  string
	}{
		{intervals, "(from–to) 95 % confidence interval"},
		{few, "(from–?) too few independent events to bound the figure"},
		{doubts, "! in doubt: see the warnings"},
		{below, fmt.Sprintf(
			"~ below this run's resolution limit of %s; smaller differences are not measurable",
			r.Generator.ReadDelay.P99,
		)},
	} {
		if n.there {
			notes = append(notes, n.text)
		}
	}
	return notes
}

func (p *printer) verdicts(r *results.Result) {
	marks := map[string]string{wordHeld: "pass", wordFailed: "FAIL", wordNotEvaluated: "NOT EVALUATED"}
	for _, h := range thresholdRows(r.Thresholds) {
		p.printf("%s  %s  (%s)\n", marks[h.Word], h.Threshold, strings.TrimPrefix(h.Lanes+": "+h.Text, ": "))
	}
	if len(r.Thresholds) > 0 {
		p.printf("\n")
	}
	j := judge(r)
	p.beside("verdict    ", noteIndent, strings.ToUpper(j.word)+": "+j.text)
	for _, u := range j.unclean {
		p.beside("not clean  ", noteIndent, u.String())
	}
	for _, s := range settingLines(r) {
		p.beside("setting    ", noteIndent, s)
	}
	p.printf("\n")
}

func (p *printer) generator(r *results.Result) {
	in := r.Generator
	p.printf("generator  %s, %d goroutines\n", usage(&in.Process), in.Goroutines)
	p.printf("           at p99: read delay %s, timers %s late; longest GC pause %s\n",
		in.ReadDelay.P99, in.TimerLag.P99, in.GCPauses.Max)
	if a := in.Arrivals; a.Kernel > 0 {
		p.printf(
			"           %s of %s deliveries timed by the kernel, %s shared a read\n",
			count(a.Kernel),
			count(a.Counted),
			count(a.Shared),
		)
		p.printf(
			"           at p99: error of these times %s; wait until read %s, excluded\n",
			a.Error.P99,
			a.Waited.P99,
		)
	}
	if r.Target.Process != nil {
		p.printf("target     %s\n", usage(r.Target.Process))
	}
	for _, reason := range in.Reasons {
		p.printf("BOTTLENECK %s\n", Clean(reason))
	}
}

func (p *printer) warnings(ws []results.Warning) {
	for _, w := range ws {
		p.beside("warning    ", noteIndent, warningText(w))
	}
}

// part marks the result of a shard.
func (p *printer) part(r *results.Result) {
	if r.Part != nil {
		p.printf("shard %d of %d: thresholds are judged on the merged run\n\n", r.Part.Index, r.Part.Count)
	}
}

// shards lists the processes of a run that was split.
func (p *printer) shards(r *results.Result) {
	if len(r.Shards) == 0 {
		return
	}
	const form = "%-10s %-22s %9s %13s %9s %9s %9s %9s\n"
	p.printf(form, "shard", "machine", "subs", "delivered", "foreign", "begun", "own p99", "CPUs")
	for i, row := range shardRows(r.Shards) {
		s, c := &r.Shards[i], row.Cells
		if s.Missing {
			p.printf("%-10s MISSING: its result was not there to merge\n", row.Name)
			continue
		}
		p.printf(form, row.Name, shorten(c[0], 22), c[1], c[2], c[3], c[4], c[5], c[6])
		if s.Partial {
			p.printf("%s PARTIAL: %s\n", strings.Repeat(" ", 10), Clean(s.Reason))
		}
	}
	p.printf("\n")
}
