package events_test

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestGrantsOfTheOlderRevision: what the target grants is not held
// against a wish that cannot be sent.
func TestGrantsOfTheOlderRevision(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{TTLMin: time.Second, TTLDefault: time.Minute})
	for name, o := range map[string]driver.Webhook{
		"no end":  {TTL: "none"},
		"longer":  {TTL: "1h"},
		"shorter": {TTL: "2s"},
	} {
		for _, revision := range []mcpclient.Revision{mcpclient.Older, mcpclient.SEP3415} {
			d, _ := systemstest.Lane(
				t,
				mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}, Revision: revision},
				driver.Options{Mode: eventmeter.Webhook, Webhook: o, Listener: driver.ListenerOptions{Authority: w.Authority}},
			)
			systemstest.Attach(t, d, 1)
			if got := systemstest.Figure(
				d,
				"grantsShorter",
			) + systemstest.Figure(
				d,
				"grantsLonger",
			); got != 0 ||
				systemstest.Figure(d, "grants") != 1 {
				t.Errorf("%s, %s: %v grants differ from the wish", name, revision, got)
			}
			if got := systemstest.Figure(d, "grantsWithoutEnd"); (got == 1) != (o.NoExpiry() && revision == mcpclient.SEP3415) {
				t.Errorf("%s, %s: %v grants without an end", name, revision, got)
			}
		}
	}
}
