package ledger

import (
	"slices"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
)

// openIntervals is how many of the newest intervals of a lane are kept in the
// form that is quick to add to, at the least. They are also what a display
// shows as recent, so that short intervals need more of them.
const openIntervals = 3

// recentTime is how far back a display looks at the least.
const recentTime = 2 * time.Second

// openFor is how many intervals of that width are kept open.
func openFor(interval time.Duration) int {
	return max(openIntervals, int((recentTime+interval-1)/interval))
}

// intervalCounts are the counters of a lane in one interval.
type intervalCounts struct {
	delivered, late, outOfOrder int64
	duplicates, unexpected      int64
	skipped                     int64
}

// span is one interval in the form that is quick to add to.
type span struct {
	number   int64
	used     bool
	counts   intervalCounts
	intended timing
	sent     timing
}

func (s *span) reset(number int64) {
	s.number, s.used, s.counts = number, true, intervalCounts{}
	s.intended.clear()
	s.sent.clear()
}

func (s *span) merge(t *span) {
	figure.AddCounts(&s.counts, &t.counts)
	s.intended.merge(&t.intended)
	s.sent.merge(&t.sent)
}

// packedSpan is a recorded interval, which is unlikely to change.
type packedSpan struct {
	counts         intervalCounts
	intended, sent packed
}

func (p *packedSpan) add(s *span) {
	figure.AddCounts(&p.counts, &s.counts)
	p.intended = p.intended.plus(&s.intended.tally)
	p.sent = p.sent.plus(&s.sent.tally)
}

// series is the time series of one lane. Shards hand in an interval when they
// move on to a newer one, so its lock is taken about once per interval and
// shard, not once per delivery. An interval that is handed in late, because a
// firing was resolved late, is still added to the right one.
type series struct {
	keep   int   // how many are open, from openFor
	wide   int64 // intervals in a closed one
	mu     sync.Mutex
	taken  int64   // how often something was handed in
	open   []*span // ascending; at most keep and the latest
	free   []*span
	closed map[int64]*packedSpan
	// total is everything handed in, out-of-range counts included.
	intended, sent timing
}

// take adds s, which stays the caller's.
func (r *series) take(s *span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken++
	r.intended.merge(&s.intended)
	r.sent.merge(&s.sent)
	i, found := slices.BinarySearchFunc(r.open, s.number, func(o *span, n int64) int { return int(min(max(o.number-n, -1), 1)) })
	switch {
	case found:
		r.open[i].merge(s)
	case i == 0 && (len(r.open) >= r.keep || r.closed[s.number/r.wide] != nil):
		r.pack(s)
	default:
		var o *span
		if n := len(r.free); n > 0 {
			o, r.free = r.free[n-1], r.free[:n-1]
		} else {
			o = &span{}
		}
		o.reset(s.number)
		o.merge(s)
		r.open = slices.Insert(r.open, i, o)
		if len(r.open) > r.keep {
			r.pack(r.open[0])
			r.free = append(r.free, r.open[0])
			r.open = slices.Delete(r.open, 0, 1)
		}
	}
}

// handedIn is how often something was handed in so far.
func (r *series) handedIn() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// pack adds s to the closed intervals.
func (r *series) pack(s *span) {
	if r.closed == nil {
		r.closed = make(map[int64]*packedSpan)
	}
	r.addTo(r.closed, s)
}

// addTo adds s to the recorded interval that it is a part of.
func (r *series) addTo(closed map[int64]*packedSpan, s *span) {
	p := closed[s.number/r.wide]
	if p == nil {
		p = &packedSpan{}
		closed[s.number/r.wide] = p
	}
	p.add(s)
}

// export returns a copy of every recorded interval, by number, without what the shards
// still hold, and adds the totals to intended and sent.
func (r *series) export(intended, sent *timing) map[int64]*packedSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	intended.merge(&r.intended)
	sent.merge(&r.sent)
	return r.copied()
}

// copied returns a copy of every recorded interval, by number; the caller holds
// the lock.
func (r *series) copied() map[int64]*packedSpan {
	out := make(map[int64]*packedSpan, len(r.closed)+len(r.open))
	for k, p := range r.closed {
		q := *p // adding to a packed makes a new one
		out[k] = &q
	}
	for _, o := range r.open {
		r.addTo(out, o)
	}
	return out
}

// intervals is a shard's end of a series: the interval it is in and one older,
// for deliveries that were read just before the turn, or that had to wait.
type intervals struct {
	cur, old span
	series   *series
}

// at returns the span of interval number.
func (v *intervals) at(number int64) *span {
	if v.cur.used && v.cur.number == number {
		return &v.cur
	}
	return v.other(number)
}

func (v *intervals) other(number int64) *span {
	if v.old.used && v.old.number == number {
		return &v.old
	}
	if v.old.used {
		v.series.take(&v.old)
	}
	if !v.cur.used || number > v.cur.number {
		v.cur, v.old = v.old, v.cur
		v.cur.reset(number)
		return &v.cur
	}
	v.old.reset(number)
	return &v.old
}

// Arrivals say how exactly the times of a lane's deliveries are known, over all
// copies of all events, warm-up included.
type Arrivals struct {
	// Kernel is how many have the kernel's receive time.
	Kernel int64
	// Shared is how many were read together with what came after them, so that
	// they may have come earlier than it says.
	Shared int64
	// Waited is how long those with the kernel's time lay in a socket until
	// they were read: what a latency would have had on top without it.
	Waited Timing
}

// arrivals counts them in a shard.
type arrivals struct {
	kernel, shared int64
	waited         timing
}

func (a *arrivals) add(d *eventmeter.Delivery) {
	if d.Kernel {
		a.kernel++
		a.waited.add(d.Waited)
	}
	if d.Shared {
		a.shared++
	}
}

func (a *arrivals) merge(b *arrivals) {
	a.kernel += b.kernel
	a.shared += b.shared
	a.waited.merge(&b.waited)
}

func (a *arrivals) export() Arrivals {
	return Arrivals{Kernel: a.kernel, Shared: a.shared, Waited: a.waited.export()}
}
