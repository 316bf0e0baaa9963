package selfbench

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// runMicro is the role that measures single operations.
func runMicro(ctx context.Context, s spec, l *link) error {
	testing.Init()
	if err := flag.Set("test.benchtime", s.Paced.String()); err != nil {
		return err
	}
	var m micro
	per := func(f func(*testing.B)) (float64, int64) {
		r := testing.Benchmark(f)
		return float64(r.T.Nanoseconds()) / float64(max(r.N, 1)), r.AllocsPerOp()
	}
	m.Record, m.RecordAllocs = per(func(b *testing.B) {
		b.ReportAllocs()
		var v ledger.Values
		d := time.Duration(0)
		for b.Loop() {
			d = (d + 7919) % (100 * time.Millisecond)
			v.Add(d)
		}
	})
	m.Delivered, m.DeliveredAllocs = per(benchmarkDelivered)
	frame := []byte(
		`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e-12345","name":"tick","timestamp":"2026-01-01T00:00:00.000Z","cursor":null,"data":{"note":"` +
			eventmeter.Stamp{
				Run: runID,
				Seq: 77,
			}.String() + `","sent":"1767225600000000000"}}}`,
	)
	m.FindStamp, _ = per(func(b *testing.B) {
		for b.Loop() {
			if _, ok := eventmeter.FindStamp(frame); !ok {
				b.Fatal("no stamp was found")
			}
		}
	})
	return l.send(message{Step: "done", Micro: &m})
}

// benchmarkDelivered delivers in order to a thousand subscriptions.
func benchmarkDelivered(b *testing.B) {
	const subs, emissions = 1000, 1000
	b.ReportAllocs()
	var book *ledger.Ledger
	var d eventmeter.Delivery
	fresh := func() {
		var err error
		book, err = ledger.New(
			ledger.Options{Run: runID, Sources: 1, Lanes: []ledger.LaneSpec{{Name: "push", Mode: eventmeter.Push, Subscriptions: subs}}},
		)
		if err != nil {
			b.Fatal(err)
		}
		for i := range uint32(subs) {
			sub := eventmeter.Sub{Index: i}
			book.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: 1})
			book.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: 2})
		}
		for seq := range uint32(emissions) {
			at := eventmeter.Instant(time.Millisecond) + eventmeter.Instant(seq)*1000
			stamp := eventmeter.Stamp{Run: runID, Seq: seq + 1}
			book.Fired(eventmeter.Emission{Stamp: stamp, Intended: at, Fired: at, Measured: true})
			book.Resolved(stamp, eventmeter.Accepted, at)
		}
		d = eventmeter.Delivery{
			Stamp:   eventmeter.Stamp{Run: runID, Seq: 1},
			Probed:  true,
			EventID: 1,
			At:      eventmeter.Instant(50 * time.Millisecond),
			Bytes:   frameSize,
		}
	}
	fresh()
	for b.Loop() {
		book.Delivered(d)
		if d.Sub.Index++; d.Sub.Index == subs {
			d.Sub.Index = 0
			if d.Stamp.Seq++; d.Stamp.Seq > emissions {
				b.StopTimer()
				fresh()
				b.StartTimer()
			}
		}
	}
}
