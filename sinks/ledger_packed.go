package sinks

import (
	"encoding/binary"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// packed holds the buckets of a tally that are not empty, in rising order: for
// each the distance from the bucket before, in units, and the count, as
// varints. That is 2 to 3 bytes a bucket, where a PackedHistogram takes 5 to
// 12, and the recorded intervals are what grows in a long run.
type packed []byte

// each calls f with the lowest value and the count of every bucket, in rising
// order.
func (p packed) each(f func(value, count int64)) {
	var unit uint64
	for len(p) > 0 {
		step, n := binary.Uvarint(p)
		count, m := binary.Uvarint(p[n:])
		p = p[n+m:]
		unit += step
		f(int64(unit)<<unitBits, int64(count))
	}
}

// plus returns p and t together, in new memory.
func (p packed) plus(t *tally) packed {
	if t.n == 0 {
		return p
	}
	// The old buckets in their order, next to the tally's.
	var values, counts []int64
	p.each(func(v, n int64) { values, counts = append(values, v), append(counts, n) })
	out := make(packed, 0, len(p)+64)
	var last int64
	put := func(v, n int64) {
		out = binary.AppendUvarint(out, uint64(v-last)>>unitBits)
		out = binary.AppendUvarint(out, uint64(n))
		last = v
	}
	i := 0
	t.each(func(v, n int64) {
		for ; i < len(values) && values[i] < v; i++ {
			put(values[i], counts[i])
		}
		if i < len(values) && values[i] == v {
			n += counts[i]
			i++
		}
		put(v, n)
	})
	for ; i < len(values); i++ {
		put(values[i], counts[i])
	}
	return append(make(packed, 0, len(out)), out...)
}

// histogram returns p as a histogram, nil when it is empty.
func (p packed) histogram() *hdrhistogram.PackedHistogram {
	if len(p) == 0 {
		return nil
	}
	h := hdrhistogram.NewPacked(lowestNanos, highestNanos, histogramSigs)
	p.each(func(v, n int64) { record(h.RecordValues(v, n)) })
	return h
}
