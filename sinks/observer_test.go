package sinks

import (
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

var (
	_ eventmeter.Recorder = (*Observer)(nil)
	_ eventmeter.Observer = (*Observer)(nil)
)

func TestObserver(t *testing.T) {
	clock := eventmeter.NewClock()
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l, err := NewObserver(ObserverOptions{Clock: clock, Lanes: []int{3, 1}, Remember: 2, Wall: func() time.Time { return wall }})
	must(t, err)
	from := l.at.Add(time.Second)
	l.Start(from)
	l.Stop(from.Add(10 * time.Second))
	deliver := func(lane uint16, index uint32, after time.Duration, id uint64) {
		l.Delivered(eventmeter.Delivery{Sub: eventmeter.Sub{Lane: lane, Index: index}, At: from.Add(after), EventID: id})
	}
	deliver(0, 0, -1, 7)             // before
	deliver(0, 0, 0, 7)              // its copy
	deliver(0, 0, 1, 8)              //
	deliver(0, 0, 2, 9)              // and 7 is forgotten
	deliver(0, 0, 3, 7)              // so this is none
	deliver(0, 0, 4, 0)              // names no id
	deliver(0, 1, 5, 7)              // another subscription
	deliver(0, 1, 6, 7)              // its copy
	deliver(0, 1, 10*time.Second, 1) // after
	deliver(0, 3, 0, 1)              // no such subscription
	deliver(2, 0, 0, 1)              // no such lane
	see := func(after time.Duration, stamp string) {
		l.Observed(eventmeter.Observation{At: from.Add(after), Timestamp: []byte(stamp)})
	}
	see(-1, "2026-01-02T03:04:05Z")                                  // before
	see(0, "2026-01-02T03:04:05Z")                                   // a second old
	see(time.Second, "2026-01-02T04:04:06.5+01:00")                  // half a second
	see(0, "2026-01-02T03:04:07Z")                                   // from the future
	see(0, "")                                                       // none
	see(0, "yesterday")                                              // unreadable
	see(10*time.Second, "2026-01-02T03:04:05Z")                      // after
	l.Observed(eventmeter.Observation{Sub: eventmeter.Sub{Lane: 2}}) // no such lane
	got := l.Lane(0)
	age := got.Age
	got.Age = ledger.Timing{}
	if want := (Observed{Events: 7, Copies: 2, WithoutID: 1, Least: 0, Most: 4, Ahead: 1, WithoutTime: 2}); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if age.Histogram.TotalCount() != 3 || age.Below != 1 || age.Above != 0 || !near(age.Histogram.Max(), 1e9) ||
		!near(age.Histogram.ValueAtQuantile(50), 5e8) {
		t.Errorf(
			"age %d, %d below, p50 %d, max %d",
			age.Histogram.TotalCount(),
			age.Below,
			age.Histogram.ValueAtQuantile(50),
			age.Histogram.Max(),
		)
	}
	if other := l.Lane(1); other.Events != 0 || other.Age.Histogram.TotalCount() != 0 {
		t.Errorf("%+v", other)
	}
	if _, err := NewObserver(ObserverOptions{Clock: clock}); err == nil {
		t.Error("no lanes")
	}
}

func near(got, want int64) bool { return got > want-want/500 && got < want+want/500 }

// The table of ids does what a map and a queue do.
func TestIDTable(t *testing.T) {
	for _, most := range []int{1, 2, 7, 64} {
		table := idTable{most: most}
		known, queue := map[uint64]bool{}, []uint64{}
		r := rand.New(rand.NewPCG(1, uint64(most)))
		for step := range 20_000 {
			id := 1 + r.Uint64N(uint64(2*most)+1)
			if step%3 == 0 {
				id <<= 40 // many with the same low bits
			}
			want := known[id]
			if !want {
				if len(queue) == most {
					delete(known, queue[0])
					queue = queue[1:]
				}
				known[id] = true
				queue = append(queue, id)
			}
			if got := table.add(id); got != want {
				t.Fatalf("most %d, step %d, id %x: %v, want %v", most, step, id, got, want)
			}
		}
	}
}

func BenchmarkObserver(b *testing.B) {
	l, err := NewObserver(ObserverOptions{Clock: eventmeter.NewClock(), Lanes: []int{1}})
	must(b, err)
	l.Start(1)
	stamp := []byte("2026-01-02T03:04:05.123Z")
	b.ReportAllocs()
	for i := uint64(1); b.Loop(); i++ {
		l.Delivered(eventmeter.Delivery{At: 2, EventID: i * 0x9e3779b97f4a7c15})
		l.Observed(eventmeter.Observation{At: 2, Timestamp: stamp})
	}
}
