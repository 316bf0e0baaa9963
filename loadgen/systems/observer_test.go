package systems_test

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
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// Every system that delivers events shows each copy to an observer.
func TestEverySystemIsObserved(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, c := range []struct {
		system     string
		mode       eventmeter.Mode
		era        mcpclient.Era
		ids, times bool
	}{
		{"events", eventmeter.Push, mcpclient.Modern, true, true},
		{"events", eventmeter.Poll, mcpclient.Modern, true, true},
		{"events", eventmeter.Webhook, mcpclient.Modern, true, true},
		{"smithery", eventmeter.Webhook, mcpclient.Legacy, true, true},
		{"sep-1803", eventmeter.Push, mcpclient.Legacy, true, false},
		{"sep-1803", eventmeter.Push, mcpclient.Modern, false, false},
		{"sep-1803", eventmeter.Webhook, mcpclient.Legacy, true, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.system, c.mode, c.era), func(t *testing.T) {
			t.Parallel()
			const subs, events = 2, 5
			source := uint16(systemstest.Sources.Add(1))
			d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Era: c.era, Tokens: []string{"a"}}, driver.Options{
				System: c.system, Mode: c.mode, Subscriptions: subs, Listener: driver.ListenerOptions{Authority: w.Authority},
				Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
				Poll:      &driver.Poll{MinInterval: 10 * time.Millisecond},
			})
			systemstest.Attach(t, d, subs)
			for seq := range uint32(events) {
				w.Fire(t, t.Name(), source, seq+1)
			}
			rec.Wait(t, "every copy", func(m *systemstest.Memory) bool { return len(m.Observations) == subs*events })
			rec.Mu.Lock()
			defer rec.Mu.Unlock()
			if len(rec.Deliveries) != subs*events {
				t.Errorf("%d deliveries", len(rec.Deliveries))
			}
			for _, o := range rec.Observations {
				stamp, ok := eventmeter.FindStamp([]byte(o.Message))
				same := func(d eventmeter.Delivery) bool {
					return d.Sub == o.Sub && d.Stamp == stamp && d.EventID == o.EventID && d.At == o.At
				}
				if !ok || !slices.ContainsFunc(rec.Deliveries[:o.After], same) {
					t.Errorf("%s was shown, and no such delivery reported before", o.Message)
				}
				if (o.EventID != 0) != c.ids || (o.Timestamp != "") != c.times || !strings.Contains(o.Message, t.Name()) {
					t.Errorf("id %x, time %q: %s", o.EventID, o.Timestamp, o.Message)
				}
			}
		})
	}
}
