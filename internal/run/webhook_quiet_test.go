package run

import (
	"context"
	"testing"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/runtest"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// A subscription that hears nothing has the watermarks that refreshes are
// answered with, and no others. When it lapses and is opened again there, the
// target has no reason to announce a gap, however much it has forgotten of what
// is older.
func TestQuietSubscriptionThatLapses(t *testing.T) {
	t.Parallel() // it mostly waits
	p, err := profiles.Parse("quiet.yaml", []byte(`name: quiet
lanes:
  - {name: quiet, mode: webhook, subscriptions: 3, event: chat.message,
      arguments: {channel: nobody}, sources: none, webhook: {refreshAt: 0.7}}
upstream: {event: chat.message, payload: {channel: somebody, text: "{{.Probe}}"}}
schedule: {kind: constant, rate: 100/s}
phases: {warmup: 0, measure: 3s, drain: 100ms}
target: {embedded: {faults: "ttl(grant=600ms); expire(after=200ms)"}}
`), nil, systems.Table)
	must(t, err)
	r := runs(t, Options{Profile: p, Embedded: func(ctx context.Context, args embedded.Options) (embedded.Server, error) {
		return runtest.InProcessWith(ctx, args, refserver.Options{AllowPrivateCallbacks: true, BufferEvents: 150})
	}}).Result
	l := r.Lanes[0]
	if n := l.Overhead.Causes["refresh"].Requests; n < 3*4 || r.Upstream.Accepted < 200 {
		t.Fatalf("%d refreshes, %d events: that says nothing", n, r.Upstream.Accepted)
	}
	if l.Gaps.FalseAlarms != 0 {
		t.Errorf("%d gaps were announced in which nothing was missing", l.Gaps.FalseAlarms)
	}
}
