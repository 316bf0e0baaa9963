package ledger

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// TestSnapshotJudgesOpenWindows: of five that are owed, 2 is missing although 3
// came, 4 was fired before the grace and 5 within it.
func TestSnapshotJudgesOpenWindows(t *testing.T) {
	for mode, want := range map[eventmeter.Mode]SubCounts{
		eventmeter.Push:    {Expected: 4, Delivered: 2, LostSilent: 2, Excused: 1},
		eventmeter.Webhook: {Expected: 4, Delivered: 2, LostSilent: 2, Excused: 1},
		eventmeter.Poll:    {Expected: 3, Delivered: 2, LostSilent: 1},
	} {
		l, err := New(
			Options{
				Run:         testRun,
				Sources:     1,
				DetachGrace: 45 * time.Millisecond,
				Lanes:       []LaneSpec{{Name: "lane", Mode: mode, Subscriptions: 2}},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		l.now = func() eventmeter.Instant { return ms(100) }
		script(t, l, eventmeter.Sub{}, `attaching@1 active@3
			fire:1@10 ok:1@11 got:1@12
			fire:2@20 ok:2@21 fire:3@30 ok:3@31 got:3@45
			fire:4@50 ok:4@51 fire:5@60 ok:5@61 fire:6@70`)
		a := l.Snapshot(true)
		n := a.Lanes[0]
		got := SubCounts{
			Expected:      n.Expected,
			Delivered:     n.Delivered,
			LostSilent:    n.LostSilent,
			LostAnnounced: n.LostAnnounced,
			Excused:       n.Excused,
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
		if n.Active != 97*time.Millisecond || n.Windows != 1 || a.Measured.Fired != 6 || a.Measured.Pending != 1 {
			t.Errorf("%s: active %v, windows %d, events %+v", mode, n.Active, n.Windows, a.Measured)
		}
		if err := a.Check(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if without := l.Snapshot(
			false,
		); without.Lanes[0].Series != nil || without.Lanes[0].Delivered != 2 ||
			without.Lanes[0].Latency.FromSent.Histogram.TotalCount() != 2 {
			t.Errorf("%s: without a series: %+v", mode, without.Lanes[0])
		}
	}
}

// TestSnapshotEndsAsTheAccount: where nothing is open, the two say the same.
func TestSnapshotEndsAsTheAccount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 6))
		l, err := New(historyOptions(byte(r.Uint32())))
		if err != nil {
			t.Fatal(err)
		}
		now := eventmeter.Instant(1000)
		for range 30 + r.IntN(400) {
			now += eventmeter.Instant(r.IntN(60_000))
			tellAnything(l, r, now)
			if r.IntN(50) == 0 {
				onlyMisused(t, seed, l.Snapshot(true))
			}
		}
		for i, n := range l.lanes {
			for j := range n.spec.Subscriptions {
				l.Changed(
					eventmeter.Transition{Sub: eventmeter.Sub{Lane: uint16(i), Index: uint32(j)}, To: eventmeter.Detached, At: now + 1},
				)
			}
		}
		a, s := l.Account(), l.Snapshot(true)
		onlyMisused(t, seed, s)
		for i := range a.Lanes {
			x, y := a.Lanes[i].SubCounts, s.Lanes[i].SubCounts
			// A first copy that came before its subscription was active is not decided.
			x.InFlight, y.InFlight, x.Undecided = 0, 0, 0
			if x != y {
				t.Fatalf("seed %d, lane %d: the account has %+v and the snapshot %+v", seed, i, x, y)
			}
			if p, q := a.Lanes[i].Ready, s.Lanes[i].Ready; p.Attempts != q.Attempts || p.Failed != q.Failed || p.Open != q.Open {
				t.Fatalf("seed %d, lane %d: ready %+v and %+v", seed, i, p, q)
			}
		}
	}
}

// TestSnapshotBesideDeliveries balances while deliveries go on.
func TestSnapshotBesideDeliveries(t *testing.T) {
	t.Parallel()
	const subs, events = 300, 100
	clock := eventmeter.NewClock()
	l, err := New(
		Options{
			Clock:       clock,
			Run:         testRun,
			Sources:     1,
			Interval:    4 * time.Millisecond,
			DetachGrace: time.Minute,
			Lanes:       []LaneSpec{{Name: "lane", Mode: eventmeter.Push, Subscriptions: subs}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(subs) {
		for _, to := range []eventmeter.State{eventmeter.Attaching, eventmeter.Active} {
			l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: to, At: clock.Now()})
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for seq := range uint32(events) {
			stamp := eventmeter.Stamp{Run: testRun, Seq: seq + 1}
			l.Fired(eventmeter.Emission{Stamp: stamp, Intended: clock.Now(), Fired: clock.Now(), Measured: true})
			l.Resolved(stamp, eventmeter.Accepted, clock.Now())
			for i := range uint32(subs) {
				l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: i}, Stamp: stamp, Probed: true, At: clock.Now()})
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		a := l.Snapshot(true)
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		if n := a.Lanes[0]; n.LostSilent != 0 || over && n.Delivered != subs*events {
			t.Fatalf("lost %d, delivered %d", n.LostSilent, n.Delivered)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, series := range []bool{false, true} {
		name := "counts"
		if series {
			name = "series"
		}
		b.Run(name, func(b *testing.B) {
			clock := eventmeter.NewClock()
			const subs = 10_000
			l, err := New(
				Options{
					Clock:       clock,
					Run:         testRun,
					Sources:     1,
					Interval:    100 * time.Millisecond,
					DetachGrace: time.Minute,
					Lanes:       []LaneSpec{{Name: "lane", Mode: eventmeter.Push, Subscriptions: subs}},
				},
			)
			if err != nil {
				b.Fatal(err)
			}
			at := eventmeter.Instant(1)
			for i := range uint32(subs) {
				for _, to := range []eventmeter.State{eventmeter.Attaching, eventmeter.Active} {
					l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: to, At: at})
				}
			}
			for seq := range uint32(120) { // in as many intervals
				at += eventmeter.Instant(100 * time.Millisecond)
				stamp := eventmeter.Stamp{Run: testRun, Seq: seq + 1}
				l.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: at, Measured: true})
				l.Resolved(stamp, eventmeter.Accepted, at)
				for i := range uint32(subs) {
					l.Delivered(
						eventmeter.Delivery{Sub: eventmeter.Sub{Index: i}, Stamp: stamp, Probed: true, At: at + eventmeter.Instant(i)*1000},
					)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				l.Snapshot(series)
			}
		})
	}
}
