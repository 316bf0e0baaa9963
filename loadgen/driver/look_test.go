package driver_test

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
)

// observed is one event as it was shown, kept.
type observed struct {
	eventmeter.Observation
	message, timestamp string
	after              int // deliveries that were reported before
}

// Observed makes memory an [eventmeter.Observer].
func (m *memory) Observed(o eventmeter.Observation) {
	m.keep(func() {
		m.observed = append(m.observed, observed{o, string(o.Message), string(o.Timestamp), len(m.deliveries)})
	})
}

// Every system that delivers events shows each copy to an observer.
func TestEverySystemIsObserved(t *testing.T) {
	w := newWorld(t, refserver.Options{NextPoll: 50 * time.Millisecond})
	for _, c := range []struct {
		system     string
		mode       eventmeter.Mode
		era        driver.Era
		ids, times bool
	}{
		{"events", eventmeter.Push, driver.Modern, true, true},
		{"events", eventmeter.Poll, driver.Modern, true, true},
		{"events", eventmeter.Webhook, driver.Modern, true, true},
		{"smithery", eventmeter.Webhook, driver.Legacy, true, true},
		{"sep-1803", eventmeter.Push, driver.Legacy, true, false},
		{"sep-1803", eventmeter.Push, driver.Modern, false, false},
		{"sep-1803", eventmeter.Webhook, driver.Legacy, true, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.system, c.mode, c.era), func(t *testing.T) {
			t.Parallel()
			const subs, events = 2, 5
			source := uint16(sources.Add(1))
			d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Era: c.era, Tokens: []string{"a"}}, driver.Options{
				System: c.system, Mode: c.mode, Subscriptions: subs, Webhook: driver.WebhookOptions{Authority: w.authority},
				Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
				Poll:      driver.PollOptions{MinInterval: 10 * time.Millisecond},
			})
			attach(t, d, subs)
			for seq := range uint32(events) {
				w.fire(t, t.Name(), source, seq+1)
			}
			rec.wait(t, "every copy", func(m *memory) bool { return len(m.observed) == subs*events })
			rec.mu.Lock()
			defer rec.mu.Unlock()
			if len(rec.deliveries) != subs*events {
				t.Errorf("%d deliveries", len(rec.deliveries))
			}
			for _, o := range rec.observed {
				stamp, ok := eventmeter.FindStamp([]byte(o.message))
				same := func(d eventmeter.Delivery) bool {
					return d.Sub == o.Sub && d.Stamp == stamp && d.EventID == o.EventID && d.At == o.At
				}
				if !ok || !slices.ContainsFunc(rec.deliveries[:o.after], same) {
					t.Errorf("%s was shown, and no such delivery reported before", o.message)
				}
				if (o.EventID != 0) != c.ids || (o.timestamp != "") != c.times || !strings.Contains(o.message, t.Name()) {
					t.Errorf("id %x, time %q: %s", o.EventID, o.timestamp, o.message)
				}
			}
		})
	}
}
