package ledger

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/eventmeter/eventmeter"
)

// attached returns a ledger with n active subscriptions and one source.
func attached(t testing.TB, n int) *Ledger {
	l := newTestLedger(t, Options{Sources: 1, Lanes: []LaneSpec{{Subscriptions: n}}})
	for i := range uint32(n) {
		script(t, l, eventmeter.Sub{Index: i}, up)
	}
	return l
}

// shoot fires and resolves the next emission.
func shoot(l *Ledger, seq uint32) eventmeter.Stamp {
	s := eventmeter.Stamp{Run: testRun, Seq: seq}
	at := ms(3) + eventmeter.Instant(seq)*1000
	l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
	l.Resolved(s, eventmeter.Accepted, at)
	return s
}

// TestDeliveredAllocatesNothing covers copies in order, before and after the
// firing is resolved, and duplicates.
func TestDeliveredAllocatesNothing(t *testing.T) {
	const runs = 2000
	l := attached(t, 1)
	for seq := uint32(1); seq <= 2*runs; seq++ {
		shoot(l, seq)
	}
	d := eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: testRun}, Probed: true, EventID: 1}
	next := func() {
		d.Stamp.Seq++
		d.At = ms(3) + eventmeter.Instant(d.Stamp.Seq)*1_000_000 // crosses intervals, too
		l.Delivered(d)
	}
	next()
	if n := testing.AllocsPerRun(runs, next); n != 0 {
		t.Errorf("in order: %v allocations per delivery", n)
	}
	l.Delivered(d)
	if n := testing.AllocsPerRun(runs, func() { l.Delivered(d) }); n != 0 {
		t.Errorf("duplicates: %v allocations per delivery", n)
	}
	seq := uint32(2 * runs)
	if n := testing.AllocsPerRun(runs, func() {
		seq++
		d.Stamp.Seq, d.At = seq, ms(5000)
		l.Fired(eventmeter.Emission{Stamp: d.Stamp, Intended: ms(4999), Fired: ms(4999), Measured: true})
		l.Delivered(d)
		l.Resolved(d.Stamp, eventmeter.Accepted, ms(5001))
	}); n >= 1 {
		t.Errorf("before resolved: %v allocations per delivery", n)
	}
}

// TestMemoryDoesNotGrowWithDeliveries makes a million deliveries in order.
func TestMemoryDoesNotGrowWithDeliveries(t *testing.T) {
	const subs = 10_000
	emissions := uint32(100)
	if raceEnabled {
		emissions = 10
	}
	l := attached(t, subs)
	broadcast := func(from, to uint32) {
		for seq := from; seq <= to; seq++ {
			s := shoot(l, seq)
			for i := range uint32(subs) {
				l.Delivered(
					eventmeter.Delivery{
						Sub:     eventmeter.Sub{Index: i},
						Stamp:   s,
						Probed:  true,
						EventID: uint64(seq),
						At:      ms(4) + eventmeter.Instant(seq)*1000,
					},
				)
			}
		}
	}
	objects := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	broadcast(1, 2)
	before := objects()
	broadcast(3, 2+emissions)
	after := objects()
	if grown := int64(after) - int64(before); grown > 500 {
		t.Errorf("%d heap objects more after %d deliveries", grown, subs*emissions)
	}
	if a := l.Account(); a.Check() != nil || a.Lanes[0].Delivered != subs*(int64(emissions)+2) {
		t.Errorf("delivered %d: %v", a.Lanes[0].Delivered, a.Check())
	}
}

// TestSubscriptionSize keeps the state of a subscription small: 100,000 of them
// are a normal run.
func TestSubscriptionSize(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(subState{}) + unsafe.Sizeof(slot{}); n > 150 {
		t.Errorf("a subscription with one source takes %d bytes", n)
	}
	var s subState
	if n := unsafe.Offsetof(s.ending) + unsafe.Sizeof(s.ending) - unsafe.Offsetof(s.order) - unsafe.Offsetof(s.order.seq); n > 64 {
		t.Errorf("what a delivery needs of a subscription takes %d bytes, more than a cache line", n)
	}
	if n := unsafe.Sizeof(emission{}); n > 32 {
		t.Errorf("an emission takes %d bytes", n)
	}
}
