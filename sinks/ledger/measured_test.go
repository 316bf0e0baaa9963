package ledger

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// TestMeasured counts calls, copies and active time before, within and after
// the measured window, which is [100 ms, 200 ms).
func TestMeasured(t *testing.T) {
	at := func(ms int) eventmeter.Instant { return eventmeter.Instant(ms) * eventmeter.Instant(time.Millisecond) }
	call := func(ms int, cause eventmeter.Cause, bytes int64) eventmeter.Call {
		return eventmeter.Call{Cause: cause, At: at(ms), Requests: 1, Up: bytes, Down: 2 * bytes, Connections: 1, Took: time.Millisecond}
	}
	for _, c := range []struct {
		name    string
		measure func(l *Ledger, now int) // called at each instant below
		want    Window
		active  time.Duration
	}{
		{"no window", func(*Ledger, int) {}, Window{
			WindowCounts: WindowCounts{EventMessages: 5, EventBytes: 50, Received: 4}, Traffic: traffics(4, 15),
		}, 190 * time.Millisecond},
		{"as planned", func(l *Ledger, now int) {
			if now == 50 {
				l.Measure(at(100), at(200))
			}
		}, Window{WindowCounts: WindowCounts{EventMessages: 3, EventBytes: 30, Received: 2}, Traffic: traffics(2, 6)}, 100 * time.Millisecond},
		{"ended early", func(l *Ledger, now int) {
			switch now {
			case 50:
				l.Measure(at(100), at(200))
			case 180:
				l.Measure(at(100), at(180))
			}
		}, Window{WindowCounts: WindowCounts{EventMessages: 3, EventBytes: 30, Received: 2}, Traffic: traffics(1, 2)}, 80 * time.Millisecond},
		{"ended before it began", func(l *Ledger, now int) {
			switch now {
			case 50:
				l.Measure(at(100), at(200))
			case 90:
				l.Measure(at(100), at(90))
			}
		}, Window{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var now eventmeter.Instant
			l, err := New(Options{Run: testRun, Sources: 1, Lanes: []LaneSpec{{Name: "a", Subscriptions: 2}}})
			if err != nil {
				t.Fatal(err)
			}
			l.now = func() eventmeter.Instant { return now }
			seq := uint32(0)
			fire := func(ms int) {
				seq++
				s := eventmeter.Stamp{Run: testRun, Seq: seq}
				l.Fired(eventmeter.Emission{Stamp: s, Intended: at(ms), Fired: at(ms), Measured: ms >= 100})
				l.Resolved(s, eventmeter.Accepted, at(ms))
			}
			read := func(ms int, seq uint32) {
				l.Delivered(eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: testRun, Seq: seq}, Probed: true, At: at(ms), Bytes: 10})
			}
			change := func(ms int, sub uint32, to eventmeter.State) {
				l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: sub}, To: to, At: at(ms)})
			}
			change(9, 0, eventmeter.Attaching)
			change(10, 0, eventmeter.Active)
			// The second one is over before the window.
			change(10, 1, eventmeter.Attaching)
			change(10, 1, eventmeter.Active)
			change(40, 1, eventmeter.Detached)
			l.Called(call(20, eventmeter.EmptyPoll, 1))
			fire(30)
			read(40, 1)
			c.measure(l, 50)
			c.measure(l, 90)
			fire(95)
			read(100, 2) // fired in the warm-up, read in the window
			l.Called(call(110, eventmeter.EmptyPoll, 2))
			fire(150)
			read(160, 3)
			read(170, 3) // a second copy costs, and is not received again
			c.measure(l, 180)
			fire(190)
			l.Called(call(199, eventmeter.EmptyPoll, 4))
			read(200, 4)
			l.Called(call(200, eventmeter.EmptyPoll, 8))
			now = at(210)
			change(200, 0, eventmeter.Detached)

			a := l.Account()
			if err := a.Check(); err != nil {
				t.Fatal(err)
			}
			got := a.Lanes[0].Measured
			if a.Lanes[0].Received != 4 {
				t.Errorf("%d received in all, want 4", a.Lanes[0].Received)
			}
			c.want.Active = c.active
			if c.name == "no window" {
				c.want.Active += 30 * time.Millisecond
			}
			if got != c.want {
				t.Errorf("\n got %+v\nwant %+v", got, c.want)
			}
			if d := l.Detail().Lanes[0].Measured; d != got {
				t.Errorf("live it is\n     %+v\nwant %+v", d, got)
			}
			sum, err := MergeAccounts([]Account{a, a}, MergeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			figure.Add(&c.want, &c.want)
			if got := sum.Lanes[0].Measured; got != c.want || sum.Lanes[0].Received != 8 {
				t.Errorf("merged with itself:\n got %+v, %d received\nwant %+v, 8", got, sum.Lanes[0].Received, c.want)
			}
		})
	}
}

// traffics are empty polls with bytes up, and twice as many down.
func traffics(calls, bytes int64) (out [eventmeter.Causes]Traffic) {
	out[eventmeter.EmptyPoll] = Traffic{Calls: calls, Requests: calls, Up: bytes, Down: 2 * bytes, Connections: calls}
	return out
}

// TestMeasuredWhileOpen counts the active time of a subscription that is still
// open.
func TestMeasuredWhileOpen(t *testing.T) {
	l := attached(t, 1)
	l.Measure(ms(50), ms(80))
	for now, want := range map[float64]time.Duration{20: 0, 60: 10 * time.Millisecond, 100: 30 * time.Millisecond} {
		l.now = func() eventmeter.Instant { return ms(now) }
		if got := l.Account().Lanes[0].Measured.Active; got != want {
			t.Errorf("at %v ms it was active for %v in the window, want %v", now, got, want)
		}
		if got := l.Detail().Lanes[0].Measured.Active; got != want {
			t.Errorf("live, at %v ms: %v, want %v", now, got, want)
		}
	}
}
