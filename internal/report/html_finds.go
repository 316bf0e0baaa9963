package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

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
	switch kind {
	case "lost":
		return l.LostSilent
	case "announced loss":
		return l.LostAnnounced
	case "lost, order unknown":
		return l.LostOrderUnknown
	case "undeliverable here":
		return l.LostUndeliverable
	case "refused by this sink":
		return l.LostRefused
	case "lost after suspension":
		return l.LostSuspended
	case "duplicate: same event":
		return l.Duplicates.SameEvent
	case "duplicate: same emission":
		return l.Duplicates.SameEmission
	case "duplicate: requested":
		return l.Duplicates.Requested
	case "out of order":
		return l.OutOfOrder
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
			f.At = results.FormatNanos(results.Nanos(e.At.Duration().Round(time.Millisecond)))
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
	if err != nil || len(r.Shards) > 0 || e.FromSeq <= 0 || e.FromSeq > 1<<32-1 || e.Source < 0 || e.Source > 1<<16-1 || strings.HasPrefix(e.Kind, "unexpected") {
		return ""
	}
	if takesTurns(r) {
		run += uint64(lane) // each turn has the next number
	}
	return eventmeter.Stamp{Run: uint32(run), Source: uint16(e.Source), Seq: uint32(e.FromSeq)}.String()
}

func takesTurns(r *results.Result) bool { return len(r.Phases) > 0 && r.Phases[0].Lane != "" }
