package events_test

import (
	"slices"
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestAnonymous: no request of the lane has a token, whatever the run has. A
// subscription that is refused is over without a failure, and one that is accepted
// is counted and gets its events.
func TestAnonymous(t *testing.T) {
	for _, era := range []mcpclient.Era{mcpclient.Modern, mcpclient.Legacy} {
		for _, accepts := range []bool{false, true} {
			var spec faults.Spec
			if accepts {
				spec = faults.Spec{{Kind: faults.Anonymous}}
			}
			w := systemstest.NewWorld(t, refserver.Options{Faults: spec})
			e := mcpclient.EndpointOptions{
				URL:     w.Srv.URL(),
				Era:     era,
				Tokens:  []string{"a"},
				Headers: map[string]string{"Authorization": "Bearer b"},
			}
			d, rec := systemstest.Lane(t, e, driver.Options{
				Mode:          eventmeter.Webhook,
				Subscriptions: 2,
				Settings:      events.Settings{Anonymous: true},
				Listener:      driver.ListenerOptions{Authority: w.Authority},
			})
			systemstest.Attach(t, d, 2)
			if accepts {
				w.Fire(t, "c", 0, 1)
				rec.Wait(t, "the event", func(m *systemstest.Memory) bool { return m.Seen(0, 0)[1] == 1 && m.Seen(1, 0)[1] == 1 })
			}
			for i := range 2 {
				if err := d.Detach(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
			want := map[string]float64{"anonymousRefused": 2, "anonymousAccepted": 0}
			states := []eventmeter.State{eventmeter.Attaching, eventmeter.Detaching, eventmeter.Detached}
			if accepts {
				want = map[string]float64{"anonymousRefused": 0, "anonymousAccepted": 2}
				states = slices.Insert(states, 1, eventmeter.Active)
			}
			for name, n := range want {
				if got := systemstest.Figure(d, name); got != n {
					t.Errorf("%s, accepted %t: %s is %v, want %v", era, accepts, name, got, n)
				}
			}
			rec.Mu.Lock()
			if got := rec.States(0); !slices.Equal(got, states) {
				t.Errorf("%s, accepted %t: states %v, want %v", era, accepts, got, states)
			}
			for _, c := range rec.Calls {
				if c.Failure != "" {
					t.Errorf("%s, accepted %t: a call failed: %s %s", era, accepts, c.Method, c.Failure)
				}
			}
			rec.Mu.Unlock()
		}
	}
}
