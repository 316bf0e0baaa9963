//go:build unix

package baseline_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/tools/bench/baseline"
)

// deliveries is a Recorder that signals events.
type deliveries struct {
	eventmeter.Recorder
	came chan eventmeter.Stamp
}

func (d deliveries) Delivered(e eventmeter.Delivery) {
	select {
	case d.came <- e.Stamp:
	default:
	}
}

// TestDriver: the driver of MCP Events discovers the baseline server, opens
// streams and receives events.
func TestDriver(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		server, _, url := start(t, baseline.Options{}, two)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		version := map[bool]string{false: "1.1", true: "h2c"}[two]
		endpoint, err := mcpclient.NewEndpoint(mcpclient.EndpointOptions{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer endpoint.Close(ctx)
		rec := deliveries{eventmeter.Tee(), make(chan eventmeter.Stamp, 1)}
		lane, err := systems.New(driver.Options{
			Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: endpoint, Mode: eventmeter.Push,
			Event: baseline.EventName, Subscriptions: 3, HTTP: version,
		})
		if err != nil {
			t.Fatal(err)
		}
		offer, err := lane.(driver.Discoverer).Discover(ctx)
		if err != nil || len(offer.Events) != 1 || offer.Era != mcpclient.Modern {
			t.Errorf("%+v, %v", offer, err)
		}
		for i := range 3 {
			if err := lane.Attach(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		want := eventmeter.Stamp{Run: 9, Seq: 1}
		if _, err := server.Fire([]byte(`{"note":"` + want.String() + `"}`)); err != nil {
			t.Fatal(err)
		}
		if got := <-rec.came; got != want {
			t.Errorf("received %v, want %v", got, want)
		}
		if err := lane.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
