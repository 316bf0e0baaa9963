package ledger

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
)

// BenchmarkHour drives a ledger through an hour of virtual time at constant load
// with churn: 10,000 subscriptions, 10 events a second. It reports the live heap
// after 6, 30 and 60 minutes, which is what a ledger adds to a long run.
func BenchmarkHour(b *testing.B) {
	const (
		subs  = 10_000
		lanes = 3
	)
	for range b.N {
		opt := Options{Run: 1, Sources: 10, Interval: time.Second, Recorded: 30 * time.Second}
		for i := range lanes {
			opt.Lanes = append(opt.Lanes, LaneSpec{Name: fmt.Sprint(i), Mode: eventmeter.Push, Subscriptions: subs / lanes,
				Owed: func(i int) []uint16 { return []uint16{uint16(i % 10)} }})
		}
		l, err := New(opt)
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		set := func(lane, i int, s eventmeter.State, at eventmeter.Instant) {
			l.Changed(eventmeter.Transition{Sub: eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)}, To: s, At: at})
		}
		for lane := range lanes {
			for i := range subs / lanes {
				set(lane, i, eventmeter.Attaching, 1)
				set(lane, i, eventmeter.Active, 2)
			}
		}
		seq := make([]uint32, 10)
		for sec := 1; sec <= 3600; sec++ {
			base := eventmeter.Instant(sec) * eventmeter.Instant(time.Second)
			for k := range 10 {
				at := base + eventmeter.Instant(k)*eventmeter.Instant(90*time.Millisecond)
				seq[k]++
				st := eventmeter.Stamp{Run: 1, Source: uint16(k), Seq: seq[k]}
				l.Fired(eventmeter.Emission{Stamp: st, Intended: at, Fired: at + 1000, Measured: true})
				l.Resolved(st, eventmeter.Accepted, at+1_000_000)
				for lane := range lanes {
					for i := k; i < subs/lanes; i += 10 {
						lat := eventmeter.Instant((5 + rng.ExpFloat64()*10) * 1e6)
						l.Delivered(
							eventmeter.Delivery{
								Sub:     eventmeter.Sub{Lane: uint16(lane), Index: uint32(i)},
								Stamp:   st,
								Probed:  true,
								EventID: uint64(seq[k])<<8 | uint64(k),
								At:      at + lat,
								Bytes:   300,
							},
						)
					}
				}
			}
			for lane := range lanes {
				for range 10 {
					i := rng.IntN(subs / lanes)
					at := base + eventmeter.Instant(950*time.Millisecond)
					set(lane, i, eventmeter.Detaching, at)
					set(lane, i, eventmeter.Detached, at+1000)
					set(lane, i, eventmeter.Attaching, at+2000)
					set(lane, i, eventmeter.Active, at+3000)
				}
			}
			if sec == 360 || sec == 1800 || sec == 3600 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapAlloc)/(1<<20), fmt.Sprintf("MiB@%ds", sec))
			}
		}
		runtime.KeepAlive(l)
	}
}
