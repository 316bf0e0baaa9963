package run

import (
	"testing"

	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// A target that gives up waiting for an answer delivers again. The copies of the last
// events come long after the last owed event has arrived, and are counted as well.
func TestDuplicatesOfLateAnswersAreCountedToTheLast(t *testing.T) {
	t.Parallel() // it mostly waits
	p, err := profiles.Parse("late.yaml", []byte(`name: late
lanes:
  - {name: late, mode: webhook, subscriptions: 3, event: chat.message,
      arguments: {channel: channel-0}, sources: "0", webhook: {answer: [{delay: 1m}]}}
upstream: {payload: {channel: channel-0, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 5/s}
phases: {warmup: 0, measure: 200ms, drain: 3s}
target: {embedded: {ackTimeout: 300ms, retries: 2, retryBase: 400ms, suspendAfter: -1}}
`), nil, systems.Table)
	must(t, err)
	r := runs(t, Options{Profile: p, Embedded: runtest.InProcess}).Result
	l := r.Lanes[0]
	if l.Delivered == 0 || l.Duplicates.SameEvent != 2*l.Delivered {
		t.Errorf("%d events delivered, with %d duplicates; want two for each", l.Delivered, l.Duplicates.SameEvent)
	}
}
