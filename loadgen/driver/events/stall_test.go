package events_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems/systemstest"
)

// TestStalledStreams: a share of the streams stops reading, the same with the same
// seed and over either protocol. Nothing is lost.
func TestStalledStreams(t *testing.T) {
	w := systemstest.NewWorld(t, refserver.Options{})
	const subs = 16
	chosen := 0.0
	for i := range uint64(subs) {
		if rand.New(rand.NewPCG(7, i)).Float64() < 0.5 {
			chosen++
		}
	}
	for i, how := range []string{"1.1", "2", "1.1"} {
		t.Run(fmt.Sprintf("%d/HTTP %s", i, how), func(t *testing.T) {
			source := uint16(40 + i)
			e := mcpclient.EndpointOptions{URL: w.Srv.URL(), Tokens: []string{"a"}}
			if how == "2" {
				e.URL, e.Roots = w.Srv.TLSURL(), w.Roots()
			}
			d, rec := systemstest.Lane(t, e, driver.Options{
				Mode: eventmeter.Push, Subscriptions: subs, HTTP: how, Seed: 7,
				Settings:  events.Settings{StallFor: 500 * time.Millisecond, StallShare: 0.5},
				Arguments: func(int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"channel":%q}`, t.Name())) },
			})
			systemstest.Attach(t, d, subs)
			all := func(seq uint32) {
				w.Fire(t, t.Name(), source, seq)
				rec.Wait(t, "an event on all streams", func(m *systemstest.Memory) bool {
					for i := range uint32(subs) {
						if m.Seen(i, source)[seq] == 0 {
							return false
						}
					}
					return true
				})
			}
			// A stream is attached when its response is read, and has its connection a little later.
			all(1)
			d.(driver.Beginner).Begin(0, 0)
			seq := uint32(2)
			for ; (systemstest.Figure(d, "heldBack") == 0 || systemstest.Figure(d, "stalled") < chosen) && seq < 1000; seq++ {
				all(seq)
			}
			got := systemstest.Figure(d, "stalled")
			if got != chosen {
				t.Errorf("%v of %d streams stopped, want %v", got, subs, chosen)
			}
			if held := systemstest.Figure(d, "heldBack"); held == 0 || held > got {
				t.Errorf("an event that waited on %v of %v streams", held, got)
			}
		})
	}
}
