package ledger

import (
	"strconv"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
)

// TestOrderConflicts plays arrivals to four streams. "a1" is event 1 of the first
// source (the others are b and c) at the stream that begins the word: 0:a1. The
// streams hear what hears says. Events from 9 on are of the warm-up.
func TestOrderConflicts(t *testing.T) {
	t.Parallel()
	long := "0:a1"
	for seq := 2; seq <= 40; seq++ { // nobody else gets event 1
		long += " 1:a" + strconv.Itoa(100+seq) + " 2:a" + strconv.Itoa(100+seq)
	}
	restart := strings.TrimPrefix(long, "0:a1 ")
	for _, c := range []struct {
		name, hears, arrivals string
		want                  int64
	}{
		{"one order", "abc abc abc abc", "0:a1 1:a1 2:a1 0:b1 2:b1 1:b1 2:c1 0:c1 1:c1", 0},
		{"one order, streams far apart", "abc abc", "0:a1 0:b1 0:c1 0:a2 1:a1 1:b1 1:c1 1:a2", 0},
		{"another order", "abc abc", "0:a1 0:b1 1:b1 1:a1", 1},
		{"another order of one source", "abc abc", "0:a1 0:a2 1:a2 1:a1", 1},
		{"at once", "abc abc", "0:a1 1:b1 0:b1 1:a1 0:c1 1:c1", 1},
		{"at once, the other way", "abc abc", "0:a1 1:b1 1:a1 0:b1 0:c1 1:c1", 1},
		{"two of four", "abc abc abc abc", "0:a1 1:a1 2:b1 3:b1 0:b1 1:b1 2:a1 3:a1", 2},
		{"one event behind three", "abc abc", "0:a1 0:b1 0:c1 0:a2 1:b1 1:c1 1:a2 1:a1", 1},
		{"three behind one", "abc abc", "0:a1 0:b1 0:c1 0:a2 1:a2 1:a1 1:b1 1:c1", 3},
		{"lost", "abc abc", "0:a1 0:b1 0:c1 1:a1 1:c1 1:a2 0:a2", 0},
		{"lost by the first", "abc abc abc", "0:b1 1:a1 1:b1 2:a1 2:b1 0:c1 1:c1 2:c1", 0},
		{"lost here and there", "abc abc abc", "0:a1 1:a1 2:a1 0:c1 1:b1 1:c1 2:b1 2:c1 2:a2 1:a2 0:a2", 0},
		{"all hear another source", "a b c a", "0:a1 1:b1 2:c1 3:a1 0:a2 3:a2 1:b2", 0},
		{"orders of two sources", "ab ab c c", "0:a1 2:c1 0:b1 2:c2 1:b1 3:c2 1:a1 3:c1", 2},
		{"a first event of the source whose event had to wait", "abc abc", "0:a3 1:b3 0:b3 1:c3 0:c3 0:b1 1:b1", 0},
		{"second copies", "abc abc", "0:a1 0:b1 0:a1 1:a1 1:b1 1:a1", 0},
		{"warm-up", "abc abc", "0:a9 0:b9 1:b9 1:a9", 0},
		{"the last one came to one stream alone", "abc abc abc", long + " 1:b1 1:c1 2:c1 2:b1", 1},
		{"an event of the order that ended", "abc abc abc abc", long + " 1:b1 3:b1 3:a1", 0},
		{"an event of the order that ended came before", "abc abc abc abc", "0:a1 3:b1 3:a1 " + restart + " 1:b1 3:c1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := conflicts(t, strings.Fields(c.hears), strings.Fields(c.arrivals)); got != c.want {
				t.Errorf("%d conflicts, want %d", got, c.want)
			}
		})
	}
}

// conflicts returns what a ledger and the model count.
func conflicts(t *testing.T, hears, arrivals []string) int64 {
	t.Helper()
	opt := Options{Run: testRun, Sources: 3, Lanes: []LaneSpec{{Name: "lane", Subscriptions: len(hears), Owed: func(i int) (list []uint16) {
		for _, s := range hears[i] {
			list = append(list, uint16(s-'a'))
		}
		return list
	}}}}
	l := newTestLedger(t, opt)
	m := &model{opt: l.opt}
	both := eventmeter.Tee(l, m)
	for i := range hears {
		for _, to := range []eventmeter.State{eventmeter.Attaching, eventmeter.Active} {
			both.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Index: uint32(i)}, To: to, At: ms(1)})
		}
	}
	for source := range uint16(3) {
		for seq := uint32(1); seq <= 140; seq++ {
			s := eventmeter.Stamp{Run: testRun, Source: source, Seq: seq}
			both.Fired(eventmeter.Emission{Stamp: s, Intended: ms(2), Fired: ms(2), Measured: seq < 9})
			both.Resolved(s, eventmeter.Accepted, ms(2))
		}
	}
	for _, word := range arrivals {
		stream, event, _ := strings.Cut(word, ":")
		i, err := strconv.Atoi(stream)
		if err != nil {
			t.Fatal(err)
		}
		seq, err := strconv.Atoi(event[1:])
		if err != nil {
			t.Fatal(err)
		}
		both.Delivered(eventmeter.Delivery{
			Sub: eventmeter.Sub{Index: uint32(i)}, Stamp: eventmeter.Stamp{Run: testRun, Source: uint16(event[0] - 'a'), Seq: uint32(seq)},
			Probed: true, EventID: 1, At: ms(3),
		})
	}
	got := l.Account().Lanes[0].OrderConflicts
	if want := m.orderConflicts(0); got != want {
		t.Errorf("the ledger counts %d conflicts, the model %d", got, want)
	}
	return got
}
