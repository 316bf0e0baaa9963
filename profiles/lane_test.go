package profiles

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/systems"
)

func TestLanesOfOtherSystems(t *testing.T) {
	const lane = "  - name: a\n    mode: push\n    subscriptions: 10\n    event: e\n"
	for _, c := range []struct {
		lane string // in place of the first of base
		want string // what is wrong with it, in part; empty = nothing
	}{
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e}", ""},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, webhook: {rotateEvery: 2, secrets: late}, " +
			"smithery: {argumentsKey: arguments, clientID: true}}", ""},
		{"{name: a, system: smithery, mode: push, subscriptions: 1, event: e}", "lanes.a.mode: system smithery has no push; set mode: webhook"},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, webhook: {ttl: 5m}}",
			"lanes.a.webhook.ttl: system smithery has no requested ttl"},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, maxAge: 5m}", "lanes.a.maxAge: system smithery has no replay"},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, smithery: {argumentsKey: args}}",
			`lanes.a.smithery.argumentsKey: no such argumentsKey "args"`},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, smithery: {clientID: maybe}}", "lanes.a.smithery.clientID:"},
		{"{name: a, system: smithery, mode: webhook, subscriptions: 1, event: e, events: {listen: true}}",
			"lanes.a.events: has no effect on a lane of system smithery"},
		{"{name: a, mode: webhook, subscriptions: 1, event: e, smithery: {clientID: true}}",
			"lanes.a.smithery: has no effect on a lane of system events"},
		{"{name: a, mode: webhook, subscriptions: 1, event: e, webhook: {secrets: none}}", "lanes.a.webhook.secrets: no such secrets"},
		{"{name: a, mode: webhook, subscriptions: 1, event: e, webhook: {oldSecret: 0}}", "lanes.a.webhook.oldSecret: 0s is too short"},
		{"{name: a, mode: push, subscriptions: 1, event: e, churn: {rate: 1/s}, events: {listen: true, resume: true, cursor: " +
			"c-7, cutEvery: 3s, cutFor: 1s, stallFor: 2s, stallShare: 0.5}}", ""},
		{"{name: a, mode: poll, subscriptions: 1, event: e, churn: {rate: 1/s}, events: {listen: true, resume: true}}", ""},
		{"{name: a, mode: poll, subscriptions: 1, event: e, events: {stallFor: 3s}}",
			"lanes.a.events.stallFor: a lane of mode poll has no streams that could stop reading"},
		{"{name: a, mode: poll, subscriptions: 1, event: e, events: {cutAt: 3s}}",
			"lanes.a.events.cutAt: a lane of mode poll has no streams to cut"},
		{"{name: a, mode: poll, subscriptions: 1, event: e, events: {cutEvery: 3s}}",
			"lanes.a.events.cutEvery: a lane of mode poll has no streams to cut"},
	} {
		p, err := Parse("p.yaml", []byte(strings.Replace(base, lane, "  - "+c.lane+"\n", 1)), nil, systems.Table)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s:\n%v", c.lane, err)
		case c.want == "":
			again(t, p)
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s:\n%v\nwant %s", c.lane, err, c.want)
		}
	}
}

func TestEmbeddedProofAndSignatures(t *testing.T) {
	with := func(embedded string) (*Profile, error) {
		return Parse("p.yaml", []byte(base+"target:\n  embedded: "+embedded+"\n"), nil, systems.Table)
	}
	p, err := with("{proof: well-known, singleSign: true, suspendAfter: -1, typesEvery: 2s}")
	must(t, err)
	if e := p.Target.Embedded; e.Proof != "well-known" || !e.SingleSign || e.SuspendAfter != -1 || e.TypesEvery != 2*time.Second {
		t.Errorf("%+v", e)
	}
	again(t, p)
	for embedded, want := range map[string]string{
		"{proof: allow-list}":                                 "target.embedded.callbackHosts: belongs to proof: allow-list",
		"{callbackHosts: [127.0.0.1]}":                        "target.embedded.callbackHosts: belongs to proof: allow-list",
		"{lists: {entries: 5, noHints: true, private: true}}": "target.embedded.lists.noHints: leaves out what older",
		"{proof: oath}":                                       `target.embedded.proof: no such proof "oath"`,
		"{dualSign: 3s, singleSign: true}":                    "target.embedded.dualSign: there is singleSign as well",
		"{typesEvery: 2}":                                     "target.embedded.typesEvery: 2 has no unit",
	} {
		if _, err := with(embedded); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", embedded, err, want)
		}
	}
}
