package run

import (
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestDeliveriesThatNobodySubscribedTo: where the target delivers more than the profile expects,
// the result names the setting.
func TestDeliveriesThatNobodySubscribedTo(t *testing.T) {
	p, err := profiles.Parse("test", []byte(`name: test
target: {embedded: {}, tokens: [t]}
lanes: [{name: push, mode: push, subscriptions: 2, event: chat.message, sources: "0"}]
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 20/s}
phases: {warmup: 100ms, measure: 500ms, drain: 5s}
`), nil, systems.Table)
	must(t, err)
	r := runs(t, Options{Profile: p, Embedded: runtest.InProcess}).Result
	if r.Lanes[0].Unexpected == 0 || !warned(r, "not-subscribed", "lanes.*.sources") {
		t.Errorf("%d unexpected: %+v", r.Lanes[0].Unexpected, r.Warnings)
	}
}
