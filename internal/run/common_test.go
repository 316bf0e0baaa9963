package run

import (
	"testing"

	"github.com/eventmeter/eventmeter/profiles"
)

// TestCommonHash: shards differ in where their webhooks arrive, and in nothing
// else.
func TestCommonHash(t *testing.T) {
	t.Parallel()
	hash := func(change func(p *profiles.Profile)) string {
		p := parseProfile(t, shardedProfile)
		change(p)
		h, err := commonHash(p)
		must(t, err)
		return h
	}
	same := hash(func(*profiles.Profile) {})
	if hash(func(p *profiles.Profile) {
		p.Lanes[1].Webhook.Callback, p.Lanes[1].Webhook.Listen = "https://10.0.0.7:8443", ":8443"
	}) != same {
		t.Error("another callback makes another run")
	}
	if hash(func(p *profiles.Profile) { p.Lanes[1].Subscriptions++ }) == same {
		t.Error("another number of subscriptions makes the same run")
	}
}
