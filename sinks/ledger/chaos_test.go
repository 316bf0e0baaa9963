package ledger

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter"
)

// Whatever a recorder is told, in whatever order, the ledger does not fall over,
// and its sums hold: what no correct driver would say is counted as misuse, and
// that is all that is wrong with the account. (What correct ones say is held to
// the model.)
func TestLedgerSurvivesMisuse(t *testing.T) {
	t.Parallel()
	seeds := uint64(400)
	if raceEnabled || testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 5))
		opt := historyOptions(byte(r.Uint32()))
		l, err := New(opt)
		if err != nil {
			t.Fatal(err)
		}
		now := eventmeter.Instant(1000)
		for range 30 + r.IntN(400) {
			now += eventmeter.Instant(r.IntN(60_000))
			tellAnything(l, r, now)
			if r.IntN(100) == 0 {
				l.Live()
				l.Outstanding()
				onlyMisused(t, seed, l.Account())
			}
		}
		onlyMisused(t, seed, l.Account())
	}
}

func onlyMisused(t *testing.T, seed uint64, a Account) {
	t.Helper()
	err := a.Check()
	if err == nil {
		return
	}
	for text := range strings.SplitSeq(strings.TrimPrefix(err.Error(), ErrUnbalanced.Error()+": "), "\n") {
		if !strings.HasPrefix(text, "the recorder was misused") {
			t.Fatalf("seed %d: %s", seed, text)
		}
	}
}

// tellAnything makes one call of any kind, about anything, at about any time.
func tellAnything(l *Ledger, r *rand.Rand, now eventmeter.Instant) {
	at := max(now-eventmeter.Instant(r.IntN(3)*r.IntN(200_000)), 0)
	sub := eventmeter.Sub{Lane: uint16(r.IntN(3)), Index: uint32(r.IntN(4))}
	stamp := eventmeter.Stamp{Run: historyRun, Source: uint16(r.IntN(3)), Seq: uint32(r.IntN(30))}
	if r.IntN(20) == 0 {
		stamp.Run, stamp.Seq = r.Uint32(), r.Uint32()
	}
	switch r.IntN(8) {
	case 0, 1:
		if r.IntN(8) > 0 && int(stamp.Source) < len(l.sources) { // mostly the one that is next
			stamp.Run, stamp.Seq = historyRun, l.sources[stamp.Source].n.Load()+1
		}
		l.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: now, Measured: r.IntN(5) > 0})
	case 2:
		l.Resolved(stamp, eventmeter.Outcome(r.IntN(6)), at)
	case 3, 4, 5:
		l.Delivered(
			eventmeter.Delivery{
				Sub:     sub,
				Stamp:   stamp,
				Probed:  r.IntN(9) > 0,
				EventID: uint64(r.IntN(4)),
				At:      at,
				Bytes:   1,
				Refused: r.IntN(5) == 0,
			},
		)
	case 6:
		l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.State(r.IntN(7)), At: at, Reason: "any"})
	case 7:
		l.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.NoticeKind(r.IntN(11)), At: at})
		l.Dropped(eventmeter.Drop{Intended: at, Measured: r.IntN(2) == 0})
	}
}

// The last source of as many as there can be is as good as the first.
func TestLedgerOfAllSources(t *testing.T) {
	t.Parallel()
	const last = 1<<16 - 1
	l, err := New(Options{Run: 1, Sources: last + 1, Lanes: []LaneSpec{
		{Name: "all", Subscriptions: 1},
		{Name: "one", Subscriptions: 1, Owed: func(int) []uint16 { return []uint16{last} }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for lane := range uint16(2) {
		sub := eventmeter.Sub{Lane: lane}
		l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: 1})
		l.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: 2})
	}
	for _, source := range []uint16{0, last} {
		for seq := range uint32(2) {
			s := eventmeter.Stamp{Run: 1, Source: source, Seq: seq + 1}
			at := eventmeter.Instant(10 + seq)
			l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
			l.Resolved(s, eventmeter.Accepted, at)
		}
	}
	for lane := range uint16(2) {
		l.Delivered(
			eventmeter.Delivery{
				Sub:     eventmeter.Sub{Lane: lane},
				Stamp:   eventmeter.Stamp{Run: 1, Source: last, Seq: 2},
				Probed:  true,
				EventID: 1,
				At:      20,
			},
		)
	}
	a := l.Account()
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ expected, delivered, lost int64 }{{4, 1, 3}, {2, 1, 1}} {
		if n := a.Lanes[i]; n.Expected != want.expected || n.Delivered != want.delivered || n.LostSilent != want.lost {
			t.Errorf("lane %s: expected %d, delivered %d, lost %d; want %+v", n.Name, n.Expected, n.Delivered, n.LostSilent, want)
		}
	}
	if n := l.Outstanding(); n != 4 {
		t.Errorf("%d outstanding, want 4", n)
	}
}
