package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

// whereText names the measured target, in the same way in every report.
func whereText(r *results.Result) string {
	if r.Target.Embedded && r.Target.Stdio != nil {
		return targetText(&r.Target) + " over stdio"
	}
	return targetText(&r.Target)
}

func targetText(t *results.Target) string {
	if t.Embedded {
		return "the embedded target"
	}
	return Clean(t.URL)
}

// protocolText is the negotiated era and protocol version, and the handshakes refused before.
func protocolText(r *results.Result) string {
	text := Clean(r.Target.Era + " " + r.Target.Protocol)
	if r.Target.Fallback != "" {
		text += " (fallback after " + Clean(r.Target.Fallback) + ")"
	}
	return text
}

// thresholdRow is one threshold on the page. Lanes on which it held share a row, and so do lanes on
// which it was not evaluated for the same reason. A lane on which it failed has its own row.
type thresholdRow struct {
	Threshold, Lanes, Text string
	Word                   string
}

// Verdicts of a threshold in reports.
const (
	wordHeld         = "held"
	wordFailed       = "failed"
	wordNotEvaluated = "not evaluated"
)

func verdictWord(v *results.Verdict) string {
	switch {
	case v.NotEvaluated != "":
		return wordNotEvaluated
	case v.Passed:
		return wordHeld
	}
	return wordFailed
}

// Class is the CSS class of the row.
func (h thresholdRow) Class() string {
	if h.Word == wordHeld {
		return ""
	}
	return strings.ReplaceAll(h.Word, " ", "-")
}

func thresholdRows(vs []results.Verdict) []thresholdRow {
	var out []thresholdRow
	type key struct{ threshold, word, why string }
	at := map[key]int{}
	for i := range vs {
		v := &vs[i]
		k := key{v.Threshold, verdictWord(v), v.NotEvaluated}
		n, known := at[k]
		if known && k.word != wordFailed {
			out[n].Lanes += ", " + Clean(v.Lane)
			if text := Clean(v.Text); !strings.HasSuffix(", "+out[n].Text, ", "+text) {
				out[n].Text += ", " + text
			}
			continue
		}
		at[k] = len(out)
		out = append(out, thresholdRow{Clean(v.Threshold), Clean(v.Lane), Clean(v.Text), k.word})
	}
	return out
}

// shardRow is one process of a run that was split.
type shardRow struct {
	Name  string
	Wrong string // why it is missing, or ended early
	Cells []string
}

var shardHead = []string{"machine", "subscriptions", "delivered", "foreign", "begun", "read delay, p99", "CPUs"}

func shardRows(shards []results.Shard) []shardRow {
	var out []shardRow
	for _, s := range shards {
		row := shardRow{Name: fmt.Sprintf("%d of %d", s.Index, s.Count)}
		switch {
		case s.Missing:
			row.Wrong = "Missing: its result was not there to merge."
		case s.Partial:
			row.Wrong = "Partial: " + Clean(s.Reason)
		}
		if !s.Missing {
			row.Cells = []string{
				Clean(s.Machine),
				count(s.Subscriptions),
				count(s.Delivered),
				count(s.Foreign),
				"+" + (s.Skew / 1000 * 1000).String(),
				s.Generator.ReadDelay.P99.String(),
				strconv.FormatFloat(s.Generator.Process.CPUShare, 'f', 2, 64),
			}
		}
		out = append(out, row)
	}
	return out
}

// arrivalText describes how receive times were taken; empty if nothing was received.
func arrivalText(a *results.Arrivals) string {
	switch {
	case a.Counted == 0:
		return ""
	case a.Kernel == 0:
		return "by this program, after reading"
	}
	return fmt.Sprintf("%s of %s by the kernel (%s shared a read); at p99, error of these times %s, excluded wait until read %s",
		count(a.Kernel), count(a.Counted), count(a.Shared), a.Error.P99, a.Waited.P99)
}

// anomaly is one kind of incident of one lane, with examples.
type anomaly struct {
	Column   column
	Kind     string
	Class    string // CSS class, of its gravity
	Total    string // how many there were; "" where it is not known by kind
	Examples []finding
}

// finding is one incident, or several that differ only in the subscription.
type finding struct {
	Kind    string
	Source  int
	Range   string
	Probe   string // probe id of the first event, where known
	EventID string
	Bytes   string // size of the copy, where known
	At      string
	Subs    string
	subs    []int
}

// mostSubs is the largest number of subscriptions named in a finding.
const mostSubs = 6

// anomaliesOf groups the examples of all lanes by their kinds.
func anomaliesOf(columns []column, lanes []laneOf, runs []Page) []anomaly {
	var out []anomaly
	for i, x := range lanes {
		at := map[string]int{}
		for _, f := range findings(columns[i], x.lane, runs[columns[i].run].Result) {
			n, known := at[f.Kind]
			if !known {
				n, at[f.Kind] = len(out), len(out)
				a := anomaly{Column: columns[i], Kind: f.Kind, Class: "fault"}
				if total := totalOf(x.lane, f.Kind); total > 0 {
					a.Total = count(total)
				}
				if strings.HasSuffix(f.Kind, "requested") || strings.HasSuffix(f.Kind, "here") || strings.HasSuffix(f.Kind, "this sink") {
					a.Class = "notice" // not the target's fault
				}
				out = append(out, a)
			}
			out[n].Examples = append(out[n].Examples, f)
		}
	}
	return out
}

// totalOf is how many incidents of a kind a lane had, 0 where its figures do not tell.
func totalOf(l *results.Lane, kind string) int64 {
	for _, c := range results.LaneCounts {
		if c.Example != "" && kind == string(c.Example) {
			return c.Read(l)
		}
	}
	switch kind {
	case "duplicate: same event":
		return l.Duplicates.SameEvent
	case "duplicate: same emission":
		return l.Duplicates.SameEmission
	case "duplicate: requested":
		return l.Duplicates.Requested
	}
	return 0
}

// kindOf is the kind of an example. Of a loss, the text behind the colon is how many were lost, which
// the sequence numbers say.
func kindOf(e *results.Example) string {
	kind, detail, _ := strings.Cut(Clean(e.Kind), ": ")
	if kind == "duplicate" || kind == "unexpected" {
		return kind + ": " + detail
	}
	return kind
}

// findings are the examples of a lane.
func findings(c column, l *results.Lane, r *results.Result) []finding {
	var out []finding
	type key struct {
		kind, id string
		source   int
		from, to int64
	}
	at := map[key]int{}
	for i := range l.Examples {
		e := &l.Examples[i]
		k := key{e.Kind, e.EventID, e.Source, e.FromSeq, e.ToSeq}
		n, known := at[k]
		if !known {
			n, at[k] = len(out), len(out)
			f := finding{Kind: kindOf(e), Source: e.Source, EventID: Clean(e.EventID), Range: fmt.Sprint(e.FromSeq)}
			f.At = results.Nanos(e.At.Duration().Round(time.Millisecond)).String()
			if e.ToSeq != e.FromSeq {
				f.Range = fmt.Sprintf("%d to %d", e.FromSeq, e.ToSeq)
			}
			if e.Bytes > 0 {
				f.Bytes = bytes(float64(e.Bytes))
			}
			f.Probe = probeOf(r, c.place, e)
			out = append(out, f)
		}
		out[n].subs = append(out[n].subs, e.Subscription)
	}
	for i := range out {
		out[i].Subs = subsText(out[i].subs)
	}
	return out
}

func subsText(subs []int) string {
	var texts []string
	for _, n := range subs[:min(len(subs), mostSubs)] {
		texts = append(texts, fmt.Sprint(n))
	}
	text := strings.Join(texts, ", ")
	if more := len(subs) - mostSubs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// probeOf is the probe id of the first event of an example, to search for in a target's log. It is
// empty for an event of another run, and for a run that was split, because each shard has a run id
// of its own.
func probeOf(r *results.Result, lane int, e *results.Example) string {
	run, err := strconv.ParseUint(r.Run, 16, 32)
	if err != nil || len(r.Shards) > 0 || e.FromSeq <= 0 || e.FromSeq > 1<<32-1 || e.Source < 0 || e.Source > 1<<16-1 ||
		strings.HasPrefix(e.Kind, "unexpected") {
		return ""
	}
	if takesTurns(r) {
		run += uint64(lane) // each turn has the next number
	}
	return eventmeter.Stamp{Run: uint32(run), Source: uint16(e.Source), Seq: uint32(e.FromSeq)}.String()
}

func takesTurns(r *results.Result) bool { return len(r.Phases) > 0 && r.Phases[0].Lane != "" }
