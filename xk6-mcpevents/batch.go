package mcpevents

import (
	"sync"
	"sync/atomic"
	"time"

	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// gauge is a number that changes faster than samples are sent, and whose highest
// value matters. It is safe for concurrent use.
type gauge struct {
	now  atomic.Int64
	most atomic.Int64 // since the last sample; may be less than now

	sending sync.Mutex // so that samples leave in the order of their values
}

// add changes the number.
func (g *gauge) add(n int64) {
	now := g.now.Add(n)
	for {
		most := g.most.Load()
		if now <= most || g.most.CompareAndSwap(most, now) {
			return
		}
	}
}

// send sends the highest value since the last call, and then the current value.
func (g *gauge) send(o *origin, to *metrics.Metric) {
	g.sending.Lock()
	defer g.sending.Unlock()
	b := o.batch()
	now := g.now.Load()
	// A rise since then is in most now or in the next sample's.
	if most := g.most.Swap(now); most > now {
		b.add(to, float64(most))
	}
	b.add(to, float64(now))
	o.send(b)
}

// batch collects samples that leave together. They get their time when they leave.
type batch struct {
	tags   *metrics.TagSet
	meta   map[string]string
	single metrics.Samples
	full   []metrics.Samples
}

func (b *batch) sample(m *metrics.Metric, value float64) metrics.Sample {
	return metrics.Sample{TimeSeries: metrics.TimeSeries{Metric: m, Tags: b.tags}, Value: value, Metadata: b.meta}
}

// add puts a sample into the batch.
func (b *batch) add(m *metrics.Metric, value float64) {
	b.single = append(b.single, b.sample(m, value))
	if len(b.single) == chunk {
		b.full, b.single = append(b.full, b.single), nil
	}
}

// count adds to a counter. A zero is a sample, too: k6 does not judge a threshold
// on a counter without samples.
func (b *batch) count(m *metrics.Metric, n int64) { b.add(m, float64(n)) }

// rate adds n equal observations to a rate. k6 needs a sample for each. All are
// equal, so one piece of them is made and sent repeatedly: memory does not depend
// on n.
func (b *batch) rate(m *metrics.Metric, value float64, n int64) {
	if n <= 0 {
		return
	}
	piece := make(metrics.Samples, min(n, chunk))
	for i := range piece {
		piece[i] = b.sample(m, value)
	}
	for ; n >= int64(len(piece)); n -= int64(len(piece)) {
		b.full = append(b.full, piece)
	}
	if n > 0 {
		b.full = append(b.full, piece[:n])
	}
}

// pieces returns the samples. A piece may be in it more than once.
func (b *batch) pieces() []metrics.Samples {
	if len(b.single) > 0 {
		b.full, b.single = append(b.full, b.single), nil
	}
	return b.full
}

// origin is the source of samples: a VU with the tags that it had.
type origin struct {
	life  *lifetime
	state *lib.State // of the VU
	tags  *metrics.TagSet
	meta  map[string]string
}

// batch begins a batch.
func (o *origin) batch() *batch { return &batch{tags: o.tags, meta: o.meta} }

// send passes a batch on to k6.
func (o *origin) send(b *batch) { o.life.send(o.state, b.pieces()) }

const (
	// flushEvery is how often measurements are sent to k6.
	flushEvery = time.Second
	// chunk is how many samples go in one piece.
	chunk = 1024
)
