package results

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A threshold is evaluated only where there was something to judge. Zero losses
// of nothing that was owed say nothing about a target, and neither does a lane
// that heard nothing at all: its subscription is more likely wrong than the
// target.

// Failed tells whether the threshold was evaluated and did not hold.
func (v *Verdict) Failed() bool { return !v.Passed && v.NotEvaluated == "" }

// Tally counts thresholds by what became of them.
type Tally struct {
	Held         int // on every lane
	Failed       int // on at least one lane
	NotEvaluated int // failed on none, and judged nothing on at least one
}

// All is the number of thresholds.
func (t Tally) All() int { return t.Held + t.Failed + t.NotEvaluated }

// TallyOf counts thresholds: one that is checked on several lanes counts once.
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

// HeardNothing tells whether something was owed to the lane and no copy of any
// fired event reached it, in the warm-up or later. Messages that could not be
// used are no copies of an event.
func (l *Lane) HeardNothing() bool {
	d := &l.Detail
	if l.Expected == 0 || l.Delivered+l.Duplicates.SameEvent+l.Duplicates.SameEmission+l.Duplicates.Requested+
		l.Unexpected+l.Recovered+d.InFlight+d.Replayed+d.Foreign > 0 {
		return false
	}
	// Copies of the warm-up are in no count, and their bytes are here.
	events := l.Overhead.Causes["events"]
	return events.BytesUp+events.BytesDown == 0 || d.Unprobed+d.Rejected+d.Malformed+d.Oversized > 0
}

// silentLanes are the lanes that the profile wants to hear nothing: those of a
// system with work of its own.
func (r *Result) silentLanes() map[string]bool {
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

// whole is what a figure of a lane is a part of: without any of it, a figure
// of zero says nothing.
type whole int

const (
	ofNothing  whole = iota // the figure stands for itself
	ofOwed                  // of what was owed to the lane
	ofGot                   // of what was delivered to it
	ofReceived              // of what it received in the measured window
	ofHours                 // of the time that it was open in the measured window
	ofOpen                  // of the time that it was open while events were fired
	ofAnything              // of all that it heard
)

// laneWhole is what the figure at path is a part of.
func laneWhole(path []string) whole {
	switch path[0] {
	case "subscriptions", "expected", "received", "ready", "failures", "process":
		return ofNothing
	case "overhead":
		switch path[min(1, len(path)-1)] {
		case "perDelivered", "totalPerDelivered":
			return ofReceived
		case "perSubscriptionHour":
			return ofHours
		}
		return ofNothing
	case "duplicates", "outOfOrder", "late", "latency":
		return ofGot
	case "unexpected":
		return ofOpen
	case "detail", "figures", "timings":
		return ofAnything
	}
	return ofOwed
}

// unjudged says why a threshold on the figure at path, which is got, judges
// nothing on the lane; it is empty where it does judge something.
func (l *Lane) unjudged(u *Upstream, path []string, got float64) string {
	of := laneWhole(path)
	if of == ofNothing {
		return ""
	}
	if l.HeardNothing() {
		return fmt.Sprintf("the lane heard nothing at all, and %d deliveries were owed", l.Expected)
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
	case ofHours:
		if w.SubscriptionHours == 0 {
			return "no subscription was open in the measured window"
		}
		return ""
	}
	switch open := l.Ready.Active > 0 && u.Accepted > 0; {
	case of == ofOpen && (open || l.Expected > 0), l.Expected > 0 && (of == ofOwed || l.Delivered > 0):
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

// unjudged is the same for a figure of the whole run.
func (r *Result) unjudged(path []string, got float64) string {
	if path[0] == "upstream" && len(path) > 1 && path[1] != "scheduled" && path[1] != "sources" && path[1] != "warmup" && r.Upstream.Scheduled == 0 && got == 0 {
		return "nothing was published"
	}
	return ""
}

// Figure is the figure of the lane at a path of field names as they are in
// result.json, such as duplicates.sameEvent; ok is false where there is none.
func (l *Lane) Figure(name string) (v float64, ok bool) {
	v, _, ok = FigureAt(reflect.ValueOf(l).Elem(), strings.Split(name, "."))
	return v, ok
}
