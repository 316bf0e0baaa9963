package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// judgement is the verdict of a run, the same in every form of a report.
type judgement struct {
	word    string // pass, fail, not evaluated, not judged, doubtful, partial, or part of a shard
	class   string // CSS class, for its colour
	text    string // a sentence
	unclean []uncleanLine
}

// judge returns the verdict of a run. Reasons to doubt the figures take precedence over thresholds.
// A run whose thresholds held is not necessarily clean: every figure that should be 0 and is not is
// named.
func judge(r *results.Result) judgement {
	j := judgement{unclean: uncleanLines(lanesOf(r))}
	t := results.TallyOf(r.Thresholds)
	thresholds := plural(t.All(), "threshold")
	of := fmt.Sprintf("%d of %s held", t.Held, thresholds)
	if t.NotEvaluated > 0 {
		of += fmt.Sprintf(", %d %s not evaluated", t.NotEvaluated, verb(t.NotEvaluated, "was", "were"))
	}
	if t.All() == 0 {
		of = "the profile sets no thresholds"
	}
	if r.Part != nil {
		of = "thresholds are judged on the merged run"
	}
	if r.Checkpoint {
		of = "thresholds are not judged in a checkpoint"
	}
	switch {
	case r.Generator.Bottleneck:
		j.word, j.text = "doubtful", "The generator was the bottleneck, so these figures say little about the target; "+of
		if t.Failed > 0 {
			j.text = fmt.Sprintf("%d of %s failed, which is doubtful. %s", t.Failed, thresholds, j.text)
		}
		if r.Partial {
			j.text += ". The run also ended early: " + Clean(r.Reason)
		}
	case r.Partial:
		j.word, j.text = "partial", "The run ended early: "+Clean(r.Reason)+". Events published until then are accounted for; "+of
	case t.Failed > 0:
		j.word, j.text = "fail", fmt.Sprintf("%d of %s failed", t.Failed, thresholds)
		if t.NotEvaluated > 0 {
			j.text += fmt.Sprintf(", and %d %s not evaluated", t.NotEvaluated, verb(t.NotEvaluated, "was", "were"))
		}
	case t.NotEvaluated > 0:
		why := strings.Join(whyNot(r.Thresholds), "; ")
		j.word, j.text = "not evaluated", fmt.Sprintf(
			"%d of %s %s not evaluated: %s",
			t.NotEvaluated,
			thresholds,
			verb(t.NotEvaluated, "was", "were"),
			why,
		)
	case r.Part != nil:
		j.word, j.text = "part", fmt.Sprintf("This is shard %d of %d, and it is complete; %s", r.Part.Index, r.Part.Count, of)
	case t.All() == 0:
		j.word, j.text = "not judged", "The run is complete; the profile sets no thresholds"
	default:
		j.word, j.text = "pass", "All "+thresholds+" held"
		if t.All() == 1 {
			j.text = "The threshold held"
		}
	}
	j.class = strings.ReplaceAll(j.word, " ", "-")
	j.text += "." + j.clean(r)
	return j
}

// clean returns a sentence on whether the figures of the lanes are clean. The lines after it name
// those that are not.
func (j *judgement) clean(r *results.Result) string {
	if len(j.unclean) > 0 {
		if j.word == "pass" || j.word == "not judged" || j.word == "part" {
			j.class = "unclean"
		}
		n := len(j.unclean)
		return fmt.Sprintf(" The run is not clean: %s should be 0 and %s not.", plural(n, "figure"), verb(n, "is", "are"))
	}
	delivered, disorder := int64(0), int64(0)
	for i := range r.Lanes {
		l := &r.Lanes[i]
		delivered, disorder = delivered+l.Delivered, disorder+l.OutOfOrder+l.OrderConflicts
	}
	switch {
	case delivered == 0:
		return ""
	case disorder > 0: // of lanes without a promised order
		return " Nothing was lost, repeated or late."
	}
	return " Nothing was lost, repeated, late or out of order."
}

// whyNot returns the reasons why thresholds were not evaluated, each once, with its lanes.
func whyNot(vs []results.Verdict) []string {
	var whys []string
	lanes := map[string][]string{}
	seen := map[[2]string]bool{}
	for _, v := range vs {
		why := Clean(v.NotEvaluated)
		if why == "" || seen[[2]string{v.Lane, why}] {
			continue
		}
		seen[[2]string{v.Lane, why}] = true
		if lanes[why] == nil {
			whys = append(whys, why)
		}
		lanes[why] = append(lanes[why], Clean(v.Lane))
	}
	for i, why := range whys {
		if names := lanes[why]; names[0] != "" {
			whys[i] = why + " (" + listed(names) + ")"
		}
	}
	return whys
}

// verb is the form of a verb for a number.
func verb(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// leakRows say of each gauge of the target that rises why it is or is not a leak, and list the others
// together. A gauge about which a run this short says nothing is left out.
func leakRows(r *results.Result) (rows [][2]string) {
	var calm []string
	for _, name := range slices.Sorted(maps.Keys(r.Target.Leak)) {
		g := r.Target.Leak[name]
		switch {
		case g.Verdict == results.LeakFound:
			rows = append(rows, [2]string{"LEAK", Clean(name) + ": " + Clean(g.Reason)})
		case g.Verdict == results.LeakUnknown && g.Slope != 0:
			rows = append(rows, [2]string{"leak?", Clean(name) + ": " + Clean(g.Reason)})
		case g.Verdict == results.LeakNone && g.After > 0:
			calm = append(calm, Clean(name))
		}
	}
	if len(calm) > 0 {
		rows = append(rows, [2]string{"no leak", strings.Join(calm, ", ")})
	}
	return rows
}

// leaks says what the target holds that it should have given back.
func (p *printer) leaks(r *results.Result) {
	for _, row := range leakRows(r) {
		p.beside(fmt.Sprintf("%-*s", noteIndent, row[0]), noteIndent, row[1])
	}
}
