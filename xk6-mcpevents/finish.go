package mcpevents

import (
	"context"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/sinks"
	"go.k6.io/k6/v2/metrics"
)

const (
	// closeTimeout bounds the ending of a group's subscriptions, and after
	// that the wait for shots which are not answered yet.
	closeTimeout = 10 * time.Second
	// patience is the least and the most wait between two looks at the books.
	patienceLeast, patienceMost = 5 * time.Millisecond, 200 * time.Millisecond
)

// totals are the figures of a group, or of a group up to some moment.
type totals struct {
	delivered, expected, lost, announced   int64
	copies, outOfOrder, unexpected         int64
	inFlight, excused, recovered, replayed int64
	unprobed, undecided                    int64
	refreshRequests, refreshBytes          int64
}

// add adds what a subscription has now and had not before.
func (t *totals) add(now, before *sinks.SubCounts) {
	t.delivered += now.Delivered - before.Delivered
	t.expected += now.Expected - before.Expected
	t.lost += now.LostSilent - before.LostSilent
	t.announced += now.LostAnnounced - before.LostAnnounced
	t.copies += now.Duplicates.Total() - before.Duplicates.Total()
	t.outOfOrder += now.OutOfOrder - before.OutOfOrder
	t.unexpected += now.Unexpected.Total() - before.Unexpected.Total()
	t.inFlight += now.InFlight - before.InFlight
	t.excused += now.Excused - before.Excused
	t.recovered += now.Recovered - before.Recovered
	t.replayed += now.Replayed - before.Replayed
	t.unprobed += now.Unprobed - before.Unprobed
	t.undecided += now.Undecided
}

// script is the form in which a script gets totals.
func (t *totals) script() map[string]any {
	return map[string]any{
		"expected": t.expected, "delivered": t.delivered, "lost": t.lost, "lostAnnounced": t.announced,
		"duplicates": t.copies, "outOfOrder": t.outOfOrder, "unexpected": t.unexpected,
		"inFlight": t.inFlight, "excused": t.excused, "recovered": t.recovered, "replayed": t.replayed, "unprobed": t.unprobed,
		"refreshRequests": t.refreshRequests, "refreshBytes": t.refreshBytes,
	}
}

// account adds up the group's subscriptions. While they are open, what has not
// come yet counts as lost.
func (g *group) account() totals {
	t := totals{refreshRequests: g.refreshRequests.Load(), refreshBytes: g.refreshBytes.Load()}
	for i := range g.members {
		s := &g.members[i]
		now := g.book.ledger.SubAccount(mcpload.Sub{Index: s.index})
		t.add(&now, &s.before)
	}
	return t
}

// settled waits until nothing is owed any more that was fired so far, or the
// time or ctx is over.
func (g *group) settled(ctx context.Context, limit time.Duration) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	for wait := patienceLeast; ; wait = min(2*wait, patienceMost) {
		if g.m.hub.pending.Load() == 0 {
			if t := g.account(); t.lost+t.announced+t.undecided == 0 {
				return true
			}
		}
		select {
		case <-time.After(wait):
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		case <-g.done:
			return true
		}
	}
}

// finish ends the group, once, and returns when it is ended and counted. What
// was fired before and is missing after settle is lost.
func (g *group) finish(ctx context.Context, settle time.Duration) {
	g.once.Do(func() {
		defer close(g.done)
		g.mu.Lock()
		stop := g.stop
		g.mu.Unlock()
		if stop != nil && stop() {
			defer g.m.hub.work.Done() // the watch that will never run
		}
		if settle > 0 {
			g.settled(ctx, settle)
		}
		// The subscriptions must be ended also when the iteration was broken off.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = g.dialect.Close(end) // a target that does not confirm the end has failed a call, and that is counted
		g.resolved(end)
		g.flush(true)
		g.drop()
		g.gate.close()
	})
	<-g.done
}

// resolved waits for the shots that are under way: until they are answered it
// is not known what was owed.
func (g *group) resolved(ctx context.Context) {
	for g.m.hub.pending.Load() > 0 && ctx.Err() == nil {
		select {
		case <-time.After(patienceLeast):
		case <-ctx.Done():
		}
	}
}

// flush turns what is new into samples. The caller holds a registered callback,
// directly or through the gate, so that k6 still takes samples. What was
// expected and lost is only known at the end.
func (g *group) flush(last bool) {
	g.pushing.Lock()
	defer g.pushing.Unlock()
	if g.over {
		return
	}
	g.over = last
	now := g.account()
	met, was := g.m.metrics, g.pushed
	b := &batch{at: time.Now(), tags: g.tags, meta: g.meta}
	g.times(b, last)
	b.count(met.delivered, now.delivered-was.delivered)
	b.count(met.copies, now.copies-was.copies)
	b.count(met.outOfOrder, now.outOfOrder-was.outOfOrder)
	b.count(met.unexpected, now.unexpected-was.unexpected)
	b.count(met.refreshRequests, now.refreshRequests-was.refreshRequests)
	b.count(met.refreshBytes, now.refreshBytes-was.refreshBytes)
	b.rate(met.duplicates, 0, now.delivered-was.delivered)
	b.rate(met.duplicates, 1, now.copies-was.copies)
	b.add(met.open, b.at, float64(g.open.Load()))
	if last {
		b.count(met.expected, now.expected)
		b.count(met.lost, now.lost)
		b.count(met.lostAnnounced, now.announced)
		g.sum = now
	}
	g.pushed = now
	// Without the iteration's end: what was measured in an iteration that was
	// broken off counts, and k6 waits for the callback that the caller holds.
	metrics.PushIfNotDone(context.WithoutCancel(g.m.vu.Context()), g.state.Samples, b.samples)
}

// times adds the latencies and times to ready that are known.
func (g *group) times(b *batch, last bool) {
	g.mu.Lock()
	list, ready := g.arrivals, g.ready
	g.arrivals, g.ready = nil, nil
	g.mu.Unlock()
	var keep []arrival
	clock := g.m.hub.clock
	for _, a := range list {
		if a.member != nil {
			known, counts := g.judge(&a)
			if !known && !last {
				keep = append(keep, a)
			}
			if !counts {
				continue
			}
		}
		if g.nth == 0 {
			b.add(g.m.metrics.latency, clock.Time(a.at), metrics.D(a.took))
		}
		g.nth = (g.nth + 1) % g.every
	}
	for _, a := range ready {
		b.add(g.m.metrics.ready, clock.Time(a.at), metrics.D(a.took))
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
	if !ok || outcome == mcpload.Pending {
		return false, false
	}
	return true, outcome == mcpload.Accepted && e.Fired > mcpload.Instant(a.member.began.Load())
}
