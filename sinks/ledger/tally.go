package ledger

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of every histogram of this package, in nanoseconds.
const (
	lowestNanos   = int64(time.Microsecond)
	highestNanos  = int64(10 * time.Minute)
	histogramSigs = 3
)

const (
	// pageBuckets is half of the 2048 sub-buckets that three significant
	// digits take. A page then holds one power of two.
	pageBuckets = 1024
	pageBits    = 10
	// unitBits: an HdrHistogram that need not tell values under a microsecond
	// apart counts in units of the power of two below it, 512 ns.
	unitBits = 9
	// tallyPages cover highestNanos in units, which has 31 bits.
	tallyPages = 22
)

// tally counts values in the very buckets of an HdrHistogram of this package's
// range, so that turning it into one loses nothing. A dense HdrHistogram takes
// 170 KiB; a tally allocates only the powers of two that were met, 4 KiB each,
// and keeps them when it is cleared, so that closing an interval allocates
// nothing.
//
// It is not safe for concurrent use.
type tally struct {
	pages [tallyPages]*tallyPage
	n     int64
	// met has a bit for each page that anything was counted in since the tally
	// was empty. The others need not be looked at: an interval meets three or
	// four pages of those that were met in the whole run.
	met uint32
	// laps is how often a bucket has counted to 2^32 and begun anew, by its
	// index; hardly any ever does.
	laps map[int]int64
}

type tallyPage [pageBuckets]uint32

// add counts v nanoseconds, which must be from 0 to highestNanos.
func (t *tally) add(v int64) {
	v >>= unitBits
	shift := bits.Len64(uint64(v)|(2*pageBuckets-1)) - pageBits - 1
	index := (shift+1)<<pageBits + int(v>>uint(shift)) - pageBuckets
	page := uint(index) >> pageBits
	if t.met&(1<<page) == 0 {
		t.meet(page)
	}
	c := &t.pages[page][index&(pageBuckets-1)]
	if *c++; *c == 0 {
		t.lap(index, 1)
	}
	t.n++
}

// meet has page ready to be counted in.
func (t *tally) meet(page uint) {
	if t.pages[page] == nil {
		t.pages[page] = new(tallyPage)
	}
	t.met |= 1 << page
}

func (t *tally) lap(index int, n int64) {
	if t.laps == nil {
		t.laps = make(map[int]int64)
	}
	t.laps[index] += n
}

// count returns what bucket i of a page, which holds c, has counted.
func (t *tally) count(page, i int, c uint32) int64 {
	if t.laps == nil {
		return int64(c)
	}
	return int64(c) + t.laps[page<<pageBits+i]<<32
}

// each calls f with the lowest value and the count of every bucket that is not
// empty, in rising order.
func (t *tally) each(f func(value, count int64)) {
	for met := t.met; met != 0; met &= met - 1 {
		page := bits.TrailingZeros32(met)
		for i, c := range t.pages[page] {
			n := t.count(page, i, c)
			if n == 0 {
				continue
			}
			v := int64(i)
			if page > 0 {
				v = int64(i+pageBuckets) << uint(page-1)
			}
			f(v<<unitBits, n)
		}
	}
}

// merge adds all of u to t.
func (t *tally) merge(u *tally) {
	if u.n == 0 {
		return
	}
	for met := u.met; met != 0; met &= met - 1 {
		page := bits.TrailingZeros32(met)
		t.meet(uint(page))
		q := t.pages[page]
		for i, c := range u.pages[page] {
			if q[i] += c; q[i] < c {
				t.lap(page<<pageBits+i, 1)
			}
		}
	}
	for index, n := range u.laps {
		t.lap(index, n)
	}
	t.n += u.n
}

// clear empties t and keeps its memory.
func (t *tally) clear() {
	if t.n == 0 {
		return
	}
	for met := t.met; met != 0; met &= met - 1 {
		clear(t.pages[bits.TrailingZeros32(met)][:])
	}
	t.n, t.met, t.laps = 0, 0, nil
}

// quantile returns the highest value equivalent to the one at rank q of n.
func (t *tally) quantile(q float64) time.Duration {
	rank := max(int64(q*float64(t.n)+0.5), 1)
	var seen int64
	for met := t.met; met != 0; met &= met - 1 {
		page := bits.TrailingZeros32(met)
		for i, c := range t.pages[page] {
			if seen += t.count(page, i, c); seen < rank {
				continue
			}
			v := int64(i + 1)
			if page > 0 {
				v = int64(i+pageBuckets+1) << uint(page-1)
			}
			return time.Duration(v<<unitBits - 1)
		}
	}
	return 0
}

// quantiles summarises t for a display.
func (t *tally) quantiles() Quantiles {
	if t.n == 0 {
		return Quantiles{}
	}
	return Quantiles{Count: t.n, P50: t.quantile(0.5), P90: t.quantile(0.9), P99: t.quantile(0.99), Max: t.quantile(1)}
}

// histogram returns t as an HdrHistogram.
func (t *tally) histogram() *hdrhistogram.Histogram {
	h := hdrhistogram.New(lowestNanos, highestNanos, histogramSigs)
	t.each(func(v, n int64) { record(h.RecordValues(v, n)) })
	return h
}

// record takes the error of a histogram that was given a value of its own
// range, which cannot happen: a sample left out would falsify a result.
func record(err error) {
	if err != nil {
		panic("ledger: a value within range was refused: " + err.Error())
	}
}

// timing is a tally of durations with the count of those out of range.
type timing struct {
	tally
	below, above int64
}

// add counts d.
func (t *timing) add(d time.Duration) {
	v := int64(d)
	switch {
	case v < lowestNanos:
		v = lowestNanos
		t.below++
	case v > highestNanos:
		v = highestNanos
		t.above++
	}
	t.tally.add(v)
}

func (t *timing) merge(u *timing) {
	t.tally.merge(&u.tally)
	t.below += u.below
	t.above += u.above
}

func (t *timing) clear() {
	t.tally.clear()
	t.below, t.above = 0, 0
}

// export returns t for an account.
func (t *timing) export() Timing {
	return Timing{Histogram: t.histogram(), Below: t.below, Above: t.above}
}

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

// scratch are timings for sums that are made while a lock is held that deliveries or
// publishing wait for. They have all their pages, because a goroutine that allocates
// may have to help the garbage collector first.
var scratch = sync.Pool{New: func() any {
	t := &timing{}
	all := new([tallyPages]tallyPage)
	for i := range all {
		t.pages[i] = &all[i]
	}
	return t
}}

// borrowed is an empty timing that must be given back.
func borrowed() *timing { return scratch.Get().(*timing) }

// giveBack empties t, which is void from then on.
func (t *timing) giveBack() {
	t.clear()
	scratch.Put(t)
}

// Values collects durations as a [Ledger] does: in the buckets of the
// histogram that they become, without a lock and, once a power of two has been
// met, without an allocation. The zero value is empty. It must not be used by
// two goroutines at once.
type Values struct{ t timing }

// Add counts d. What is out of the range of [Timing] counts at its bound.
func (v *Values) Add(d time.Duration) { v.t.add(d) }

// Merge adds all of u, which stays as it is.
func (v *Values) Merge(u *Values) { v.t.merge(&u.t) }

// Timing returns what was collected so far.
func (v *Values) Timing() Timing { return v.t.export() }

// Distribution returns the buckets of what was collected so far.
func (v *Values) Distribution() Distribution { return v.t.distribution() }

// Distribution is a histogram with its buckets in a row: those of an
// HdrHistogram of three significant digits which are not empty, in rising
// order.
type Distribution struct {
	Buckets []Bucket
	Count   int64
	// Below and Above are the counts of values out of range, which are in the
	// first and the last possible bucket.
	Below, Above int64
}

// Bucket counts values from Low to High, both included.
type Bucket struct {
	Low, High time.Duration
	Count     int64
}

// distribution returns t's buckets.
func (t *timing) distribution() Distribution {
	out := Distribution{Count: t.n, Below: t.below, Above: t.above}
	if t.n == 0 {
		return out
	}
	filled := 0
	t.each(func(_, _ int64) { filled++ })
	out.Buckets = make([]Bucket, 0, filled)
	t.each(func(low, count int64) {
		width := int64(1) << unitBits
		for v := low >> unitBits; v >= 2*pageBuckets; v >>= 1 {
			width <<= 1
		}
		out.Buckets = append(out.Buckets, Bucket{Low: time.Duration(low), High: time.Duration(low + width - 1), Count: count})
	})
	return out
}

// Distribution returns the buckets of a timing.
func (t Timing) Distribution() Distribution {
	out := Distribution{Below: t.Below, Above: t.Above}
	if t.Histogram == nil {
		return out
	}
	bars := t.Histogram.Distribution()
	for _, b := range bars {
		if b.Count == 0 {
			continue
		}
		out.Buckets = append(out.Buckets, Bucket{Low: time.Duration(b.From), High: time.Duration(b.To), Count: b.Count})
		out.Count += b.Count
	}
	return out
}

// Percentile returns the value at a percentile in milliseconds, as the histogram of
// the result gives it. percent is above 0. Without values it is 0.
func (d Distribution) Percentile(percent float64) float64 {
	rest := max(int64(percent/100*float64(d.Count)+0.5), 1)
	for _, b := range d.Buckets {
		if rest -= b.Count; rest <= 0 {
			return float64(b.High) / float64(time.Millisecond)
		}
	}
	return 0
}

// Plus returns both distributions together. It shares no memory with either
// that is written to later.
func (d Distribution) Plus(e Distribution) Distribution {
	out := Distribution{Count: d.Count + e.Count, Below: d.Below + e.Below, Above: d.Above + e.Above}
	a, b := d.Buckets, e.Buckets
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0].Low, b[0].Low) {
		case -1:
			out.Buckets, a = append(out.Buckets, a[0]), a[1:]
		case 1:
			out.Buckets, b = append(out.Buckets, b[0]), b[1:]
		default:
			both := a[0]
			both.High, both.Count = max(both.High, b[0].High), both.Count+b[0].Count
			out.Buckets, a, b = append(out.Buckets, both), a[1:], b[1:]
		}
	}
	out.Buckets = append(append(out.Buckets, a...), b...)
	return out
}

// AddFrom implements [figure.Adder].
func (d *Distribution) AddFrom(from any) { *d = d.Plus(*from.(*Distribution)) }
