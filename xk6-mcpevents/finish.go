package mcpevents

import (
	"context"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

const (
	// closeTimeout bounds the ending of a group's subscriptions, and then the wait
	// for emissions without an answer.
	closeTimeout = 10 * time.Second
	// patience is the shortest and the longest wait between two checks of the books.
	patienceLeast, patienceMost = 5 * time.Millisecond, 200 * time.Millisecond
)

// totals are the figures of a group, or of a group up to some moment.
type totals struct {
	ledger.SubCounts
	refreshRequests, refreshBytes, failed int64
}

// add adds the growth of a subscription's figures from before to now.
func (t *totals) add(now, before *ledger.SubCounts) {
	figure.AddCounts(&t.SubCounts, now)
	figure.SubtractCounts(&t.SubCounts, before)
	t.Undecided += before.Undecided // an earlier undecided delivery may be decided now
}

// stats is totals for a script.
type stats struct {
	Expected          int64 `js:"expected" json:"expected"`
	Delivered         int64 `js:"delivered" json:"delivered"`
	Lost              int64 `js:"lost" json:"lost"`
	LostAnnounced     int64 `js:"lostAnnounced" json:"lostAnnounced"`
	LostOrderUnknown  int64 `js:"lostOrderUnknown" json:"lostOrderUnknown"`
	LostUndeliverable int64 `js:"lostUndeliverable" json:"lostUndeliverable"`
	LostRefused       int64 `js:"lostRefused" json:"lostRefused"`
	LostSuspended     int64 `js:"lostSuspended" json:"lostSuspended"`
	Duplicates        int64 `js:"duplicates" json:"duplicates"`
	OutOfOrder        int64 `js:"outOfOrder" json:"outOfOrder"`
	Unexpected        int64 `js:"unexpected" json:"unexpected"`
	InFlight          int64 `js:"inFlight" json:"inFlight"`
	Excused           int64 `js:"excused" json:"excused"`
	Recovered         int64 `js:"recovered" json:"recovered"`
	Replayed          int64 `js:"replayed" json:"replayed"`
	Unprobed          int64 `js:"unprobed" json:"unprobed"`
	Undecided         int64 `js:"undecided" json:"undecided"`
	RefreshRequests   int64 `js:"refreshRequests" json:"refreshRequests"`
	RefreshBytes      int64 `js:"refreshBytes" json:"refreshBytes"`
	Open              int   `js:"open" json:"open"`
	Unhandled         int64 `js:"unhandled" json:"unhandled"`
}

func (t *totals) stats() stats {
	return stats{
		Expected:          t.Expected,
		Delivered:         t.Delivered,
		Lost:              t.LostSilent,
		LostAnnounced:     t.LostAnnounced,
		Duplicates:        t.Duplicates.Total(),
		LostOrderUnknown:  t.LostOrderUnknown,
		LostUndeliverable: t.LostUndeliverable,
		LostRefused:       t.LostRefused,
		LostSuspended:     t.LostSuspended,
		OutOfOrder:        t.OutOfOrder,
		Unexpected:        t.Unexpected.Total(),
		InFlight:          t.InFlight,
		Excused:           t.Excused,
		Recovered:         t.Recovered,
		Replayed:          t.Replayed,
		Unprobed:          t.Unprobed,
		Undecided:         t.Undecided,
		RefreshRequests:   t.refreshRequests,
		RefreshBytes:      t.refreshBytes,
	}
}

// account adds up the group's subscriptions. While they are open, events that
// have not arrived yet count as lost.
func (g *group) account() totals {
	t := totals{refreshRequests: g.refreshRequests.Load(), refreshBytes: g.refreshBytes.Load(), failed: g.failed.Load()}
	g.book.ledger.EachSub(0, g.indexes, func(i int, now *ledger.SubCounts) { t.add(now, &g.members[i].before) })
	return t
}

// settled waits until every subscription has received, at some moment since the call,
// all that was owed to it then, or until the limit or ctx is over.
func (g *group) settled(ctx context.Context, limit time.Duration) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	answered := g.hub.emissions[g.book.topic].resolved()
	phased, _ := g.driver.(driver.Phased)
	behind := newBehind(g)
	for wait := patienceLeast; ; wait = min(2*wait, patienceMost) {
		if g.closed() { // its places in the book may be another group's by now
			return g.sum.Lost() == 0
		}
		if answered() && behind.update() == 0 && (phased == nil || phased.Pending() == 0) {
			return true
		}
		select {
		case <-time.After(wait):
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		case <-g.done:
		}
	}
}

// behind holds the subscriptions that have not received everything yet.
type behind struct {
	g       *group
	members []int
	indexes []uint32 // of those, in the book
}

func newBehind(g *group) *behind {
	b := &behind{g: g, members: make([]int, len(g.members)), indexes: append([]uint32(nil), g.indexes...)}
	for i := range b.members {
		b.members[i] = i
	}
	return b
}

// update removes the subscriptions that have received everything, and returns how
// many deliveries the others miss.
func (b *behind) update() (left int64) {
	missing := make([]bool, len(b.indexes))
	b.g.book.ledger.EachSub(0, b.indexes, func(i int, now *ledger.SubCounts) {
		var t totals
		t.add(now, &b.g.members[b.members[i]].before)
		missing[i] = t.Lost()+t.Undecided > 0
		left += t.Lost() + t.Undecided
	})
	n := 0
	for i, m := range missing {
		if m {
			b.members[n], b.indexes[n] = b.members[i], b.indexes[i]
			n++
		}
	}
	b.members, b.indexes = b.members[:n], b.indexes[:n]
	return left
}

// askedAgain waits until every poller with missing events has polled once more, and
// every stream that waits to be opened again has asked once more and gets what it missed.
// It waits at most [driver.Patience], and logs a warning if some have not asked. Events
// that nobody asked for are then excused.
func (g *group) askedAgain(ctx context.Context) {
	asker, ok := g.driver.(driver.Asker)
	if !ok {
		return
	}
	limit := time.NewTimer(driver.Patience)
	defer limit.Stop()
	since, missing := g.hub.clock.Now(), newBehind(g)
	for last := int64(0); ; {
		behind, open := asker.Behind(since)
		left := missing.update()
		if left == 0 || behind == 0 && left >= last {
			return
		}
		if left < last && g.book.mode != eventmeter.Poll { // a stream that is lost again may get more
			since = g.hub.clock.Now()
		}
		last = left
		select {
		case <-time.After(patienceMost):
		case <-limit.C:
			g.state.Logger.Warnf(
				"lane %s: %d of %d pollers or streams had not asked for events %v after settle (%v); what nobody asked for is "+
					"excused, not lost: raise settle above the wait between two polls, or before a stream is opened again",
				g.book.lane,
				behind,
				open,
				driver.Patience,
				g.book.settle,
			)
			return
		case <-ctx.Done():
			return
		}
	}
}

// settle waits for missing events and ends the group.
func (g *group) settle(ctx context.Context) { g.finish(ctx, g.book.settle) }

// finish ends the group, once, and returns when it is ended and counted. Events
// that were published before and are missing after settle are lost.
func (g *group) finish(ctx context.Context, settle time.Duration) {
	g.once.Do(func() {
		defer close(g.done)
		defer g.client.groups.end()
		g.mu.Lock()
		stop := g.stop
		g.mu.Unlock()
		if stop != nil && stop() {
			defer g.hub.life.work.end() // the watch that will never run
		}
		if d, ok := g.driver.(driver.Phased); ok {
			d.Drain()
		}
		if settle > 0 && !g.settled(ctx, settle) {
			g.askedAgain(ctx)
		}
		// The subscriptions must be ended also when the iteration was interrupted.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = g.driver.Close(end) // a target that does not confirm the end has failed a call, and that is counted
		g.stopListening()
		g.answered(end)
		if d, ok := g.driver.(driver.Figurer); ok {
			g.own = d.Figures()
		}
		g.flush(true)
		g.release()
		if g.wakeup != nil {
			g.wakeup.close()
		}
	})
	<-g.done
}

// answered waits for the emissions in flight, because only their answers decide
// whether they are owed.
func (g *group) answered(ctx context.Context) {
	for done := g.hub.emissions[g.book.topic].resolved(); !done() && ctx.Err() == nil; {
		select {
		case <-time.After(patienceLeast):
		case <-ctx.Done():
		}
	}
}

// release returns the subscriptions to the book. Those with an undecided delivery are
// never lent again, because a later verdict would count for the next borrower.
func (g *group) release() {
	var clean, rest []uint32
	g.book.ledger.EachSub(0, g.indexes, func(i int, c *ledger.SubCounts) {
		if c.Undecided == 0 {
			clean = append(clean, g.indexes[i])
		} else {
			rest = append(rest, g.indexes[i])
		}
	})
	g.book.give(clean)
	g.book.forget(rest)
}

// figures returns the system's own figures: those so far, or the final ones once the
// group is closed.
func (g *group) figures() driver.Figures {
	if g.closed() {
		return g.own
	}
	if d, ok := g.driver.(driver.Figurer); ok {
		return d.Figures()
	}
	return driver.Figures{}
}
