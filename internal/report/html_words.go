package report

import (
	stdbytes "bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

func newRunView(p *Page) runView {
	r := p.Result
	v := runView{
		Name:     Clean(p.Name),
		Result:   r,
		Where:    whereText(r),
		Protocol: protocolText(r),
		Started:  r.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
		Took:     r.Took().String(),
		Published: fmt.Sprintf("%s published by %s from %s",
			plural(r.Upstream.Published, "event"), Clean(r.Upstream.Kind), plural(r.Upstream.Sources, "source")),
		Thresholds: thresholdRows(r.Thresholds),
		Shards:     shardRows(r.Shards),
		Profile:    p.Profile,
		Repeat:     repeat(r),
	}
	if v.Profile == "" {
		v.Profile = indented(r.Profile)
	}
	for i := range r.Until {
		v.Until = append(v.Until, Clean(r.Until[i].String()))
	}
	j := judge(r)
	v.Word, v.Class, v.Verdict, v.Unclean = j.word, j.class, j.text, j.unclean
	v.Health = health(r)
	v.Leak = leakRows(r)
	v.Phases = phasesText(r)
	v.Conformance, v.Rows = conformanceLine(r), conformanceRows(r, "")
	return v
}

// indented is JSON as people read it; "" where it is none.
func indented(text json.RawMessage) string {
	var b stdbytes.Buffer
	_ = json.Indent(&b, text, "", "  ") // it leaves b as it is
	return b.String()
}

// quotient formats a quotient of 1.2 or more.
func quotient(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return count(int64(v + 0.5))
}

// meaning is the table in words: a sentence for each lane with owed deliveries, ordered by p99
// latency.
func meaning(p *Page, several bool) []string {
	var out []string
	for _, l := range lanesByP99(p.Result) {
		name := Clean(l.Name)
		if several {
			name = Clean(p.Name) + " · " + name
		}
		out = append(out, name+": "+laneMeaning(laneOf{&p.Result.Upstream, l}))
	}
	return out
}

// lanesByP99 returns the lanes with owed deliveries, ordered by p99 latency; lanes without a
// delivery come last.
func lanesByP99(r *results.Result) []*results.Lane {
	lanes := make([]*results.Lane, 0, len(r.Lanes))
	for i := range r.Lanes {
		if l := &r.Lanes[i]; l.Expected > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortStableFunc(lanes, func(a, b *results.Lane) int {
		if none := func(l *results.Lane) int { return min(1, int(l.Delivered)) }; none(a) != none(b) {
			return none(b) - none(a)
		}
		return int(a.Latency.FromIntended.P99 - b.Latency.FromIntended.P99)
	})
	return lanes
}

func deliveries(n int64) string {
	if n == 1 {
		return "1 delivery was"
	}
	return count(n) + " deliveries were"
}

func laneMeaning(x laneOf) string {
	l := x.lane
	switch {
	case l.ReceivedNothing():
		return fmt.Sprintf("it received nothing, although %s owed.", deliveries(l.Expected))
	case l.Delivered == 0:
		return fmt.Sprintf("none was received, although %s owed.", deliveries(l.Expected))
	}
	q := l.Latency.FromIntended
	s := fmt.Sprintf(
		"99 of 100 deliveries arrived within %s of the scheduled instant, half within %s; ",
		q.P99,
		q.P50,
	)
	if l.Expected == l.Delivered {
		s += "nothing was lost"
	}
	var counts []string
	for i := range figuresOfLanes {
		if f := &figuresOfLanes[i]; f.unclean(x) {
			text := count(int64(f.read(x)))
			if f.loss {
				text += " of " + count(l.Expected)
			}
			counts = append(counts, text+" "+f.label)
		}
	}
	if counts != nil && l.Expected == l.Delivered {
		s += "; "
	}
	s += strings.Join(counts, ", ")
	if t, o := l.Overhead.TotalPerDelivered, l.Overhead.PerDelivered; t != (results.Share{}) {
		s += fmt.Sprintf(
			"; each cost %s requests and %s, of which %s requests and %s carried no event",
			ratio(t.Requests),
			bytes(t.Bytes),
			ratio(o.Requests),
			bytes(o.Bytes),
		)
	}
	return s + "."
}

// health describes the generator's health and the machine.
func health(r *results.Result) [][2]string {
	in := r.Generator
	q := func(q results.Quantiles) string {
		if q.Count == 0 {
			return "–"
		}
		return fmt.Sprintf(
			"p50 %s, p99 %s, max %s (%s samples)",
			q.P50,
			q.P99,
			q.Max,
			count(q.Count),
		)
	}
	out := [][2]string{
		{"read delay (its p99 is the resolution limit)", q(in.ReadDelay)},
		{"timer lag", q(in.TimerLag)},
		{"garbage collection pauses", q(in.GCPauses)},
		{"events dropped", fmt.Sprintf("%s of %s", count(r.Upstream.Dropped), count(r.Upstream.Scheduled))},
		{"published after scheduled", q(r.Upstream.Lag)},
		{"generator", usage(&in.Process) + ", " + count(in.Goroutines) + " goroutines"},
		{"other processes", fmt.Sprintf("%.2f CPUs", in.Others)},
	}
	if r.Target.Process != nil {
		out = append(out, [2]string{"target", usage(r.Target.Process)})
	}
	if text := arrivalText(&in.Arrivals); text != "" {
		out = append(out, [2]string{"deliveries timed", text})
	}
	return append(out, [2]string{"machine", machineText(&r.Host)}, [2]string{"eventmeter", Clean(r.Version) + ", run " + Clean(r.Run)})
}

// machineText describes the machine that measured.
func machineText(h *results.Host) string {
	text := fmt.Sprintf("%d CPUs, %s, %s/%s", h.CPUs, bytes(float64(h.Memory)), Clean(h.OS), Clean(h.Arch))
	for _, s := range []string{h.CPU, h.Kernel, h.Go} {
		if s != "" {
			text += ", " + Clean(s)
		}
	}
	return text
}

// phaseName names a phase, with its lane where lanes take turns.
func phaseName(ph results.Phase) string { return Clean(strings.TrimSpace(ph.Lane + " " + ph.Name)) }

// phasesText lists the phases of a run with their times.
func phasesText(r *results.Result) string {
	var parts []string
	for _, ph := range r.Phases {
		parts = append(
			parts,
			fmt.Sprintf("%s %s to %s", phaseName(ph), timeText(ph.Start.Duration().Seconds()), timeText(ph.End.Duration().Seconds())),
		)
	}
	return strings.Join(parts, ", ")
}

func profileName(r *results.Result) string {
	return cmp.Or(nameIn(r.Profile), "run "+Clean(r.Run))
}

// nameIn is the name of a profile; "" = it has none.
func nameIn(profile json.RawMessage) string {
	var p struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(profile, &p) // a profile that cannot be read has no name
	return Clean(p.Name)
}

// ownFigures are figures that only a lane's system or the kind of upstream has.
type ownFigures struct {
	Column column
	Lane   bool // false = the upstream
	System string
	Rows   [][2]string
}

func ownOf(columns []column, lanes []laneOf, runs []Page) []ownFigures {
	var out []ownFigures
	for i, x := range lanes {
		l := x.lane
		if rows := ownRows(l.Figures, l.Timings); len(rows) > 0 {
			out = append(out, ownFigures{Column: columns[i], Lane: true, System: Clean(l.System), Rows: rows})
		}
	}
	for i := range runs {
		u := &runs[i].Result.Upstream
		if rows := ownRows(u.Figures, u.Timings); len(rows) > 0 {
			o := ownFigures{Column: column{Lane: "upstream"}, System: Clean(u.Kind), Rows: rows}
			if len(runs) > 1 {
				o.Column.Run = Clean(runs[i].Name)
			}
			out = append(out, o)
		}
	}
	return out
}

// ownRows are the figures that are not 0, the timings with samples, and the names of the others.
func ownRows(figures map[string]float64, timings map[string]results.Quantiles) (rows [][2]string) {
	var zero, none []string
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		switch v := figures[name]; v {
		case 0:
			zero = append(zero, Clean(name))
		case float64(int64(v)):
			rows = append(rows, [2]string{Clean(name), count(int64(v))})
		default:
			rows = append(rows, [2]string{Clean(name), ratio(v)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(timings)) {
		q := timings[name]
		if q.Count == 0 {
			none = append(none, Clean(name))
			continue
		}
		rows = append(rows, [2]string{Clean(name), timingText(q)})
	}
	if zero != nil {
		rows = append(rows, [2]string{"0", strings.Join(zero, ", ")})
	}
	if none != nil {
		rows = append(rows, [2]string{"no samples", strings.Join(none, ", ")})
	}
	return rows
}

// Warnings returns the bottleneck reasons and warnings for the page.
func (v runView) Warnings() []string {
	var out []string
	for _, s := range v.Result.Generator.Reasons {
		out = append(out, "Bottleneck: "+Clean(s))
	}
	for _, w := range v.Result.Warnings {
		out = append(out, warningText(w))
	}
	return out
}

// Open reports whether a threshold did not hold.
func (v runView) Open() bool {
	return slices.ContainsFunc(v.Thresholds, func(h thresholdRow) bool { return h.Word != wordHeld })
}

// BrokenRows are the rows of conformance that are broken.
func (v runView) BrokenRows() []conformanceRow {
	return slices.DeleteFunc(slices.Clone(v.Rows), func(r conformanceRow) bool { return r.Verdict != results.RowBroken })
}

// Unclean reports whether a figure of a run should be 0 and is not.
func (v *view) Unclean() bool {
	return slices.ContainsFunc(v.Runs, func(r runView) bool { return len(r.Unclean) > 0 })
}
