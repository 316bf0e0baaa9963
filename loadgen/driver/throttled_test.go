package driver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/internal/refserver/faults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
)

// A target that throttles its deliveries says so when it is asked, from when it
// holds something back, and the lane's figures show it.
func TestThrottledDeliveries(t *testing.T) {
	spec, err := faults.Parse("throttle(rate=0.1/s, mode=webhook)")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, refserver.Options{Faults: spec, TTLMin: time.Second})
	d, rec := lane(t, driver.EndpointOptions{URL: w.srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode: eventmeter.Webhook, Webhook: driver.WebhookOptions{Authority: w.authority, TTL: time.Second, RefreshAt: 0.1},
	})
	attach(t, d, 1)
	// The first is let through at once, and leaves nothing to hold back.
	w.fire(t, "a", 1, 1)
	rec.wait(t, "the first", func(m *memory) bool { return len(m.deliveries) == 1 })
	before := rec.refreshes()
	rec.wait(t, "two refreshes", func(m *memory) bool { return m.causes(eventmeter.Refresh) >= before+2 })
	if n := figure(d, "statusThrottled"); n != 0 || figure(d, "statusRead") == 0 {
		t.Errorf("throttled %v times, with nothing held back, of %v", n, figure(d, "statusRead"))
	}
	// The second has to wait for ten seconds, and the third for twenty.
	w.fire(t, "a", 1, 2)
	w.fire(t, "a", 1, 3)
	rec.wait(t, "the word of it", func(m *memory) bool {
		for _, n := range m.notices {
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

func (m *memory) refreshes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.causes(eventmeter.Refresh)
}
