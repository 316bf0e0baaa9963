package ledger

import (
	"sync"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// TestLedgerConcurrent lets upstreams, subscriptions, a display and a partial
// account work at the same time, with every figure known beforehand.
func TestLedgerConcurrent(t *testing.T) {
	t.Parallel()
	const sources, perSource, subs = 3, 200, 12
	l := newTestLedger(t, Options{Sources: sources, Interval: time.Millisecond, Lanes: []LaneSpec{
		{
			Name:          "a",
			Subscriptions: subs,
		},
		{Name: "b", Subscriptions: subs, Owed: func(i int) []uint16 { return []uint16{uint16(i % sources)} }},
	}})
	each := func(f func(eventmeter.Sub)) {
		var wg sync.WaitGroup
		for lane := range uint16(2) {
			for i := range uint32(subs) {
				wg.Go(func() { f(eventmeter.Sub{Lane: lane, Index: i}) })
			}
		}
		wg.Wait()
	}
	each(func(sub eventmeter.Sub) { script(t, l, sub, up) })

	look := make(chan struct{}, 1)
	var looking sync.WaitGroup
	looking.Go(func() {
		for range look {
			_ = l.Live()
			_ = l.Outstanding()
			if err := l.Account().Check(); err != nil {
				t.Error(err)
			}
		}
	})
	fireAndDeliver(l, each, look, perSource, sources)
	close(look)
	looking.Wait()

	a := l.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	for i, pairs := range []int64{subs * sources, subs} {
		n := a.Lanes[i].SubCounts
		// Of 200: 20 uncertain, 40 lost (none of them uncertain), 28 multiples
		// of seven of which 6 are lost.
		want := SubCounts{
			Expected:   180 * pairs,
			Delivered:  140 * pairs,
			LostSilent: 40 * pairs,
			Recovered:  20 * pairs,
			Duplicates: Duplicates{
				SameEvent: 22 * pairs,
			},
			GapIncidents: 40 * pairs,
			LongestGap:   1,
			Windows:      subs,
			Active:       subs * 998 * time.Millisecond,
		}
		if n != want {
			t.Errorf("lane %d:\n got %+v\nwant %+v", i, n, want)
		}
	}
	if l.Live().Lanes[0].Undecided != 0 {
		t.Error("something is still parked")
	}
}

// fireAndDeliver fires, resolves and delivers at the same time, and returns when
// all is done.
func fireAndDeliver(l *Ledger, each func(func(eventmeter.Sub)), look chan struct{}, perSource uint32, sources int) {
	var wg sync.WaitGroup
	fired := make([]chan struct{}, sources)
	for s := range fired {
		fired[s] = make(chan struct{})
	}
	clock := eventmeter.NewClock()
	base := ms(10)
	now := func() eventmeter.Instant { return base + clock.Now() }
	for s := range sources {
		wg.Go(func() {
			for seq := uint32(1); seq <= perSource; seq++ {
				at := now()
				l.Fired(
					eventmeter.Emission{
						Stamp:    eventmeter.Stamp{Run: testRun, Source: uint16(s), Seq: seq},
						Intended: at,
						Fired:    at,
						Measured: true,
					},
				)
			}
			close(fired[s])
		})
	}
	// Emissions are resolved while they are delivered: every tenth is uncertain.
	for s := range sources {
		wg.Go(func() {
			<-fired[s]
			for seq := uint32(1); seq <= perSource; seq++ {
				o := eventmeter.Accepted
				if seq%10 == 0 {
					o = eventmeter.Uncertain
				}
				l.Resolved(eventmeter.Stamp{Run: testRun, Source: uint16(s), Seq: seq}, o, now())
				if seq%50 == 25 {
					nudge(look)
				}
			}
		})
	}
	// Every fifth is lost, every seventh comes twice.
	each(func(sub eventmeter.Sub) {
		for s := range sources {
			if sub.Lane == 1 && int(sub.Index)%sources != s {
				continue
			}
			<-fired[s]
			for seq := uint32(1); seq <= perSource; seq++ {
				if seq%5 == 1 {
					continue
				}
				d := eventmeter.Delivery{
					Sub:     sub,
					Stamp:   eventmeter.Stamp{Run: testRun, Source: uint16(s), Seq: seq},
					Probed:  true,
					EventID: uint64(seq),
					At:      now(),
				}
				l.Delivered(d)
				if seq%7 == 0 {
					l.Delivered(d)
				}
			}
		}
	})
	wg.Wait()
}

// nudge wakes whoever reads c, if they are not busy.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// TestLedgerConcurrentChurn lets subscriptions come and go while emissions are
// fired, resolved and delivered; the account must balance at any time.
func TestLedgerConcurrentChurn(t *testing.T) {
	t.Parallel()
	const subs, emissions = 12, 300
	clock := eventmeter.NewClock()
	l := newTestLedger(t, Options{Sources: 1, DetachGrace: time.Microsecond, Lanes: []LaneSpec{{Subscriptions: subs}}})
	l.now = clock.Now
	var wg sync.WaitGroup
	done, look := make(chan struct{}), make(chan struct{}, 1)
	wg.Go(func() {
		defer close(done)
		defer close(look)
		for seq := uint32(1); seq <= emissions; seq++ {
			s := eventmeter.Stamp{Run: testRun, Seq: seq}
			at := clock.Now()
			l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
			var deliveries sync.WaitGroup
			deliveries.Go(func() {
				for i := range uint32(subs) {
					l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: i}, Stamp: s, Probed: true, EventID: 5, At: clock.Now()})
				}
			})
			l.Resolved(s, eventmeter.Accepted, clock.Now())
			deliveries.Wait()
			if seq%30 == 0 {
				nudge(look)
			}
		}
	})
	for i := range uint32(subs) {
		wg.Go(func() {
			for range 300 {
				for to := eventmeter.Attaching; to <= eventmeter.Detached; to++ {
					l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: i}, To: to, At: clock.Now()})
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Go(func() {
		for range look {
			if err := l.Account().Check(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if err := l.Account().Check(); err != nil {
		t.Error(err)
	}
}
