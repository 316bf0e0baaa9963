package report

import (
	stdbytes "bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpload/mcpload/results"
)

func newRunView(p *Page) runView {
	r := p.Result
	v := runView{
		Name: Clean(p.Name), Result: r,
		Where:      Clean(r.Target.URL),
		Started:    r.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
		Took:       results.FormatNanos(results.Nanos(r.Finished.Sub(r.Started))),
		Fired:      plural(r.Upstream.Fired, "event") + " fired by " + Clean(r.Upstream.Kind) + " from " + plural(int64(r.Upstream.Sources), "source"),
		Thresholds: r.Thresholds,
		Profile:    p.Profile,
		Repeat:     repeat(r),
	}
	if r.Target.Embedded {
		v.Where = "the embedded target"
	}
	if v.Profile == "" {
		var b stdbytes.Buffer
		if json.Indent(&b, r.Profile, "", "  ") == nil {
			v.Profile = b.String()
		}
	}
	v.Word, v.Verdict = judge(r)
	v.Health = health(r)
	return v
}

// judge puts the verdict of a run into a word and a sentence. What speaks
// against the figures themselves comes before what they say.
func judge(r *results.Result) (word, text string) {
	failed := 0
	for _, t := range r.Thresholds {
		if !t.Passed {
			failed++
		}
	}
	of := fmt.Sprintf("%d of %s held", len(r.Thresholds)-failed, plural(int64(len(r.Thresholds)), "threshold"))
	if len(r.Thresholds) == 0 {
		of = "the profile sets no thresholds"
	}
	if r.Part != nil {
		of = "thresholds are judged on the merged run"
	}
	switch {
	case r.Instrument.Bottleneck:
		return "doubtful", "The generator was the bottleneck, so these figures say little about the target; " + of + "."
	case r.Partial:
		return "partial", "The run ended early: " + Clean(r.Reason) + ". What was fired until then is accounted for; " + of + "."
	case failed > 0:
		return "fail", fmt.Sprintf("%d of %s failed.", failed, plural(int64(len(r.Thresholds)), "threshold"))
	case r.Part != nil:
		return "part", fmt.Sprintf("This is shard %d of %d, and it is whole; %s.", r.Part.Index, r.Part.Count, of)
	case len(r.Thresholds) == 0:
		return "pass", "The run is whole, and the profile sets no thresholds."
	}
	return "pass", "All " + plural(int64(len(r.Thresholds)), "threshold") + " held."
}

// meaning is what the table says, a sentence for each lane that measured
// deliveries, in the order of how soon nearly everybody knew.
func meaning(p *Page, several bool) []string {
	lanes := make([]*results.Lane, 0, len(p.Result.Lanes))
	for i := range p.Result.Lanes {
		if l := &p.Result.Lanes[i]; l.Expected > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortStableFunc(lanes, func(a, b *results.Lane) int {
		return int(a.Latency.FromIntended.P99 - b.Latency.FromIntended.P99)
	})
	var out []string
	for _, l := range lanes {
		name := Clean(l.Name)
		if several {
			name = Clean(p.Name) + " · " + name
		}
		out = append(out, name+": "+laneMeaning(l))
	}
	return out
}

func laneMeaning(l *results.Lane) string {
	if l.Delivered == 0 {
		return fmt.Sprintf("none of the %s that were owed arrived.", plural(l.Expected, "delivery"))
	}
	q := l.Latency.FromIntended
	s := fmt.Sprintf("99 of 100 deliveries were there within %s of the intended instant, half within %s; ", results.FormatNanos(q.P99), results.FormatNanos(q.P50))
	lost := l.LostSilent + l.LostAnnounced
	switch {
	case lost == 0:
		s += "nothing was lost"
	case l.LostSilent == 0:
		s += fmt.Sprintf("%s of %s were lost, all announced", count(lost), count(l.Expected))
	default:
		s += fmt.Sprintf("%s of %s were lost, %s of them in silence", count(lost), count(l.Expected), count(l.LostSilent))
	}
	if d := l.Duplicates.SameEvent + l.Duplicates.SameEmission; d > 0 {
		s += ", " + count(d) + " came more than once"
	}
	if o := l.Overhead.PerDelivered; o.Requests > 0 {
		s += fmt.Sprintf("; each cost %s requests and %s that carried no event", ratio(o.Requests), bytes(o.Bytes))
	} else if o.Bytes > 0 {
		s += fmt.Sprintf("; each cost %s that carried no event", bytes(o.Bytes))
	}
	return s + "."
}

// health is how the generator fared, and what the machine was.
func health(r *results.Result) [][2]string {
	in, h := r.Instrument, r.Host
	q := func(q results.Quantiles) string {
		if q.Count == 0 {
			return "–"
		}
		return fmt.Sprintf("p50 %s, p99 %s, max %s (%s samples)", results.FormatNanos(q.P50), results.FormatNanos(q.P99), results.FormatNanos(q.Max), count(q.Count))
	}
	out := [][2]string{
		{"own delay (its p99 is the noise floor)", q(in.OwnDelay)},
		{"timer lag", q(in.TimerLag)},
		{"garbage collection pauses", q(in.GCPauses)},
		{"shots dropped", fmt.Sprintf("%s of %s", count(r.Upstream.Dropped), count(r.Upstream.Shots))},
		{"sent after intended", q(r.Upstream.Lag)},
		{"generator", usage(&in.Process) + ", " + count(in.Goroutines) + " goroutines"},
		{"other processes", fmt.Sprintf("%.2f CPUs", in.Others)},
	}
	if r.Target.Process != nil {
		out = append(out, [2]string{"target", usage(r.Target.Process)})
	}
	machine := fmt.Sprintf("%d CPUs, %s, %s/%s", h.CPUs, bytes(float64(h.Memory)), Clean(h.OS), Clean(h.Arch))
	for _, s := range []string{h.CPU, h.Kernel, h.Go} {
		if s != "" {
			machine += ", " + Clean(s)
		}
	}
	return append(out, [2]string{"machine", machine}, [2]string{"mcpload", Clean(r.Version) + ", run " + Clean(r.Run)})
}

func profileName(r *results.Result) string {
	var p struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(r.Profile, &p) != nil || p.Name == "" {
		return "run " + Clean(r.Run)
	}
	return Clean(p.Name)
}

// finding is one incident of a lane.
type finding struct {
	Column  column
	Kind    string
	Where   string
	Range   string
	EventID string
	At      string
}

func findings(columns []column, lanes []*results.Lane) []finding {
	var out []finding
	for i, l := range lanes {
		for _, e := range l.Examples {
			f := finding{Column: columns[i], Kind: Clean(e.Kind), EventID: e.EventID, At: results.Nanos(e.At).Duration().Round(time.Millisecond).String()}
			f.Where = fmt.Sprintf("subscription %d, source %d", e.Subscription, e.Source)
			f.Range = fmt.Sprint(e.FromSeq)
			if e.ToSeq != e.FromSeq {
				f.Range = fmt.Sprintf("%d to %d", e.FromSeq, e.ToSeq)
			}
			out = append(out, f)
		}
	}
	return out
}

// ownFigures are what only a lane's system has.
type ownFigures struct {
	Column column
	System string
	Rows   [][2]string
}

func ownOf(columns []column, lanes []*results.Lane) []ownFigures {
	var out []ownFigures
	for i, l := range lanes {
		o := ownFigures{Column: columns[i], System: Clean(l.System)}
		for _, name := range slices.Sorted(maps.Keys(l.Figures)) {
			o.Rows = append(o.Rows, [2]string{Clean(name), ratio(l.Figures[name])})
		}
		for _, name := range slices.Sorted(maps.Keys(l.Timings)) {
			q := l.Timings[name]
			o.Rows = append(o.Rows, [2]string{Clean(name), fmt.Sprintf("p50 %s, p99 %s, max %s of %s", quantile(q, q.P50), quantile(q, q.P99), quantile(q, q.Max), count(q.Count))})
		}
		if len(o.Rows) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Warnings joins warnings and reasons for the page.
func (v runView) Warnings() []string {
	var out []string
	for _, s := range v.Result.Instrument.Reasons {
		out = append(out, "Bottleneck: "+Clean(s))
	}
	for _, w := range v.Result.Warnings {
		lane := ""
		if w.Lane != "" {
			lane = Clean(w.Lane) + ": "
		}
		out = append(out, lane+Clean(w.Text))
	}
	return out
}

// Mark says how a threshold fared.
func (v runView) Mark(passed bool) string {
	if passed {
		return "held"
	}
	return "failed"
}
