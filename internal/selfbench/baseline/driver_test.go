package baseline_test

import (
	"context"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/selfbench/baseline"
	"github.com/eventmeter/eventmeter/loadgen/driver"
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

// TestDriver: the client side of the MCP Events draft takes the baseline for a
// server: it discovers it, opens streams and gets events.
func TestDriver(t *testing.T) {
	both(t, func(t *testing.T, two bool) {
		_, _, url := start(t, baseline.Options{Rate: 20, Run: 9}, two)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		version := map[bool]string{false: "1.1", true: "h2c"}[two]
		endpoint, err := driver.NewEndpoint(driver.EndpointOptions{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer endpoint.Close(ctx)
		rec := deliveries{eventmeter.Tee(), make(chan eventmeter.Stamp, 1)}
		lane, err := driver.New(driver.Options{
			Clock: eventmeter.NewClock(), Recorder: rec, Endpoint: endpoint, Mode: eventmeter.Push,
			Event: baseline.EventName, Subscriptions: 3, HTTP: version,
		})
		if err != nil {
			t.Fatal(err)
		}
		offer, err := lane.(driver.Discoverer).Discover(ctx)
		if err != nil || len(offer.Events) != 1 || offer.Era != driver.Modern {
			t.Errorf("%+v, %v", offer, err)
		}
		for i := range 3 {
			if err := lane.Attach(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		if s := <-rec.came; s.Run != 9 {
			t.Errorf("%v", s)
		}
		if err := lane.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}
