package ledger

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
)

func BenchmarkDelivered(b *testing.B) {
	const subs, emissions = 1000, 2000
	l := attached(b, subs)
	for seq := uint32(1); seq <= emissions; seq++ {
		shoot(l, seq)
	}
	d := eventmeter.Delivery{Stamp: eventmeter.Stamp{Run: testRun, Seq: 1}, Probed: true, EventID: 1, At: ms(50)}
	b.Run("in order", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Delivered(d)
			if d.Sub.Index++; d.Sub.Index == subs {
				d.Sub.Index = 0
				if d.Stamp.Seq++; d.Stamp.Seq > emissions {
					// A new window for everybody, so that nothing is a duplicate.
					b.StopTimer()
					l, d.Stamp.Seq = attached(b, subs), 1
					for seq := uint32(1); seq <= emissions; seq++ {
						shoot(l, seq)
					}
					b.StartTimer()
				}
			}
		}
	})
	b.Run("duplicates", func(b *testing.B) {
		d.Stamp.Seq = 1
		b.ReportAllocs()
		for b.Loop() {
			l.Delivered(d)
			d.Sub.Index = (d.Sub.Index + 1) % subs
		}
	})
	b.Run("before resolved", func(b *testing.B) {
		b.ReportAllocs()
		seq := uint32(emissions)
		d.Sub.Index = 0
		for b.Loop() {
			if d.Sub.Index == 0 {
				seq++
				d.Stamp.Seq = seq
				l.Fired(eventmeter.Emission{Stamp: d.Stamp, Intended: ms(49), Fired: ms(49), Measured: true})
			}
			l.Delivered(d)
			if d.Sub.Index++; d.Sub.Index == subs {
				d.Sub.Index = 0
				l.Resolved(d.Stamp, eventmeter.Accepted, ms(51))
			}
		}
	})
}

// BenchmarkRecord compares the ledger's tally with the histogram it becomes.
func BenchmarkRecord(b *testing.B) {
	b.Run("tally", func(b *testing.B) {
		b.ReportAllocs()
		var t timing
		d := time.Duration(0)
		for b.Loop() {
			d = (d + 7919) % (100 * time.Millisecond)
			t.add(d)
		}
	})
	b.Run("hdr", func(b *testing.B) {
		b.ReportAllocs()
		h := hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
		d := time.Duration(0)
		for b.Loop() {
			d = (d + 7919) % (100 * time.Millisecond)
			record(h.RecordValue(int64(d)))
		}
	})
}

func BenchmarkAccount(b *testing.B) {
	l := attached(b, 10_000)
	for seq := uint32(1); seq <= 5000; seq++ {
		shoot(l, seq)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Account()
	}
}

func BenchmarkLive(b *testing.B) {
	l := attached(b, 10_000)
	for seq := uint32(1); seq <= 5000; seq++ {
		shoot(l, seq)
	}
	b.Run("live", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Live()
		}
	})
	b.Run("outstanding", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Outstanding()
		}
	})
}
