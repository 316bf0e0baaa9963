package ledger

import (
	"testing"

	"github.com/eventmeter/eventmeter"
)

// TestEachSub holds the figures of many to those of each.
func TestEachSub(t *testing.T) {
	l, err := New(Options{Run: 7, Sources: 1, Lanes: []LaneSpec{{Name: "a", Mode: eventmeter.Push, Subscriptions: 40}}})
	if err != nil {
		t.Fatal(err)
	}
	at := eventmeter.Instant(10)
	for i := range uint32(40) {
		s := eventmeter.Sub{Index: i}
		l.Changed(eventmeter.Transition{Sub: s, To: eventmeter.Attaching, At: at})
		l.Changed(eventmeter.Transition{Sub: s, To: eventmeter.Active, At: at + 1})
	}
	for seq := uint32(1); seq <= 6; seq++ {
		stamp := eventmeter.Stamp{Run: 7, Seq: seq}
		at += 10
		l.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: at, Measured: true})
		for i := range uint32(40) {
			if i%6 != seq%6 { // each misses one
				l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Index: i}, Stamp: stamp, Probed: true, At: at + 2})
			}
		}
		if seq < 6 { // the last stays undecided
			l.Resolved(stamp, eventmeter.Accepted, at+3)
		}
	}
	indexes := []uint32{39, 0, 17, 1000, 5, 6}
	seen := 0
	l.EachSub(0, indexes, func(i int, c *SubCounts) {
		seen++
		want := SubCounts{Expected: 5, Delivered: 4, LostSilent: 1, Undecided: 1, GapIncidents: 1, LongestGap: 1, Windows: 1}
		if indexes[i]%6 == 0 {
			want = SubCounts{Expected: 5, Delivered: 5, Windows: 1}
		}
		got := *c
		got.Active = 0
		if got != want {
			t.Errorf("subscription %d: %+v, want %+v", indexes[i], got, want)
		}
	})
	if seen != 5 {
		t.Errorf("%d were visited, want 5: one does not exist", seen)
	}
	for _, index := range []uint32{39, 0} {
		one := l.SubAccount(eventmeter.Sub{Index: index})
		l.EachSub(0, []uint32{index}, func(_ int, c *SubCounts) {
			c.Active, one.Active = 0, 0
			if *c != one {
				t.Errorf("subscription %d: %+v and alone %+v", index, *c, one)
			}
		})
	}
	l.EachSub(1, indexes, func(int, *SubCounts) { t.Error("there is no such lane") })
}
