package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
	"github.com/eventmeter/eventmeter/results"
)

// A lane whose subscriptions hear nothing says so, with the likely causes in
// order, and its thresholds are not evaluated; the lanes beside it are judged.
func TestALaneThatHearsNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	p, err := profiles.Parse("a.yaml", []byte(`name: a
lanes:
  - {name: push, mode: push, subscriptions: 2, event: chat.message, arguments: {channel: "channel-0"}, sources: "0"}
  - {name: deaf, mode: push, subscriptions: 2, event: chat.message, arguments: {channel: nowhere}, sources: "0"}
  - {name: hook, mode: webhook, subscriptions: 2, event: chat.message, arguments: {channel: nowhere}, sources: "0"}
upstream: {sources: 1, payload: {channel: "channel-{{.Source}}", text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0, measure: 500ms, drain: 5s}
thresholds: ["*.lostSilent == 0", "*.unexpected == 0", "run.upstream.refused == 0"]
`), nil, systems.Table)
	must(t, err)
	o, err := Run(t.Context(), Options{Profile: p, Embedded: runtest.InProcess})
	must(t, err)
	if got, want := results.TallyOf(o.Result.Thresholds), (results.Tally{Held: 1, NotEvaluated: 2}); got != want {
		t.Errorf("thresholds %+v, want %+v: %+v", got, want, o.Result.Thresholds)
	}
	for _, v := range o.Result.Thresholds {
		if heard := v.Lane == "push" || v.Lane == ""; v.Passed != heard || (v.NotEvaluated == "") != heard {
			t.Errorf("%+v", v)
		}
	}
	warned := map[string]string{}
	for _, w := range o.Result.Warnings {
		if w.Code == "received-nothing" {
			warned[w.Lane] = w.Text
		}
	}
	// A busy machine publishes fewer events than planned.
	begin := fmt.Sprintf(
		"it received nothing at all: %d deliveries were owed to its 2 subscriptions, and its thresholds are not evaluated. "+
			"Likely causes, the likeliest first: ",
		2*o.Result.Upstream.Accepted,
	)
	causes := []string{`the event type ("chat.message")`, `the arguments ({"channel":"nowhere"})`, `sources ("0")`}
	for lane, more := range map[string][]string{"deaf": nil, "hook": {"certificate", "suspended"}} {
		rest, ok := strings.CutPrefix(warned[lane], begin)
		if !ok {
			t.Errorf("%s: warned %q", lane, warned[lane])
			continue
		}
		for _, cause := range append(causes, more...) {
			before, after, found := strings.Cut(rest, cause)
			if !found {
				t.Errorf("%s: no %q, or not in its place: %s", lane, cause, warned[lane])
			}
			if rest = after; strings.Contains(before, "certificate") && cause != "suspended" {
				t.Errorf("%s: the certificate comes too early: %s", lane, warned[lane])
			}
		}
		if more == nil && strings.Contains(warned[lane], "certificate") {
			t.Errorf("%s has no certificate: %s", lane, warned[lane])
		}
	}
	if _, there := warned["push"]; there || len(warned) != 2 {
		t.Errorf("warned of %v", warned)
	}
}

// A lane that receives nothing asks the server once whether what it subscribes to has changed,
// before the profile is blamed.
func TestAnEmptyLaneAsksTheServer(t *testing.T) {
	t.Parallel() // it mostly waits
	p, err := profiles.Parse("a.yaml", []byte(`name: a
target: {embedded: {faults: "drop(rate=1)", lists: {entries: 3, page: 2, ttl: 1h}}}
lanes:
  - {name: untold, system: updates, mode: push, subscriptions: 2, updates: {resource: "list://item/0"}}
  - {name: unread, system: updates, mode: push, subscriptions: 2, updates: {list: tools, identify: none}}
  - {name: kept, system: sep-2549, mode: poll, subscriptions: 2, sep2549: {list: tools}}
  - {name: wrong, system: updates, mode: push, subscriptions: 2, updates: {resource: "list://item/1"}}
  - {name: other, system: sep-2549, mode: poll, subscriptions: 2, sep2549: {list: prompts}}
upstream: {sources: 1, payload: {uri: "list://item/{{.Source}}", list: tools, probe: "{{.Probe}}"}}
schedule: {kind: constant, rate: 20/s}
phases: {warmup: 0, measure: 300ms, drain: 100ms}
`), nil, systems.Table)
	must(t, err)
	o, err := Run(t.Context(), Options{Profile: p, Embedded: runtest.InProcess})
	must(t, err)
	for i, profile := range []string{"", "", "", "list://item/1", "prompts"} {
		l := &o.Result.Lanes[i]
		if l.Delivered > 0 || l.Figures["shownAtEnd"] != map[bool]float64{true: 1}[profile == ""] {
			t.Errorf("%s: %d delivered, shownAtEnd %v", l.Name, l.Delivered, l.Figures["shownAtEnd"])
		}
		said := ""
		for _, w := range o.Result.Warnings {
			if w.Code == "received-nothing" && w.Lane == l.Name {
				said = w.Text
			}
		}
		if profile == "" && (!strings.Contains(said, "has changed") || strings.Contains(said, "sources (")) ||
			profile != "" && !strings.Contains(said, profile) {
			t.Errorf("%s: %s", l.Name, said)
		}
	}
}
