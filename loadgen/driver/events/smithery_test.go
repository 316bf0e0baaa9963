package events_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

func TestSmitheryAgainstTheTarget(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{TTLMin: time.Second, TTLDefault: 3 * time.Second, RetryBase: time.Millisecond})
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		for _, form := range []events.SmitherySettings{{}, {ArgumentsKey: "arguments", ClientID: true}} {
			t.Run(fmt.Sprintf("%s/%+v", era, form), func(t *testing.T) {
				t.Parallel()
				const subs, events = 4, 5
				source := uint16(systemstest.Sources.Add(1))
				channel := func(i int) string { return fmt.Sprintf("%s-%d", t.Name(), i%2) }
				d, rec := systemstest.Lane(
					t,
					mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era, Tokens: []string{"a", "b"}},
					driver.Options{
						System:        "smithery",
						Mode:          eventmeter.Webhook,
						Subscriptions: subs,
						Settings:      form,
						Arguments: func(i int) json.RawMessage {
							return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, channel(i)))
						},
						Listener: driver.ListenerOptions{
							Authority: w.Authority,
						},
						Webhook: driver.Webhook{RefreshAt: 0.1, RotateEvery: 1, Answer: []driver.Answer{{Status: 503, Share: 0.3}}},
					},
				)
				systemstest.Attach(t, d, subs)
				for seq := range uint32(events) {
					w.Fire(t, channel(0), source, seq+1)
				}
				rec.Wait(t, "refreshes", func(m *systemstest.Memory) bool { return m.Causes(eventmeter.Refresh) >= 2*subs })
				for seq := range uint32(events) {
					w.Fire(t, channel(1), source, events+seq+1)
				}
				for i := range uint32(subs) {
					rec.Wait(t, "its events", func(m *systemstest.Memory) bool {
						got := m.Seen(i, source)
						for seq := range got {
							if (seq > events) != (i%2 == 1) {
								t.Errorf("subscription %d got %d of another's", i, seq)
							}
						}
						return len(got) == events
					})
				}
				for i := range subs {
					if err := d.Detach(t.Context(), i); err != nil {
						t.Error(err)
					}
				}
				if got := systemstest.Figure(d, "rotations"); got < 2*subs {
					t.Errorf("%v rotations", got)
				}
				for _, name := range []string{"idsChanged", "controlEnvelopes", "rejectedInRace"} {
					if got := systemstest.Figure(d, name); got != 0 {
						t.Errorf("%s is %v", name, got)
					}
				}
				rec.Mu.Lock()
				defer rec.Mu.Unlock()
				for _, n := range rec.Notices {
					t.Errorf("notice %v %s", n.Kind, n.Detail)
				}
				if n := rec.Causes(eventmeter.Verification); n > 0 {
					t.Errorf("%d challenges", n)
				}
			})
		}
	}
}

func TestSmitherySubscriptionThatIsGone(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{TTLMin: 5 * time.Second, TTLDefault: 5 * time.Second, FreshIDs: true})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		System:   "smithery",
		Mode:     eventmeter.Webhook,
		Listener: driver.ListenerOptions{Authority: w.Authority},
		Webhook:  driver.Webhook{RefreshAt: 0.1},
	})
	systemstest.Attach(t, d, 1)
	// The target forgets it, and says nothing. What happens now is lost.
	w.Admin(t, "/types", `{"name":"chat.message","offered":false}`)
	w.Admin(t, "/types", `{"name":"chat.message","offered":true}`)
	w.Fire(t, "c", 1, 1)
	rec.Wait(t, "the refresh", func(m *systemstest.Memory) bool {
		return m.Causes(eventmeter.Refresh) >= 1 && systemstest.Figure(d, "idsChanged") > 0
	})
	w.Fire(t, "c", 1, 2)
	rec.Wait(t, "what comes after it", func(m *systemstest.Memory) bool { return len(m.Seen(0, 1)) == 1 && m.Seen(0, 1)[2] == 1 })
	if got := systemstest.Figure(d, "idsChanged"); got != 1 {
		t.Errorf("idsChanged is %v", got)
	}
}

func TestSmitheryOffer(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		d, _ := systemstest.Lane(
			t,
			mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: era},
			driver.Options{System: "smithery", Mode: eventmeter.Webhook},
		)
		o, err := d.(driver.Discoverer).Discover(t.Context())
		must(t, err)
		e, ok := o.Event("chat.message")
		if !ok || !slices.Equal(e.Delivery, []eventmeter.Mode{eventmeter.Webhook}) || o.Capability != "extensions" {
			t.Errorf("%s: offer %+v", era, o)
		}
	}
}

func TestSmitheryHasNoneOfTheRest(t *testing.T) {
	ep, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	must(t, err)
	for want, o := range map[string]driver.Options{
		"mode":         {Mode: eventmeter.Push},
		"maxAge":       {Mode: eventmeter.Webhook, MaxAge: time.Minute},
		"ttl":          {Mode: eventmeter.Webhook, Webhook: driver.Webhook{TTL: "none"}},
		"argumentsKey": {Mode: eventmeter.Webhook, Settings: events.SmitherySettings{ArgumentsKey: "args"}},
	} {
		o.System, o.Clock, o.Recorder = "smithery", eventmeter.NewClock(), systemstest.NewMemory()
		o.Endpoint, o.Event, o.Subscriptions = ep, "tick", 1
		if _, err := systems.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
}
