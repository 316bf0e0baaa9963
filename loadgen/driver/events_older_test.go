package driver_test

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// TestGrantsOfTheOlderRevision: what the target grants is not held
// against a wish that cannot be sent.
func TestGrantsOfTheOlderRevision(t *testing.T) {
	w := newWorld(t, refserver.Options{TTLMin: time.Second, TTLDefault: time.Minute})
	for name, o := range map[string]driver.WebhookOptions{
		"no end":  {NoExpiry: true},
		"longer":  {TTL: time.Hour},
		"shorter": {TTL: 2 * time.Second},
	} {
		for _, revision := range []driver.Revision{driver.Older, driver.Newest} {
			o.Authority = w.authority
			d, _ := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}, Revision: revision}, driver.Options{Mode: eventmeter.Webhook, Webhook: o})
			attach(t, d, 1)
			if got := figure(d, "grantsShorter") + figure(d, "grantsLonger"); got != 0 || figure(d, "grants") != 1 {
				t.Errorf("%s, %s: %v grants differ from the wish", name, revision, got)
			}
			if got := figure(d, "grantsWithoutEnd"); (got == 1) != (o.NoExpiry && revision == driver.Newest) {
				t.Errorf("%s, %s: %v grants without an end", name, revision, got)
			}
		}
	}
}
