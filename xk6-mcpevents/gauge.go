package mcpevents

import (
	"sync"
	"sync/atomic"

	"go.k6.io/k6/v2/metrics"
)

// gauge is a number that rises and falls faster than samples are sent, and
// whose highest value is of interest. It is safe for concurrent use.
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

// send sends the number, and before it the highest since it was last sent.
func (g *gauge) send(o *origin, to *metrics.Metric) {
	g.sending.Lock()
	defer g.sending.Unlock()
	b := o.batch()
	now := g.now.Load()
	// A rise since then is in most now or in the next sample's.
	if most := g.most.Swap(now); most > now {
		b.add(to, b.at, float64(most))
	}
	b.add(to, b.at, float64(now))
	o.hub.life.send(o.state, b.containers())
}
