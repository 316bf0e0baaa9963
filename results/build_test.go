package results_test

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// TestOverheadSharesAWindow builds a lane whose running overhead and events outside of the measured
// window are ten times those inside, and checks that every ratio covers the window.
func TestOverheadSharesAWindow(t *testing.T) {
	traffic := func(n int64) (out [eventmeter.Causes]ledger.Traffic) {
		for c, x := range map[eventmeter.Cause]ledger.Traffic{
			eventmeter.Events:       {Calls: 4, Requests: 4, Up: 400, Down: 600, Connections: 1},
			eventmeter.EmptyPoll:    {Calls: 6, Requests: 6, Up: 60, Down: 40},
			eventmeter.Subscribe:    {Calls: 2, Requests: 2, Up: 20, Down: 20, Connections: 2},
			eventmeter.Unsubscribe:  {Calls: 2, Requests: 2, Up: 10, Down: 10},
			eventmeter.Reconnect:    {Calls: 1, Requests: 1, Up: 5, Down: 5, Connections: 1},
			eventmeter.Verification: {},
		} {
			out[c] = ledger.Traffic{
				Calls:       n * x.Calls,
				Requests:    n * x.Requests,
				Up:          n * x.Up,
				Down:        n * x.Down,
				Connections: n * x.Connections,
			}
		}
		return out
	}
	a := ledger.LaneAccount{
		Name:              "poll",
		Subscriptions:     2,
		SubscriptionHours: 20,
		Ready:             ledger.Ready{Attempts: 4},
		LaneCounts: ledger.LaneCounts{
			SubCounts: ledger.SubCounts{Expected: 7, Delivered: 7, Active: 20 * time.Hour}, EventBytes: 3000, Received: 100,
		},
		Traffic: traffic(11),
		Measured: ledger.Window{
			Traffic:      traffic(1),
			WindowCounts: ledger.WindowCounts{EventBytes: 300, Received: 10, Active: 2 * time.Hour},
		},
	}
	l := results.NewLane(&a)
	o := l.Overhead
	for _, c := range []struct {
		name      string
		got, want results.Share
	}{
		// 6 empty polls and a reconnect, 110 bytes, over 10 events.
		{"perDelivered", o.PerDelivered, results.Share{Requests: 0.7, Bytes: 11, Connections: 0.1}},
		{"perSubscriptionHour", o.PerSubscriptionHour, results.Share{Requests: 3.5, Bytes: 55, Connections: 0.5}},
		// 15 requests, 1170 bytes and 4 connections over 10 events.
		{"totalPerDelivered", o.TotalPerDelivered, results.Share{Requests: 1.5, Bytes: 117, Connections: 0.4}},
		// 44 requests, 660 bytes and 22 connections of the whole run, over the 4
		// times that one of the 2 subscriptions was opened.
		{"perSubscription", o.PerSubscription, results.Share{Requests: 11, Bytes: 165, Connections: 5.5}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	if o.Requests != 11*11 || o.SubscriptionHours != 20 || o.Opened != 4 || l.Received != 100 {
		t.Errorf("%d requests in %v hours of %d subscriptions that received %d", o.Requests, o.SubscriptionHours, o.Opened, l.Received)
	}
	if o.Measured.Received != 10 || o.Measured.SubscriptionHours != 2 || len(o.Measured.Causes) != 5 ||
		o.Measured.Causes["emptyPoll"].BytesUp != 60 {
		t.Errorf("measured: %+v", o.Measured)
	}

	// Events on a stream are no calls: their bytes are those of the deliveries.
	a = ledger.LaneAccount{
		Name:       "push",
		LaneCounts: ledger.LaneCounts{EventBytes: 9000},
		Measured:   ledger.Window{WindowCounts: ledger.WindowCounts{EventBytes: 3180, Received: 10}},
	}
	if got, want := results.NewLane(&a).Overhead.TotalPerDelivered, (results.Share{Bytes: 318}); got != want {
		t.Errorf("a stream: %+v, want %+v", got, want)
	}
	// Nothing was received in the window: the ratios are zero, not infinite.
	a.Measured.Received = 0
	if got := results.NewLane(&a).Overhead.TotalPerDelivered; got != (results.Share{}) {
		t.Errorf("nothing received: %+v", got)
	}
}

// TestCausesOfTraffic: a cause with one call or one byte is there, and no other.
func TestCausesOfTraffic(t *testing.T) {
	var a ledger.LaneAccount
	a.Traffic[eventmeter.Retry] = ledger.Traffic{Calls: 1}
	a.Traffic[eventmeter.Reconnect] = ledger.Traffic{Down: 1}
	a.Traffic[eventmeter.Subscribe] = ledger.Traffic{Up: 9}
	causes := results.NewLane(&a).Overhead.Causes
	_, called := causes[eventmeter.Retry.String()]
	if len(causes) != 2 || !called || causes[eventmeter.Reconnect.String()].BytesDown != 1 {
		t.Errorf("%+v", causes)
	}
}

// TestActivated: attempts that failed, were cancelled or are open confirmed nothing, and one subscription counts once.
func TestActivated(t *testing.T) {
	for subscriptions, want := range map[int]int64{3: 3, 4: 4, 9: 4} {
		a := ledger.LaneAccount{Subscriptions: subscriptions, Ready: ledger.Ready{Attempts: 10, Failed: 1, Cancelled: 2, Open: 3}}
		if got := results.NewLane(&a).Ready.Active; got != want {
			t.Errorf("%d of %d subscriptions, want %d", got, subscriptions, want)
		}
	}
}
