package ledger_test

import (
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Two emissions are fired at a subscription. The first comes twice, the second
// is lost, and the target says so.
func ExampleLedger() {
	const run = 7
	l, err := ledger.New(ledger.Options{
		Run: run, Sources: 1,
		Lanes: []ledger.LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: 1, Ordered: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := func(d time.Duration) eventmeter.Instant { return eventmeter.Instant(d) }
	sub := eventmeter.Sub{Lane: 0, Index: 0}
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: at(1 * time.Millisecond)})
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: at(5 * time.Millisecond)})

	first := eventmeter.Stamp{Run: run, Seq: 1}
	l.Fired(eventmeter.Emission{Stamp: first, Intended: at(10 * time.Millisecond), Fired: at(11 * time.Millisecond), Measured: true})
	l.Resolved(first, eventmeter.Accepted, at(12*time.Millisecond))
	copied := eventmeter.Delivery{
		Sub:     sub,
		Stamp:   first,
		Probed:  true,
		EventID: eventmeter.HashID([]byte("evt-1")),
		At:      at(14 * time.Millisecond),
	}
	l.Delivered(copied)
	l.Delivered(copied)

	second := eventmeter.Stamp{Run: run, Seq: 2}
	l.Fired(eventmeter.Emission{Stamp: second, Intended: at(20 * time.Millisecond), Fired: at(20 * time.Millisecond), Measured: true})
	l.Resolved(second, eventmeter.Accepted, at(21*time.Millisecond))
	l.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Truncated, At: at(22 * time.Millisecond)})

	account := l.Account()
	lane := account.Lanes[0]
	fmt.Println("expected:", lane.Expected)
	fmt.Println("delivered:", lane.Delivered)
	fmt.Println("same event again:", lane.Duplicates.SameEvent)
	fmt.Println("announced loss:", lane.LostAnnounced)
	fmt.Println("from intended:", time.Duration(lane.Latency.FromIntended.Histogram.Max()).Round(10*time.Microsecond))
	fmt.Println("from sent:", time.Duration(lane.Latency.FromSent.Histogram.Max()).Round(10*time.Microsecond))
	fmt.Println("balances:", account.Check() == nil)
	// Output:
	// expected: 2
	// delivered: 1
	// same event again: 1
	// announced loss: 1
	// from intended: 4ms
	// from sent: 3ms
	// balances: true
}
