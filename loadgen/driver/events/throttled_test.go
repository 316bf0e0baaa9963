package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// A target that throttles its deliveries says so when it is asked, from when it
// holds something back, and the lane's figures show it.
func TestThrottledDeliveries(t *testing.T) {
	spec, err := faults.Parse("throttle(rate=0.1/s, mode=webhook)")
	must(t, err)
	w := systemstest.NewWorld(t, refserver.Options{Faults: spec, TTLMin: time.Second})
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode:     eventmeter.Webhook,
		Listener: driver.ListenerOptions{Authority: w.Authority},
		Webhook:  driver.Webhook{TTL: "1s", RefreshAt: 0.1},
	})
	systemstest.Attach(t, d, 1)
	// The first is let through at once, and leaves nothing to hold back.
	w.Fire(t, "a", 1, 1)
	rec.Wait(t, "the first", func(m *systemstest.Memory) bool { return len(m.Deliveries) == 1 })
	before := rec.Refreshes()
	rec.Wait(t, "two refreshes", func(m *systemstest.Memory) bool { return m.Causes(eventmeter.Refresh) >= before+2 })
	if n := systemstest.Figure(d, "statusThrottled"); n != 0 || systemstest.Figure(d, "statusRead") == 0 {
		t.Errorf("throttled %v times, with nothing held back, of %v", n, systemstest.Figure(d, "statusRead"))
	}
	// The second has to wait for ten seconds, and the third for twenty.
	w.Fire(t, "a", 1, 2)
	w.Fire(t, "a", 1, 3)
	rec.Wait(t, "the word of it", func(m *systemstest.Memory) bool {
		for _, n := range m.Notices {
			if n.Kind == eventmeter.TransientError && strings.Contains(n.Detail, "deliveries are throttled") {
				return true
			}
		}
		return false
	})
	f := d.(driver.Figurer).Figures()
	after := f.Timings["statusRetryAfter"].Histogram
	if f.Values["statusThrottled"] == 0 || after == nil || after.Max() > int64(20*time.Second+20*time.Millisecond) {
		t.Errorf("%v, %+v", f.Values, after)
	}
}
