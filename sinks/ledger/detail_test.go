package ledger

import (
	"reflect"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// detailLedger has one subscription that was owed five: 1 came twice, 2 is
// missing although 3 came, 4 and 5 are on their way.
func detailLedger(t *testing.T) *Ledger {
	t.Helper()
	l, err := New(
		Options{Run: testRun, Sources: 1, Lanes: []LaneSpec{{Name: "push", System: "events", Mode: eventmeter.Push, Subscriptions: 2}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	script(t, l, eventmeter.Sub{}, `attaching@1 active@3
		fire:1@10 ok:1@11 got:1@12 got:1@13
		fire:2@20 ok:2@21 fire:3@30 ok:3@31 got:3@45
		fire:4@50 ok:4@51 fire:5@60 ok:5@61`)
	l.Called(eventmeter.Call{Cause: eventmeter.Heartbeat, At: ms(70), Down: 40})
	l.Called(eventmeter.Call{Cause: eventmeter.Subscribe, At: ms(1), Requests: 1, Up: 300, Down: 200, Connections: 1, Failure: "timeout"})
	return l
}

func TestDetailWhileARunIsOnItsWay(t *testing.T) {
	l := detailLedger(t)
	d := l.Detail()
	n := d.Lanes[0]
	if n.System != "events" || n.Mode != eventmeter.Push || n.Subscriptions != 2 {
		t.Errorf("lane %+v", n)
	}
	if d.Lanes[0].Delivered != 2 || n.Expected != 3 || n.Outstanding != 3 || n.LostSilent != 0 {
		t.Errorf(
			"delivered %d, expected %d, outstanding %d, lost %d; want 2, 3, 3, 0",
			d.Lanes[0].Delivered,
			n.Expected,
			n.Outstanding,
			n.LostSilent,
		)
	}
	if n.Traffic[eventmeter.Heartbeat].Down != 40 || n.Traffic[eventmeter.Subscribe].Connections != 1 ||
		n.Traffic[eventmeter.Subscribe].Failures != 1 {
		t.Errorf("traffic %+v", n.Traffic)
	}
	// Intended is 1 ms before fired, so the two waited 3 ms and 16 ms.
	if got := within(n.FromIntended, 3*time.Millisecond, 16*time.Millisecond); !got {
		t.Errorf("from intended %+v", n.FromIntended)
	}
	if got := within(n.FromSent, 2*time.Millisecond, 15*time.Millisecond); !got {
		t.Errorf("from sent %+v", n.FromSent)
	}
	if got := within(n.Ready, 2*time.Millisecond); !got {
		t.Errorf("ready %+v", n.Ready)
	}
	if d.FireLag.Count != 5 || d.FireLatency.Count != 5 {
		t.Errorf("lag %d, latency %d; want 5 each", d.FireLag.Count, d.FireLatency.Count)
	}
}

// within: each bucket holds one of the values, in order, and is no wider than
// three digits allow.
func within(d Distribution, values ...time.Duration) bool {
	if len(d.Buckets) != len(values) || d.Count != int64(len(values)) {
		return false
	}
	for i, v := range values {
		b := d.Buckets[i]
		if b.Count != 1 || v < b.Low || v > b.High || float64(b.High-b.Low) > float64(v)/500 {
			return false
		}
	}
	return true
}

func TestDetailOfAnAccount(t *testing.T) {
	l := detailLedger(t)
	script(t, l, eventmeter.Sub{}, "detaching@100 detached@101")
	live, a := l.Detail(), l.Account()
	d := a.Live()
	n := d.Lanes[0]
	if n.Expected != a.Lanes[0].Expected || n.Expected != 5 || n.LostSilent != 3 || d.Lanes[0].Holes != 3 || n.Outstanding != 0 ||
		n.GapIncidents != 2 {
		t.Errorf("detail %+v", n)
	}
	if d.Lanes[0].Duplicates.SameEvent != 1 || d.Lanes[0].CallFailures != 1 || n.Active != 97*time.Millisecond {
		t.Errorf("lane %+v, active %v", d.Lanes[0], n.Active)
	}
	// What is in both is the same in both, to the bucket.
	m := live.Lanes[0]
	for _, x := range [][2]Distribution{
		{m.FromIntended, n.FromIntended}, {m.FromSent, n.FromSent}, {m.Ready, n.Ready},
		{live.FireLag, d.FireLag},
	} {
		if !reflect.DeepEqual(x[0], x[1]) {
			t.Errorf("the ledger says\n%+v and the account\n%+v", x[0], x[1])
		}
	}
	if !reflect.DeepEqual(m.Traffic, n.Traffic) || live.Measured != d.Measured {
		t.Errorf("traffic or events differ: %+v, %+v", m.Traffic, n.Traffic)
	}
}

// TestLatenciesOfADetailNeverFall looks on while intervals are handed in: what
// moves from a shard to the series is seen once.
func TestLatenciesOfADetailNeverFall(t *testing.T) {
	const subs, events = 64, 40
	l, err := New(
		Options{
			Run:      7,
			Sources:  1,
			Interval: 10 * time.Millisecond,
			Lanes:    []LaneSpec{{Name: "a", Mode: eventmeter.Push, Subscriptions: subs}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(subs) {
		l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: eventmeter.Attaching, At: 1})
		l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: eventmeter.Active, At: 2})
	}
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		for seq := uint32(1); seq <= events; seq++ {
			at := eventmeter.Instant(seq) * eventmeter.Instant(10*time.Millisecond)
			s := eventmeter.Stamp{Run: 7, Seq: seq}
			l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
			l.Resolved(s, eventmeter.Accepted, at+1)
			for i := range uint32(subs) {
				l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: i}, Stamp: s, Probed: true, At: at + 5000})
			}
		}
	}()
	var last int64
	for done := false; !done; {
		select {
		case <-delivered:
			done = true
		default:
		}
		d := l.Detail().Lanes[0]
		if d.FromSent.Count < last || d.FromSent.Count > subs*events || d.FromIntended.Count > subs*events {
			t.Fatalf("%d latencies after %d, of %d deliveries in all", d.FromSent.Count, last, subs*events)
		}
		last = d.FromSent.Count
	}
	if last != subs*events {
		t.Errorf("%d latencies, want %d", last, subs*events)
	}
}
