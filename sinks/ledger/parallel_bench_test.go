package ledger

import (
	"sync/atomic"
	"testing"

	"github.com/eventmeter/eventmeter"
)

// BenchmarkDeliveredParallel is the path of the deliveries from all processors
// at once, each with subscriptions of its own, as pumps have them.
func BenchmarkDeliveredParallel(b *testing.B) {
	const subs, emissions = 1024, 4000
	var l *Ledger
	renew := func() {
		l = attached(b, subs)
		for seq := uint32(1); seq <= emissions; seq++ {
			shoot(l, seq)
		}
	}
	renew()
	var turn atomic.Uint32
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		const own = 128
		first := turn.Add(1) % (subs / own) * own
		d := eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: testRun, Seq: 1}, Probed: true, EventID: 1, At: ms(50)}
		i := uint32(0)
		for p.Next() {
			d.Sub.Index = first + i
			l.Delivered(d)
			if i++; i == own {
				i = 0
				d.Stamp.Seq = d.Stamp.Seq%emissions + 1
			}
		}
	})
}
