package ledger

import (
	"testing"

	"github.com/eventmeter/eventmeter"
)

// Updates without a payload: what was fired before the newest of them is
// unidentified, what was fired after it is lost. Sole names an emission only
// while each one before has had its update.
func TestUpdatesWithoutPayload(t *testing.T) {
	sub := eventmeter.Sub{}
	l := attached(t, 1)
	fire := func(seq uint32, o eventmeter.Outcome) eventmeter.Instant {
		at := ms(10 * float64(seq))
		l.Fired(eventmeter.Emission{Stamp: eventmeter.Stamp{Run: testRun, Seq: seq}, Intended: at - 5, Fired: at, Measured: true})
		l.Resolved(eventmeter.Stamp{Run: testRun, Seq: seq}, o, at+1)
		return at
	}
	// update reports one, and wants the seq that it stands for, 0 for none.
	update := func(at eventmeter.Instant, want uint32) {
		t.Helper()
		e, ok := l.Sole(sub, at)
		if !ok {
			e.Seq = 0
		}
		if e.Seq != want || ok && (e.Run != testRun || e.Intended != e.Fired-5 || !e.Measured) {
			t.Errorf("at %v: %+v, want %d", at, e, want)
		}
		l.Delivered(eventmeter.Delivery{Sub: sub, At: at, Update: true})
	}
	update(ms(5), 0) // of something else
	l = attached(t, 1)
	update(fire(1, eventmeter.Accepted)+2, 1)
	fire(2, eventmeter.Refused) // announced to nobody
	update(fire(3, eventmeter.Accepted)+2, 3)
	if _, ok := l.Sole(sub, ms(35)); ok {
		t.Error("an update came twice, and the second stands for something")
	}
	fire(4, eventmeter.Uncertain) // perhaps
	update(fire(5, eventmeter.Accepted)+2, 0)
	update(fire(6, eventmeter.Accepted)+2, 0) // or 5, or 4
	fire(7, eventmeter.Accepted)
	fire(8, eventmeter.Accepted)
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	if c := a.Lanes[0].SubCounts; c.Unidentified != 4 || c.LostSilent != 2 || c.Expected != 2 || c.Delivered != 0 || c.Unprobed != 4 ||
		c.GapIncidents != 1 ||
		c.LongestGap != 2 {
		t.Errorf("%+v", c)
	}
	if d := a.Live().Lanes[0]; d.Unidentified != 4 || d.Expected != 2 {
		t.Errorf("%+v", d)
	}
	both, err := MergeAccounts([]Account{a, a}, MergeOptions{})
	if err != nil || both.Lanes[0].Unidentified != 8 || both.Lanes[0].LostSilent != 4 {
		t.Errorf("merged: %+v, %v", both.Lanes[0].SubCounts, err)
	}
}

// An update that came before its emission was fired is of another, and so may be
// one to a subscription that was opened later.
func TestSoleIsCertain(t *testing.T) {
	sub := eventmeter.Sub{}
	l := attached(t, 1)
	shoot(l, 1)
	if _, ok := l.Sole(sub, ms(3)); ok {
		t.Error("an emission is announced before it was fired")
	}
	if e, ok := l.Sole(sub, ms(4)); !ok || e.Seq != 1 {
		t.Errorf("%+v", e)
	}
	l.opt.Sibling = func(uint32) bool { return false }
	if _, ok := l.Sole(sub, ms(4)); ok {
		t.Error("a sibling may have fired it")
	}
	l.opt.Sibling = nil
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Detaching, At: ms(5)})
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Detached, At: ms(5)})
	if _, ok := l.Sole(sub, ms(6)); ok {
		t.Error("the subscription is over")
	}
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: ms(7)})
	l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: ms(7)})
	l.Fired(eventmeter.Emission{Stamp: eventmeter.Stamp{Run: testRun, Seq: 2}, Fired: ms(8), Measured: true})
	if _, ok := l.Sole(sub, ms(9)); ok {
		t.Error("an update of seq 1 may be on its way")
	}
	if _, ok := l.Sole(eventmeter.Sub{Index: 7}, ms(9)); ok {
		t.Error("there is no such subscription")
	}
}
