package results

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// PublishingFailed is the code of the warning that events were not accepted. Its text says how many
// and why.
const PublishingFailed = "publishing-failed"

// MachineBusy is the code of the warning that the generator's machine was busy, without the
// symptoms of a bottleneck: counts are exact, times are in doubt.
const MachineBusy = "machine-busy"

// Doubts returns why times of the run are in doubt: the reasons of a bottleneck, or how busy
// the machine was.
func (r *Result) Doubts() []string {
	out := slices.Clone(r.Generator.Reasons)
	for _, w := range r.Warnings {
		if w.Code == MachineBusy {
			out = append(out, w.Text)
		}
	}
	return out
}

// A threshold is evaluated only where there is something to judge. Zero losses out of zero owed
// deliveries say nothing about a target. Neither does a lane that received nothing at all: its
// subscription is probably wrong, not the target.

// Failed reports whether the threshold was evaluated and did not hold.
func (v *Verdict) Failed() bool { return !v.Passed && v.NotEvaluated == "" }

// Tally counts thresholds by outcome.
type Tally struct {
	Held         int // on every lane
	Failed       int // on at least one lane
	NotEvaluated int // failed on no lane, and judged nothing on at least one
}

// All is the number of thresholds.
func (t Tally) All() int { return t.Held + t.Failed + t.NotEvaluated }

// TallyOf counts thresholds. A threshold that is checked on several lanes counts once.
func TallyOf(vs []Verdict) Tally {
	var t Tally
	seen := map[string]bool{}
	for i := range vs {
		text := vs[i].Threshold
		if seen[text] {
			continue
		}
		seen[text] = true
		same := func(is func(v *Verdict) bool) bool {
			return slices.ContainsFunc(vs, func(v Verdict) bool { return v.Threshold == text && is(&v) })
		}
		switch {
		case same((*Verdict).Failed):
			t.Failed++
		case same(func(v *Verdict) bool { return v.NotEvaluated != "" }):
			t.NotEvaluated++
		default:
			t.Held++
		}
	}
	return t
}

// ReceivedNothing reports whether deliveries were owed to the lane and it received no copy of any
// published event, warm-up included. Unusable messages are no copies of an event.
func (l *Lane) ReceivedNothing() bool {
	d := &l.Detail
	if l.Expected == 0 || l.Delivered+l.Duplicates.SameEvent+l.Duplicates.SameEmission+l.Duplicates.Requested+
		l.Unexpected+l.Recovered+d.InFlight+d.Replayed+d.Foreign > 0 {
		return false
	}
	// Copies of the warm-up enter no count, but their bytes do.
	events := l.Overhead.Causes["events"]
	return events.BytesUp+events.BytesDown == 0 || d.Unprobed+d.Rejected+d.Malformed+d.Oversized > 0
}

// lanesWithoutSources returns the lanes whose profile subscribes to no source: those of a system
// that does its own work.
func (r *Result) lanesWithoutSources() map[string]bool {
	var p struct {
		Lanes []struct {
			Name    string `json:"name"`
			Sources string `json:"sources"`
		} `json:"lanes"`
	}
	out := map[string]bool{}
	if json.Unmarshal(r.Profile, &p) != nil {
		return out // a result without its profile
	}
	for _, l := range p.Lanes {
		if strings.TrimSpace(l.Sources) == "none" {
			out[l.Name] = true
		}
	}
	return out
}

// whole is the total that a figure of a lane is a part of. If the total is zero, a figure of zero
// says nothing.
type whole int

const (
	ofNothing   whole = iota // the figure stands for itself
	ofExpected               // of the deliveries owed to the lane
	ofDelivered              // of its deliveries
	ofReceived               // of the events that it received in the measured window
	ofOpenHours              // of its open time in the measured window
	ofPublished              // of its open time while events were published
	ofAnything               // of everything it received
)

// laneWhole returns the total that the figure at path is a part of.
func laneWhole(path []string) whole {
	switch path[0] {
	case "subscriptions", "expected", "received", "ready", "failures", "process":
		return ofNothing
	case "overhead":
		switch path[1] {
		case "perDelivered", "totalPerDelivered":
			return ofReceived
		case "perSubscriptionHour":
			return ofOpenHours
		}
		return ofNothing
	case "duplicates", "outOfOrder", "orderConflicts", "late", "latency":
		return ofDelivered
	case "unexpected":
		return ofPublished
	case "detail", "figures", "timings":
		return ofAnything
	}
	return ofExpected
}

// unjudged returns why a threshold on the figure at path, whose value is got, judges nothing on the
// lane, or "" if it judges something.
func (l *Lane) unjudged(u *Upstream, path []string, got float64) string {
	of := laneWhole(path)
	if of == ofNothing {
		return ""
	}
	if l.ReceivedNothing() {
		return fmt.Sprintf("the lane received nothing, although %d deliveries were owed", l.Expected)
	}
	if why := l.doubt(path); why != "" {
		return why
	}
	if of == ofAnything || got != 0 {
		return ""
	}
	switch w := &l.Overhead.Measured; of {
	case ofReceived:
		if w.Received == 0 {
			return "nothing was received in the measured window"
		}
		return ""
	case ofOpenHours:
		if w.SubscriptionHours == 0 {
			return "no subscription was open in the measured window"
		}
		return ""
	}
	switch open := l.Ready.Active > 0 && u.Accepted > 0; {
	case of == ofPublished && (open || l.Expected > 0), l.Expected > 0 && (of == ofExpected || l.Delivered > 0):
		return ""
	case l.Expected > 0:
		return "nothing was delivered"
	case l.Ready.Active == 0 && l.Subscriptions > 0:
		return fmt.Sprintf("nothing was owed: none of its %d subscriptions became active", l.Subscriptions)
	case u.Accepted == 0:
		return "nothing was owed: no event was accepted"
	}
	return "nothing was owed to the lane"
}

// doubt returns why the latency figure at path, or its interval, does not stand for the target, or
// "" if nothing speaks against it.
func (l *Lane) doubt(path []string) string {
	if path[0] != "latency" || len(path) < 3 {
		return ""
	}
	figure := path[1:]
	if path[1] == "intervals" {
		figure = path[2 : len(path)-1]
	}
	in := l.Latency.Intervals[strings.Join(figure, ".")]
	return in.Why(figure[len(figure)-1])
}

// unjudged is [Lane.unjudged] for a figure of the whole run.
func (r *Result) unjudged(path []string, got float64) string {
	if len(path) > 2 && path[0] == "target" && path[1] == "leak" {
		g, there := r.Target.Leak[path[2]]
		switch {
		case !there:
			return "the target's " + path[2] + " was not followed"
		case g.Verdict == LeakUnknown:
			return g.Reason
		}
	}
	if c := r.Conformance; path[0] == "conformance" && c != nil && c.Held+c.Broken == 0 {
		return "no row was seen"
	}
	if path[0] == "upstream" && len(path) > 1 && path[1] != "scheduled" && path[1] != "sources" && path[1] != "warmup" &&
		r.Upstream.Scheduled == 0 &&
		got == 0 {
		return "nothing was published"
	}
	return ""
}

// Figure returns the figure of the lane at a path of JSON names, such as duplicates.sameEvent. ok
// is false if there is none.
func (l *Lane) Figure(name string) (v float64, ok bool) {
	v, _, ok = FigureAt(reflect.ValueOf(l).Elem(), strings.Split(name, "."))
	return v, ok
}
