package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// whereText names the measured target, in the same way in every report.
func whereText(r *results.Result) string {
	if !r.Target.Embedded {
		return Clean(r.Target.URL)
	}
	if r.Target.Stdio != nil {
		return "the embedded target over stdio"
	}
	return "the embedded target"
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
				Clean(s.Machine), count(int64(s.Subscriptions)), count(s.Delivered), count(s.Foreign), "+" + results.FormatNanos(s.Skew/1000*1000),
				results.FormatNanos(s.Generator.ReadDelay.P99), strconv.FormatFloat(s.Generator.Process.CPUShare, 'f', 2, 64),
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
		count(a.Kernel), count(a.Counted), count(a.Shared), results.FormatNanos(a.Error.P99), results.FormatNanos(a.Waited.P99))
}
