package events_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestOneCallbackForAll: subscriptions of two principals at one URL each get what is
// theirs, once, through changes of secrets, and nothing after their end.
func TestOneCallbackForAll(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{TTLMin: time.Second})
	for _, system := range []string{"events", "smithery"} {
		t.Run(system, func(t *testing.T) {
			const subs, events = 8, 5
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a", "b"}}, driver.Options{
				System:        system,
				Mode:          eventmeter.Webhook,
				Subscriptions: subs,
				// Each channel has a subscription of both principals.
				Arguments: func(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":"%s-%d"}`, t.Name(), i/2)) },
				Listener: driver.ListenerOptions{
					Authority: w.Authority,
				},
				Webhook: driver.Webhook{ShareURL: true, RotateEvery: 1, RefreshAt: 0.1},
			})
			systemstest.Attach(t, d, subs)
			for seq := range uint32(events) {
				for source := range uint16(subs / 2) {
					w.Fire(t, fmt.Sprintf("%s-%d", t.Name(), source), source, seq+1)
				}
			}
			for i := range uint32(subs) {
				rec.Wait(t, "all events", func(m *systemstest.Memory) bool { return len(m.Seen(i, uint16(i/2))) == events })
			}
			for i := range subs {
				if err := d.Detach(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			if len(rec.Deliveries) != subs*events {
				t.Errorf("%d deliveries, want %d", len(rec.Deliveries), subs*events)
			}
			if n := rec.CountNotices(
				eventmeter.Malformed,
			) + rec.CountNotices(
				eventmeter.Rejected,
			); n > 0 ||
				systemstest.Figure(d, "unrouted") != 0 {
				t.Errorf("%d notices, %v unrouted", n, systemstest.Figure(d, "unrouted"))
			}
		})
	}
}

// TestTwoSubscriptionsInOne: the same arguments of one principal at one URL are one
// subscription to a target, which is said.
func TestTwoSubscriptionsInOne(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode:          eventmeter.Webhook,
		Subscriptions: 2,
		Listener:      driver.ListenerOptions{Authority: w.Authority},
		Webhook:       driver.Webhook{ShareURL: true},
	})
	systemstest.Attach(t, d, 2)
	if err := d.Detach(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := d.Detach(t.Context(), 1); !errors.Is(err, mcpclient.ErrNotOffered) {
		t.Errorf("the second end of one subscription: %v", err)
	}
	rec.Mu.Lock()
	defer rec.Mu.Unlock()
	if n := rec.CountNotices(eventmeter.Malformed); n != 1 {
		t.Errorf("%d notices, want 1", n)
	}
}
