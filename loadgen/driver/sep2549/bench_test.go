package sep2549

import (
	"testing"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// BenchmarkListFigures is what a scrape asks of a lane of a thousand clients of
// which each has learned of a thousand changes from four sources.
func BenchmarkListFigures(b *testing.B) {
	const clients, changes, sources = 1000, 250, 4
	l, err := ledger.New(
		ledger.Options{
			Run:     7,
			Sources: sources,
			Lanes:   []ledger.LaneSpec{{Name: "a", System: "sep-2549", Mode: eventmeter.Poll, Subscriptions: clients}},
		},
	)
	if err != nil {
		b.Fatal(err)
	}
	d := &lane{}
	d.Caller, d.Opts = mcpclient.Caller{Clock: eventmeter.NewClock()}, driver.Options{Published: l}
	for seq := uint32(1); seq <= changes; seq++ {
		for source := range uint16(sources) {
			s := eventmeter.Stamp{Run: 7, Source: source, Seq: seq}
			at := eventmeter.Instant(seq) * eventmeter.Instant(time.Microsecond)
			l.Fired(eventmeter.Emission{Stamp: s, Intended: at, Fired: at, Measured: true})
			l.Resolved(s, eventmeter.Accepted, at+1)
			for range clients {
				d.tally.learn(l, learned{stamp: s, at: at + eventmeter.Instant(time.Millisecond)})
			}
		}
	}
	for range clients {
		known := map[uint64]uint32{}
		for source := range uint16(sources) {
			known[sourceKey(7, source)] = changes
		}
		d.Turns = append(d.Turns, &client{since: 1, known: known})
	}
	b.ReportAllocs()
	for b.Loop() {
		if owed := d.Figures().Values["changesOwed"]; owed == 0 {
			b.Fatal("nothing is owed")
		}
	}
}
