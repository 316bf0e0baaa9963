package run

import (
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// TestFaultsWithoutMeaningAreRefused: a fault that means nothing to a lane's system would
// seem to have been withstood.
func TestFaultsWithoutMeaningAreRefused(t *testing.T) {
	text := `name: a
lanes: [{name: triggers, system: smithery, mode: webhook, subscriptions: 3, event: chat.message}]
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 1/s}
target: {embedded: {faults: "announce(every=2)"}}
`
	p, err := profiles.Parse("a.yaml", []byte(text), nil, systems.Table)
	must(t, err)
	if _, err := Run(
		t.Context(),
		Options{Profile: p, Embedded: runtest.InProcess},
	); err == nil ||
		!strings.Contains(err.Error(), "announce(every=2): system smithery has no such fault by webhook") {
		t.Error(err)
	}
}
