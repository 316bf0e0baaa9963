package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
)

// TestTallyIsAnHdrHistogram holds the tally to the histogram whose buckets it
// imitates.
func TestTallyIsAnHdrHistogram(t *testing.T) {
	t.Parallel()
	want := hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
	var got, half tally
	values := []int64{0, 1, 2, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 511, 512, 513, 1 << 20, 1<<20 - 1, highestNanos - 1, highestNanos}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		values = append(values, r.Int64N(highestNanos+1)>>r.IntN(39))
	}
	for i, v := range values {
		if err := want.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			got.add(v)
		} else {
			half.add(v)
		}
	}
	small := packed(nil).plus(&half).plus(&got)
	got.merge(&half)
	if h := got.histogram(); !h.Equals(want) {
		t.Error("the histograms differ")
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		if g, w := got.quantile(q), time.Duration(want.ValueAtQuantile(100*q)); g != w {
			t.Errorf("quantile %v: %v, want %v", q, g, w)
		}
	}
	got.clear()
	packed := small.plus(&got).histogram()
	if packed.TotalCount() != want.TotalCount() || got.n != 0 || got.quantiles() != (Quantiles{}) {
		t.Error("packing and clearing")
	}
	into := hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
	if packed.MergeInto(into) != 0 || !into.Equals(want) {
		t.Error("the packed histogram differs")
	}
}

// TestTimingBounds checks what is out of range.
func TestTimingBounds(t *testing.T) {
	t.Parallel()
	var g timing
	for _, d := range []time.Duration{-time.Hour, 0, 999, time.Microsecond, 1999, 10 * time.Minute, 10*time.Minute + 1, time.Hour} {
		g.add(d)
	}
	e := g.export()
	if e.Below != 3 || e.Above != 2 || e.Histogram.TotalCount() != 8 || e.Histogram.Min() != 512 {
		t.Errorf("%+v", e)
	}
	if at1 := e.Histogram.CumulativeDistribution()[0]; at1.Count != 4 || at1.ValueAt != 1023 {
		t.Errorf("%+v", at1)
	}
}

// TestSourceCounts holds the counting of bits to counting one by one, over
// several chunks.
func TestSourceCounts(t *testing.T) {
	t.Parallel()
	const n = 3*chunkSize + 77
	s := &source{lanes: 1}
	r := rand.New(rand.NewPCG(5, 6))
	outcomes := make([]eventmeter.Outcome, n+1)
	measured := make([]bool, n+1)
	for seq := uint32(1); seq <= n; seq++ {
		measured[seq] = r.IntN(5) > 0
		if !s.append(
			eventmeter.Emission{Stamp: eventmeter.Stamp{Seq: seq}, Fired: eventmeter.Instant(10 * (seq / 3)), Measured: measured[seq]},
			time.Second,
		) {
			t.Fatal(seq)
		}
		if s.append(eventmeter.Emission{Stamp: eventmeter.Stamp{Seq: seq}}, time.Second) {
			t.Fatal("twice")
		}
		outcomes[seq] = eventmeter.Outcome(r.IntN(4))
		if outcomes[seq] != eventmeter.Pending && !s.resolve(seq, outcomes[seq], 0) {
			t.Fatal(seq)
		}
	}
	for range 3000 {
		from := uint32(1 + r.IntN(n))
		to := uint32(r.IntN(n + 1))
		var owed, suspect, skipped int64
		for seq := from; seq <= to; seq++ {
			if measured[seq] && outcomes[seq] == eventmeter.Accepted {
				owed++
			}
			if outcomes[seq] != eventmeter.Refused {
				suspect++
			}
			if measured[seq] && outcomes[seq] < eventmeter.Uncertain {
				skipped++
			}
		}
		if g := [...]int64{
			s.countOwed(from, to),
			s.countSuspect(from, to),
			s.countSkipped(from, to),
		}; g != [...]int64{
			owed,
			suspect,
			skipped,
		} {
			t.Fatalf("%d to %d: %v, want %v", from, to, g, [...]int64{owed, suspect, skipped})
		}
	}
	for _, c := range []struct {
		lo   uint32
		at   eventmeter.Instant
		want uint32
	}{{1, 0, 1}, {1, 1, 3}, {1, 10, 3}, {1, 11, 6}, {5, 10, 5}, {1, 1 << 40, n + 1}, {n + 1, 0, n + 1}, {n + 9, 0, n + 1}} {
		if got := s.firstFrom(c.lo, c.at); got != c.want {
			t.Errorf("firstFrom(%d, %d) = %d, want %d", c.lo, c.at, got, c.want)
		}
	}
}

// TestSourceWatermark checks that it waits for the oldest.
func TestSourceWatermark(t *testing.T) {
	t.Parallel()
	s := &source{}
	for seq := uint32(1); seq <= 5; seq++ {
		s.append(eventmeter.Emission{Stamp: eventmeter.Stamp{Seq: seq}}, time.Second)
	}
	for _, c := range [][2]uint32{{2, 0}, {1, 2}, {5, 2}, {4, 2}, {3, 5}} {
		s.settle(c[0])
		if got := s.watermark.Load(); got != c[1] {
			t.Errorf("after %d: %d, want %d", c[0], got, c[1])
		}
	}
}

// TestSlotSets holds holes and early runs to a plain set.
func TestSlotSets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var s slot
		base := uint32(r.IntN(20))
		s.restart(base, false)
		seen := map[uint32]bool{}
		for range 80 {
			seq := uint32(1 + r.IntN(40))
			first, _ := s.see(seq)
			if first == seen[seq] {
				t.Fatalf("seed %d: %d first=%t", seed, seq, first)
			}
			seen[seq] = true
		}
		x := s.more()
		for seq := uint32(1); seq <= 40; seq++ {
			has := slices.ContainsFunc(x.early, func(r run) bool { return r.from <= seq && seq <= r.to })
			if seq > base {
				has = seq <= s.newest && !slices.ContainsFunc(x.holes, func(h run) bool { return h.from <= seq && seq <= h.to })
			}
			if has != seen[seq] {
				t.Fatalf("seed %d: %d has=%t", seed, seq, has)
			}
		}
		for i := 1; i < len(x.early); i++ {
			if x.early[i-1].to+1 >= x.early[i].from {
				t.Fatalf("seed %d: runs %v", seed, x.early)
			}
		}
	}
}

// TestForgottenIDs checks that a target with ids of its own for every
// subscription costs bounded memory, and that what is forgotten is said.
func TestForgottenIDs(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	script(t, l, eventmeter.Sub{}, up)
	script(t, l, eventmeter.Sub{Index: 1}, up)
	const n = 500
	give := func(sub, seq uint32) {
		l.Delivered(
			eventmeter.Delivery{
				Sub:     eventmeter.Sub{Index: sub},
				Stamp:   eventmeter.Stamp{Run: testRun, Seq: seq},
				Probed:  true,
				EventID: uint64(seq)<<8 | uint64(sub+1),
				At:      ms(50),
			},
		)
	}
	for seq := uint32(1); seq <= n; seq++ {
		s := eventmeter.Stamp{Run: testRun, Seq: seq}
		l.Fired(eventmeter.Emission{Stamp: s, Intended: ms(3), Fired: ms(3), Measured: true})
		l.Resolved(s, eventmeter.Accepted, ms(4))
		give(0, seq)
		give(1, seq)
	}
	h, pos, _ := l.find(eventmeter.Sub{Index: 1})
	if got := len(h.slotsOf(&h.subs[pos])[0].extra.odd); got > keepOdd {
		t.Errorf("%d ids kept", got)
	}
	for sub := range uint32(2) {
		give(sub, 1)
		give(sub, n)
	}
	if got, want := l.SubAccount(eventmeter.Sub{}).Duplicates, (Duplicates{SameEvent: 2}); got != want {
		t.Errorf("first: %+v", got)
	}
	if got, want := l.SubAccount(eventmeter.Sub{Index: 1}).Duplicates, (Duplicates{SameEvent: 1, Forgotten: 1}); got != want {
		t.Errorf("second: %+v", got)
	}
}

// TestFirstCopyWithoutID: a later copy is not the same event because another subscription knows its id.
func TestFirstCopyWithoutID(t *testing.T) {
	t.Parallel()
	l := newTestLedger(t, Options{})
	script(t, l, eventmeter.Sub{Index: 1}, up)
	script(t, l, eventmeter.Sub{}, up+"fire:1@3 ok:1@4 got:1/none@5")
	script(t, l, eventmeter.Sub{Index: 1}, "got:1/7@6")
	script(t, l, eventmeter.Sub{}, "got:1/7@7")
	if got, want := l.SubAccount(eventmeter.Sub{}).Duplicates, (Duplicates{SameEmission: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSeriesIsBounded checks that closed intervals are packed, and that late
// samples still find theirs.
func TestSeriesIsBounded(t *testing.T) {
	t.Parallel()
	r := series{keep: openIntervals, wide: 1}
	give := func(k int64) {
		s := &span{}
		s.reset(k)
		s.counts.delivered = 1
		s.intended.add(time.Millisecond)
		s.sent.add(time.Millisecond)
		r.take(s)
	}
	for _, k := range []int64{5, 4, 5, 7, 100, 4, 6, 1, 99, 101, 5} {
		give(k)
	}
	if len(r.open) != openIntervals {
		t.Errorf("%d open intervals", len(r.open))
	}
	got := map[int64]int64{}
	var intended, sent timing
	for k, p := range r.export(&intended, &sent) {
		got[k] = p.counts.delivered
		if p.intended.histogram().TotalCount() != got[k] || p.sent.histogram().TotalCount() != got[k] {
			t.Errorf("interval %d: %d samples", k, p.intended.histogram().TotalCount())
		}
	}
	if intended.n != 11 || sent.n != 11 {
		t.Errorf("totals: %d, %d", intended.n, sent.n)
	}
	for k, n := range map[int64]int64{1: 1, 4: 2, 5: 3, 6: 1, 7: 1, 99: 1, 100: 1, 101: 1} {
		if got[k] != n {
			t.Errorf("interval %d: %d, want %d", k, got[k], n)
		}
	}
	spans := map[*span]bool{} // those of closed intervals are used again
	for k := range int64(20) {
		give(200 + k)
		for _, o := range r.open {
			spans[o] = true
		}
	}
	if len(spans) > openIntervals+1 {
		t.Errorf("%d spans for %d intervals that were open at once", len(spans), openIntervals)
	}
}

// TestRecordedIntervals checks that the account has the wider intervals, with
// everything in them, while Live sees the narrow ones.
func TestRecordedIntervals(t *testing.T) {
	t.Parallel()
	l, err := New(Options{
		Run: 1, Sources: 1, Interval: time.Second, Recorded: 10 * time.Second,
		Lanes: []LaneSpec{{Name: "a", Mode: eventmeter.Push, Subscriptions: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Changed(eventmeter.Transition{To: eventmeter.Attaching, At: 1})
	l.Changed(eventmeter.Transition{To: eventmeter.Active, At: 2})
	for i := range uint32(25) {
		at := eventmeter.Instant(i+1) * eventmeter.Instant(time.Second)
		s := eventmeter.Stamp{Run: 1, Seq: i + 1}
		l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
		l.Resolved(s, eventmeter.Accepted, at+1)
		l.Delivered(eventmeter.Delivery{Stamp: s, Probed: true, At: at + eventmeter.Instant(time.Millisecond)})
		l.Dropped(eventmeter.Drop{Intended: at, Measured: true})
	}
	a := l.Account()
	if a.Interval != 10*time.Second {
		t.Errorf("intervals of %v", a.Interval)
	}
	for i, want := range []int64{9, 10, 6} {
		v := a.Lanes[0].Series[i]
		if v.Number != int64(i) || v.Fired != want || v.Dropped != want || v.Delivered != want || v.FromSent.TotalCount() != want ||
			v.FromIntended.TotalCount() != want {
			t.Errorf("interval %d: %+v, want %d of all", i, v, want)
		}
	}
	if len(a.Lanes[0].Series) != 3 {
		t.Errorf("%d intervals, want 3", len(a.Lanes[0].Series))
	}
	for _, bad := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		if _, err := New(Options{Sources: 1, Interval: time.Second, Recorded: bad}); err == nil {
			t.Errorf("recorded intervals of %v were taken", bad)
		}
	}
}

// TestReasonsAreBounded checks texts that come from a target.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	var r reasons
	for i := range 300 {
		r.add(string(rune('a'+i%26)) + string(rune('a'+i/26)) + "\xff")
	}
	r.add(string(make([]byte, 10_000)))
	list := r.export()
	if len(list) != keepReasons+1 || list[0] != (Reason{otherReasons, 201}) {
		t.Errorf("%d reasons, first %+v", len(list), list[0])
	}
}

// TestCovered checks the union of runs.
func TestCovered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs []run
		want int64
	}{{nil, 0}, {[]run{{1, 1}}, 1}, {[]run{{4, 5}, {1, 2}, {2, 4}}, 5}, {[]run{{1, 9}, {2, 3}, {9, 10}}, 10}} {
		if got := covered(c.runs); got != c.want {
			t.Errorf("%v: %d", c.runs, got)
		}
	}
}
