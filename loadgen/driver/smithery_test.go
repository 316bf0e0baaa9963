package driver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// figure reads one figure of a lane's own.
func figure(d driver.Driver, name string) float64 {
	return d.(driver.Figurer).Figures().Values[name]
}

// note injects one private note with a probe id.
func (w *world) note(t *testing.T, principal string, source uint16, seq uint32) {
	t.Helper()
	w.admin(t, "/inject", fmt.Sprintf(`{"name":"private.note","data":{"principal":%q,"text":"hello %s"}}`, principal, eventmeter.Stamp{Run: 1, Source: source, Seq: seq}))
}

// admin posts to the target's admin listener.
func (w *world) admin(t *testing.T, path, body string) {
	t.Helper()
	resp, err := w.client.Post(w.srv.AdminURL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s: %s", path, resp.Status)
	}
}

func TestSmitheryAgainstTheTarget(t *testing.T) {
	w := newWorld(t, refserver.Options{TTLMin: time.Second, TTLDefault: 3 * time.Second, RetryBase: time.Millisecond})
	for _, era := range []driver.Era{driver.Modern, driver.Legacy} {
		for _, form := range []driver.SmitheryOptions{{}, {ArgumentsKey: "arguments", ClientID: true}} {
			t.Run(fmt.Sprintf("%s/%+v", era, form), func(t *testing.T) {
				t.Parallel()
				const subs, events = 4, 5
				source := uint16(sources.Add(1))
				channel := func(i int) string { return fmt.Sprintf("%s-%d", t.Name(), i%2) }
				d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: era, Tokens: []string{"a", "b"}}, driver.Options{
					System: "smithery", Mode: eventmeter.Webhook, Subscriptions: subs, Smithery: form,
					Arguments: func(i int) json.RawMessage {
						return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, channel(i)))
					},
					Webhook: driver.WebhookOptions{Authority: w.authority, RefreshAt: 0.1, RotateEvery: 1, Refuse: 0.3},
				})
				attach(t, d, subs)
				for seq := range uint32(events) {
					w.fire(t, channel(0), source, seq+1)
				}
				rec.wait(t, "refreshes", func(m *memory) bool { return m.causes(eventmeter.Refresh) >= 2*subs })
				for seq := range uint32(events) {
					w.fire(t, channel(1), source, events+seq+1)
				}
				for i := range uint32(subs) {
					rec.wait(t, "its events", func(m *memory) bool {
						got := m.seen(i, source)
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
				if got := figure(d, "rotations"); got < 2*subs {
					t.Errorf("%v rotations", got)
				}
				for _, name := range []string{"idsChanged", "controlEnvelopes", "rejectedInRace"} {
					if got := figure(d, name); got != 0 {
						t.Errorf("%s is %v", name, got)
					}
				}
				rec.mu.Lock()
				defer rec.mu.Unlock()
				for _, n := range rec.notices {
					t.Errorf("notice %v %s", n.Kind, n.Detail)
				}
				if n := rec.causes(eventmeter.Verification); n > 0 {
					t.Errorf("%d challenges", n)
				}
			})
		}
	}
}

func TestSmitherySubscriptionThatIsGone(t *testing.T) {
	w := newWorld(t, refserver.Options{TTLMin: time.Second, TTLDefault: time.Second})
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
		System: "smithery", Mode: eventmeter.Webhook, Webhook: driver.WebhookOptions{Authority: w.authority, RefreshAt: 0.4},
	})
	attach(t, d, 1)
	// The target forgets it, and says nothing. What happens now is lost.
	w.admin(t, "/types", `{"name":"chat.message","offered":false}`)
	w.admin(t, "/types", `{"name":"chat.message","offered":true}`)
	w.fire(t, "c", 1, 1)
	rec.wait(t, "a refresh", func(m *memory) bool { return m.causes(eventmeter.Refresh) >= 1 })
	w.fire(t, "c", 1, 2)
	rec.wait(t, "what comes after it", func(m *memory) bool { return len(m.seen(0, 1)) == 1 && m.seen(0, 1)[2] == 1 })
	if got := figure(d, "idsChanged"); got != 1 {
		t.Errorf("idsChanged is %v", got)
	}
}

func TestSmitheryOffer(t *testing.T) {
	w := newWorld(t, refserver.Options{})
	for _, era := range []driver.Era{driver.Modern, driver.Legacy} {
		d, _ := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: era}, driver.Options{System: "smithery", Mode: eventmeter.Webhook})
		o, err := d.(driver.Discoverer).Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, ok := o.Event("chat.message")
		if !ok || !slices.Equal(e.Delivery, []eventmeter.Mode{eventmeter.Webhook}) || o.Capability != "extensions" {
			t.Errorf("%s: offer %+v", era, o)
		}
	}
}

func TestSmitheryHasNoneOfTheRest(t *testing.T) {
	ep, err := driver.NewEndpoint(driver.EndpointOptions{URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]driver.Options{
		"mode":         {Mode: eventmeter.Push},
		"maxAge":       {Mode: eventmeter.Webhook, MaxAge: time.Minute},
		"ttl":          {Mode: eventmeter.Webhook, Webhook: driver.WebhookOptions{NoExpiry: true}},
		"argumentsKey": {Mode: eventmeter.Webhook, Smithery: driver.SmitheryOptions{ArgumentsKey: "args"}},
	} {
		o.System, o.Clock, o.Recorder, o.Endpoint, o.Event, o.Subscriptions = "smithery", eventmeter.NewClock(), newMemory(), ep, "tick", 1
		if _, err := driver.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
}
