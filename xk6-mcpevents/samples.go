package mcpevents

import (
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"go.k6.io/k6/v2/metrics"
)

// pump sends new measurements to k6 at intervals until the group is ended, so that
// thresholds see them during the test and memory stays bounded.
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

// flush turns new measurements into samples. Expected and lost events are known only
// at the end, so they are in the last flush, after which nothing is flushed.
//
// The measurements of an interrupted iteration count, too. The group's wakeup, or the
// hub, holds k6 until they are sent.
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
	// A count may fall for a moment, when a delivery turns out not to be owed,
	// and then rise again. The sums are correct, but k6's counters must not fall.
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
		g.conformance(b, now.Duplicates.SameEmission)
		g.sum = now
	}
	g.pushed = was
	g.send(b)
	g.open.send(&g.origin, met.open)
}

// messageCounts adds the counts of requests that can be resumed. Nothing is
// expected of requests that could not be opened.
func (g *group) messageCounts(b *batch) {
	if !subscribesToNothing(g.book.system) || g.unopened {
		return
	}
	v := g.own.Values
	b.add(g.metrics.messagesExpected, v["messagesExpected"])
	b.add(g.metrics.messagesDelivered, v["messagesDelivered"])
	b.add(g.metrics.messagesLost, v["messagesLost"])
	b.add(g.metrics.messagesRepeated, v["messagesRepeated"])
}

// conformance adds what was seen of each row of conformance, and how often it was
// broken, 0 included. copies is the ledger's part of it.
func (g *group) conformance(b *batch, copies int64) {
	rows := g.own.Conform.Of(g.book.lane, copies)
	tags := b.tags
	for i := range conform.Rows {
		row := &conform.Rows[i]
		c, seen := rows[row.Name]
		if !seen {
			continue
		}
		b.tags = tags.With("level", string(row.Level)).With("row", row.Name)
		b.count(g.metrics.rowsSeen, c.Seen)
		b.count(g.metrics.rowsBroken, c.Broken)
	}
	b.tags = tags
}

// times adds the latencies and times to ready that are known.
func (g *group) times(b *batch, last bool) {
	g.mu.Lock()
	list, ready := g.arrivals, g.ready
	g.arrivals, g.ready = nil, nil
	g.mu.Unlock()
	var keep []arrival
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
		b.add(g.metrics.latency, metrics.D(a.took))
	}
	for _, took := range ready {
		b.add(g.metrics.ready, metrics.D(took))
	}
	if keep != nil {
		g.mu.Lock()
		g.arrivals = append(keep, g.arrivals...)
		g.mu.Unlock()
	}
}

// judge reports whether a delivery that was undecided when it arrived is decided
// now, and whether it was owed.
func (g *group) judge(a *arrival) (known, owed bool) {
	e, outcome, ok := g.book.ledger.Emission(a.stamp)
	if !ok || outcome == eventmeter.Pending {
		return false, false
	}
	return true, outcome == eventmeter.Accepted && e.Fired > eventmeter.Instant(a.member.began.Load())
}
