package calibrate

import (
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
)

// TestBrokenRows: a planted row must be broken where enough subscriptions are open, and no
// other may be but those that follow.
func TestBrokenRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		faults string
		mode   eventmeter.Mode
		later  bool // the lane is not the first
		seen   conform.Account
		failed string // the first check that fails; "" = none
	}{
		{"", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9}}, ""},
		{"", eventmeter.Push, false, nil, "rows are judged"},
		{"", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9, Broken: 1}}, "occurrence-name"},
		{"break(row=occurrence-name)", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9, Broken: 1}}, ""},
		{"break(row=occurrence-name)", eventmeter.Poll, false, conform.Account{"occurrence-name": {Seen: 9, Broken: 1}}, ""},
		{"break(row=occurrence-name)", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9}}, "occurrence-name"},
		{"break(row=occurrence-name, mode=poll)", eventmeter.Push, false,
			conform.Account{"occurrence-name": {Seen: 9, Broken: 1}}, "occurrence-name"},
		{"break(row=occurrence-name)", eventmeter.Push, false,
			conform.Account{"occurrence-name": {Seen: 9, Broken: 1}, "occurrence-data": {Seen: 9, Broken: 1}},
			"occurrence-data"},
		{"break(row=cursor-opaque)", eventmeter.Webhook, false,
			conform.Account{"cursor-opaque": {Seen: 4, Broken: 4}, "subscribe-response-cursor": {Seen: 4, Broken: 4}}, ""},
		// What follows is seen, although no client can see the row itself.
		{"break(row=replay-ceiling-sets-truncated)", eventmeter.Push, false,
			conform.Account{"stream-gap-resends-active": {Seen: 3, Broken: 1}}, ""},
		{"break(row=replay-ceiling-sets-truncated, mode=poll)", eventmeter.Push, false,
			conform.Account{"stream-gap-resends-active": {Seen: 3, Broken: 1}}, "stream-gap-resends-active"},
		{"break(row=occurrence-name, above=4)", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9}}, ""},
		{"break(row=occurrence-name, above=4)", eventmeter.Push, false,
			conform.Account{"occurrence-name": {Seen: 9, Broken: 1}}, "occurrence-name"},
		{"break(row=occurrence-name, above=3)", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9}}, "occurrence-name"},
		{"break(row=descriptor-meta)", eventmeter.Push, true, conform.Account{"occurrence-name": {Seen: 9}}, ""},
		{"break(row=descriptor-meta)", eventmeter.Push, false, conform.Account{"occurrence-name": {Seen: 9}}, "descriptor-meta"},
		{"heartbeats()", eventmeter.Push, false, conform.Account{"stream-heartbeat-required": {Seen: 9, Broken: 3}}, "stream-heartbeat-required"},
		{"heartbeats()", eventmeter.Push, false, conform.Account{"stream-heartbeat-required": {Seen: 9, Broken: 4}}, ""},
		{"refuse(code=-32014, every=2)", eventmeter.Push, false, conform.Account{"error-unsupported": {Seen: 9, Broken: 2}}, ""},
		{"refuse(code=-32014, every=2)", eventmeter.Push, false, conform.Account{"error-unsupported": {Seen: 9, Broken: 3}}, "error-unsupported"},
	} {
		spec, err := faults.Parse(c.faults)
		if err != nil {
			t.Fatal(err)
		}
		m := &expectedCounts{spec: spec, mode: c.mode, seen: c.seen, open: 4, first: !c.later}
		m.settings.Subscriptions = 4
		failed := ""
		for _, check := range m.broken() {
			if !check.Passed && failed == "" {
				failed = check.Name
			}
		}
		if failed != c.failed {
			t.Errorf("%q by %s, %v: %q fails, want %q", c.faults, c.mode, c.seen, failed, c.failed)
		}
	}
}
