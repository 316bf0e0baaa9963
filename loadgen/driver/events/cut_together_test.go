package events_test

import (
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestStreamsThatAreCutTogether: each stream is cut once, stays away for cutFor, and then
// receives what it missed, whose time is counted from the moment when it may return.
func TestStreamsThatAreCutTogether(t *testing.T) {
	const subs, missed, away = 12, 3, 300 * time.Millisecond
	w := systemstest.NewWorld(t, refserver.Options{})
	var mu sync.Mutex
	acked := map[eventmeter.Stamp]eventmeter.Instant{}
	d, rec := systemstest.Lane(t, mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}, driver.Options{
		Mode: eventmeter.Push, Subscriptions: subs, HTTP: "h2c",
		Push:     driver.Push{Backoff: driver.Backoff{Min: time.Millisecond, Max: time.Millisecond}, StreamsPerConnection: 5},
		Settings: events.Settings{CutAt: time.Nanosecond, CutFor: away},
		Published: ackedBy(func(s eventmeter.Stamp) eventmeter.Instant {
			mu.Lock()
			defer mu.Unlock()
			return acked[s]
		}),
	})
	systemstest.Attach(t, d, subs)
	if n := d.(driver.Meter).Traffic().Opened; n < 3 { // of 12 streams, 5 to a connection
		t.Errorf("%d connections for %d streams", n, subs)
	}
	d.(driver.Beginner).Begin(0, 0)
	rec.Wait(t, "the cut", func(*systemstest.Memory) bool { return systemstest.Figure(d, "cuts") == subs })
	for seq := uint32(1); seq <= missed; seq++ {
		mu.Lock()
		acked[eventmeter.Stamp{Run: 1, Source: 1, Seq: seq}] = 1 // before any stream is back
		mu.Unlock()
		w.Fire(t, "c", 1, seq)
	}
	rec.Wait(t, "all events", func(m *systemstest.Memory) bool {
		for i := range uint32(subs) {
			if len(m.Seen(i, 1)) < missed {
				return false
			}
		}
		// An event is counted as missed after it was recorded.
		return d.(driver.Figurer).Figures().Timings["catchUp"].Histogram.TotalCount() >= subs*missed
	})
	f := d.(driver.Figurer).Figures()
	if f.Values["cuts"] != subs || f.Values["replayedOnReconnect"] != subs*missed {
		t.Errorf("%v", f.Values)
	}
	if peak := f.Values["reopenedPeak"]; peak < 1 || peak > subs {
		t.Errorf("at most %v of %d streams returned together", peak, subs)
	}
	if n := f.Timings["catchUp"].Histogram.TotalCount(); n != subs*missed {
		t.Errorf("%d times of %d missed events", n, subs*missed)
	}
	if n, least := f.Timings["outage"].Histogram.TotalCount(), time.Duration(
		f.Timings["outage"].Histogram.Min(),
	); n != subs ||
		least < away-time.Millisecond {
		t.Errorf("%d outages, the shortest %v", n, least)
	}
}
