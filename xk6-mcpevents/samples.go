package mcpevents

import (
	"context"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

const (
	// flushEvery is how often what was measured is passed on to k6.
	flushEvery = time.Second
	// chunk is how many samples go in one piece.
	chunk = 1024
)

// batch collects samples that leave together.
type batch struct {
	at     time.Time
	tags   *metrics.TagSet
	meta   map[string]string
	single metrics.Samples
	full   []metrics.SampleContainer
}

// origin is whose samples are sent, and with what.
type origin struct {
	hub   *hub
	state *lib.State // of the VU
	tags  *metrics.TagSet
	meta  map[string]string
}

// batch begins a batch that is taken now.
func (o *origin) batch() *batch { return &batch{at: time.Now(), tags: o.tags, meta: o.meta} }

// origin is the VU as it is tagged now; it must be called on the event loop.
func (m *instance) origin() *origin {
	state := m.vu.State()
	now := state.Tags.GetCurrentValues()
	return &origin{m.hub, state, now.Tags, now.Metadata}
}

func (b *batch) sample(m *metrics.Metric, at time.Time, value float64) metrics.Sample {
	return metrics.Sample{TimeSeries: metrics.TimeSeries{Metric: m, Tags: b.tags}, Time: at, Value: value, Metadata: b.meta}
}

// add puts a sample into the batch, taken at the given time.
func (b *batch) add(m *metrics.Metric, at time.Time, value float64) {
	b.single = append(b.single, b.sample(m, at, value))
	if len(b.single) == chunk {
		b.full, b.single = append(b.full, b.single), nil
	}
}

// count adds to a counter. A zero is a sample, too: a threshold on a counter
// that nobody ever touched is one on nothing.
func (b *batch) count(m *metrics.Metric, n int64) { b.add(m, b.at, float64(n)) }

// rate adds n equal observations to a rate. k6 wants a sample for each; they
// are the same one again, so a piece of them is made once and sent as often as
// it takes: memory does not depend on n, and nothing is left out.
func (b *batch) rate(m *metrics.Metric, value float64, n int64) {
	if n <= 0 {
		return
	}
	piece := make(metrics.Samples, min(n, chunk))
	for i := range piece {
		piece[i] = b.sample(m, b.at, value)
	}
	whole := metrics.SampleContainer(piece)
	for ; n >= int64(len(piece)); n -= int64(len(piece)) {
		b.full = append(b.full, whole)
	}
	if n > 0 {
		b.full = append(b.full, piece[:n])
	}
}

// containers are what is sent.
func (b *batch) containers() []metrics.SampleContainer {
	if len(b.single) > 0 {
		b.full, b.single = append(b.full, b.single), nil
	}
	return b.full
}

// pump passes on what was measured, now and then, until the group is ended: so
// thresholds see it while it happens, and it does not heap up.
func (g *group) pump() {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			g.flush(false)
		case <-g.done:
			return
		}
	}
}

// flush turns what is new into samples. What was expected and lost is only
// known at the end, which is flushed once; after it nothing is.
//
// What was measured in an iteration that was broken off counts, too. The
// group's gate, or the hub, holds k6 until it is sent.
func (g *group) flush(last bool) {
	g.pushing.Lock()
	defer g.pushing.Unlock()
	if g.over {
		return
	}
	g.over = last
	now := g.account()
	met, was := g.metrics, g.pushed
	b := g.batch()
	g.times(b, last)
	// A count may fall for a moment, when a delivery turns out to be owed to
	// nobody, and rises again; sums are right all the same, but a counter that
	// falls would puzzle.
	var rise [len(counts)]int64
	for i, c := range counts {
		if c.atEnd && !last {
			continue
		}
		rise[i] = max(c.of(&now)-was[i], 0)
		was[i] += rise[i]
		b.count(met.counts[i], rise[i])
	}
	b.rate(met.duplicates, 0, rise[delivered])
	b.rate(met.duplicates, 1, rise[copies])
	for _, m := range g.meters {
		m.sample(b, &g.origin)
	}
	if last {
		g.messageCounts(b)
		g.sum = now
	}
	g.pushed = was
	g.hub.life.send(g.state, b.containers())
	g.open.send(&g.origin, met.open)
}

// messageCounts adds the counts of requests that can be resumed. Nothing was
// to be expected of requests that could not be opened.
func (g *group) messageCounts(b *batch) {
	if g.book.system != "sep-975" || g.unopened {
		return
	}
	v := g.own.Values
	b.add(g.metrics.messagesExpected, b.at, v["messagesExpected"])
	b.add(g.metrics.messagesDelivered, b.at, v["messagesDelivered"])
	b.add(g.metrics.messagesLost, b.at, v["messagesLost"])
	b.add(g.metrics.messagesRepeated, b.at, v["messagesRepeated"])
}

// times adds the latencies and times to ready that are known.
func (g *group) times(b *batch, last bool) {
	g.mu.Lock()
	list, ready := g.arrivals, g.ready
	g.arrivals, g.ready = nil, nil
	g.mu.Unlock()
	var keep []arrival
	clock := g.hub.clock
	for _, a := range list {
		if a.member != nil {
			known, owed := g.judge(&a)
			if !known && !last {
				keep = append(keep, a)
			}
			if !owed {
				continue
			}
		}
		b.add(g.metrics.latency, clock.Time(a.at), metrics.D(a.took))
	}
	for _, a := range ready {
		b.add(g.metrics.ready, clock.Time(a.at), metrics.D(a.took))
	}
	if keep != nil {
		g.mu.Lock()
		g.arrivals = append(keep, g.arrivals...)
		g.mu.Unlock()
	}
}

// judge tells whether a delivery that was undecided when it came is decided by
// now, and whether it was owed.
func (g *group) judge(a *arrival) (known, owed bool) {
	e, outcome, ok := g.book.ledger.Emission(a.stamp)
	if !ok || outcome == eventmeter.Pending {
		return false, false
	}
	return true, outcome == eventmeter.Accepted && e.Fired > eventmeter.Instant(a.member.began.Load())
}

// listed sends the time of one call of a list, with the tags that the VU had when
// it was made.
func (c *client) listed(name, method string, state *lib.State, now metrics.TagsAndMeta, took time.Duration) {
	k := kind{system: "mcp", mode: "list", event: method, lane: "list"}
	switch name {
	case "events":
		k.system = "events"
	case "triggers":
		k.system = "smithery"
	}
	o := &origin{c.m.hub, state, k.tags(now.Tags), now.Metadata}
	b := o.batch()
	b.add(c.m.metrics.list, b.at, metrics.D(took))
	c.passed.sample(b, o)
	o.hub.life.send(state, b.containers())
}

// fetch fetches a list, sends how long that took, and returns what scripts get.
func (c *client) fetch(ctx context.Context, ep *driver.Endpoint, name string, state *lib.State, now metrics.TagsAndMeta) (map[string]any, error) {
	l, err := ep.List(ctx, name)
	if err != nil {
		return nil, err
	}
	entries := make([]any, len(l.Entries))
	for i, raw := range l.Entries {
		if entries[i], err = plain(raw); err != nil {
			return nil, fmt.Errorf("%s: entry %d: %w", l.Method, i, err)
		}
	}
	out := map[string]any{
		"method": l.Method, "entries": entries, "pages": l.Pages, "duration": metrics.D(l.Took), "bytes": l.Up + l.Down,
		"ttl": nil, "cacheScope": l.Scope,
	}
	if l.HasTTL {
		out["ttl"] = metrics.D(l.TTL)
	}
	c.listed(name, l.Method, state, now, l.Took)
	return out, nil
}
