package ledger

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
)

// Ledger keeps account of a run: who was owed which emission, and what came.
// It implements eventmeter.Recorder. All methods are safe for concurrent use;
// calls about one subscription take effect in the order in which they are made.
//
// # What is owed
//
// A window of a subscription begins with Active and ends with Detaching (or,
// without one, with Detached or Failed). An emission is owed to a subscription
// that is owed its source if it was measured, its firing was accepted, and it was
// fired after Active and before the end of a window. If it comes, it is
// delivered; if not, it is lost, or excused when it was fired no longer than
// DetachGrace before the end, or, where the subscription has to ask, before the
// last time that it asked (Transition.Seen), or unidentified when an update
// without a payload came after it was fired. Expected is what was owed and
// neither, so that Expected = Delivered + LostSilent + LostAnnounced +
// LostOrderUnknown + LostUndeliverable + LostRefused + LostSuspended.
//
// First copies of measured emissions that were not owed are Recovered when the
// firing was not accepted; stale, or Replayed where the lane asks for replay,
// when the upstream had its answer before Attaching; else InFlight. A copy that
// comes after the window was reported over is of the former window if its
// emission was fired before that, and unexpected if later.
//
// # What is known when
//
// Only the order of calls and their instants decide, never the time at which
// the ledger works something out. Where a fact comes after a delivery that
// depends on it (the outcome of a firing, the report that a subscription is
// active), the delivery is kept aside and counted once the fact is known.
//
// # Memory
//
// It grows with the number of emissions (about 33 bytes each, and 12 more per
// lane), of subscriptions (100 bytes, and 32 more per source owed), of
// intervals, and of irregularities, but not with the number of deliveries.
type Ledger struct {
	opt     Options
	now     func() eventmeter.Instant
	sources []source
	lanes   []*lane

	// resolving is held for reading while an outcome is published and what
	// waited for it is counted, and for writing while an account is drawn up,
	// so that an account never sees one without the other.
	resolving sync.RWMutex

	drops struct {
		sync.Mutex
		measured, warmUp int64
		series           map[int64]int64 // measured ones, by intended interval
	}
	misuse   struct{ fired, resolved, subscription, transition atomic.Int64 }
	measured atomic.Bool // Measure was called
}

var _ eventmeter.Recorder = (*Ledger)(nil)

// lane is one lane of a Ledger.
type lane struct {
	index      uint16
	spec       LaneSpec
	allSources bool
	// A subscription's index is its position in its shard, shifted left, or'ed
	// with the shard's index.
	shift  uint
	shards []*shard
	series series
	// orderOf says for each source which of orders is its own.
	orderOf []uint16
	orders  []*order

	readyReasons, brokenReasons, failures, answeredBy reasons

	traffic      [eventmeter.Causes]traffic
	callFailures atomic.Int64

	noticed   [eventmeter.NoticeKinds]atomic.Int64
	noticedBy [eventmeter.NoticeKinds]reasons
	failedAt  atomic.Int64 // of the last undeliverable connection, an eventmeter.Instant
	// ownFrom and ownTo are the first and the last time at which this side had no room.
	ownFrom, ownTo atomic.Int64
}

const defaultExamples = 20

// New makes the ledger of a run. It returns an error when the options
// contradict each other.
func New(opt Options) (*Ledger, error) {
	if opt.Sources < 1 || opt.Sources > 1<<16 {
		return nil, fmt.Errorf("ledger: %d sources: give between 1 and 65536", opt.Sources)
	}
	if len(opt.Lanes) > 1<<16 {
		return nil, fmt.Errorf("ledger: %d lanes: give at most 65536", len(opt.Lanes))
	}
	if opt.LateAfter < 0 || opt.DetachGrace < 0 || opt.Interval < 0 {
		return nil, fmt.Errorf("ledger: LateAfter, DetachGrace and Interval must not be negative")
	}
	if opt.Interval == 0 {
		opt.Interval = time.Second
	}
	if opt.Recorded == 0 {
		opt.Recorded = opt.Interval
	}
	if opt.Recorded < opt.Interval || opt.Recorded%opt.Interval != 0 {
		return nil, fmt.Errorf("ledger: recorded intervals of %v: give a multiple of the interval of %v", opt.Recorded, opt.Interval)
	}
	if opt.Examples == 0 {
		opt.Examples = defaultExamples
	}
	opt.Examples = max(opt.Examples, 0)
	if opt.Clock == nil {
		opt.Clock = eventmeter.NewClock()
	}
	l := &Ledger{opt: opt, now: opt.Clock.Now, sources: make([]source, opt.Sources)}
	l.drops.series = make(map[int64]int64)
	for i := range l.sources {
		l.sources[i].lanes = len(opt.Lanes)
	}
	for i, spec := range opt.Lanes {
		n, err := l.newLane(uint16(i), spec)
		if err != nil {
			return nil, fmt.Errorf("ledger: lane %q: %w", spec.Name, err)
		}
		l.lanes = append(l.lanes, n)
	}
	return l, nil
}

// newLane sets up a lane's shards: about two per processor, never more than
// there are subscriptions.
func (l *Ledger) newLane(index uint16, spec LaneSpec) (*lane, error) {
	if spec.Subscriptions < 0 || int64(spec.Subscriptions) > 1<<31 {
		return nil, fmt.Errorf("%d subscriptions: give between 0 and 2^31", spec.Subscriptions)
	}
	shards := min(2*runtime.GOMAXPROCS(0), 64, max(spec.Subscriptions, 1))
	n := &lane{index: index, spec: spec, shift: uint(bits.Len(uint(shards - 1)))}
	n.series.keep = openFor(l.opt.Interval)
	n.series.wide = int64(l.opt.Recorded / l.opt.Interval)
	for i := range n.traffic {
		n.traffic[i].measured = always
	}
	for i := range 1 << n.shift {
		h := &shard{ledger: l, lane: n, index: uint32(i), examples: exampleSet{limit: l.opt.Examples}, measured: always}
		h.intervals.series = &n.series
		h.subs = make([]subState, 0, (spec.Subscriptions-i+1<<n.shift-1)>>n.shift)
		n.shards = append(n.shards, h)
	}
	all := make([]uint16, len(l.sources))
	for i := range all {
		all[i] = uint16(i)
	}
	n.allSources = true
	for i := range spec.Subscriptions {
		owed := all
		if spec.Owed != nil {
			if list := spec.Owed(i); list != nil {
				owed = slices.Compact(slices.Sorted(slices.Values(list)))
			}
		}
		if k := len(owed); k > 0 && int(owed[k-1]) >= len(l.sources) {
			return nil, fmt.Errorf("subscription %d is owed source %d: there are %d, from 0", i, owed[k-1], len(l.sources))
		}
		n.allSources = n.allSources && len(owed) == len(all)
		h := n.shards[i&(1<<n.shift-1)]
		if h.slots == nil && spec.Owed == nil {
			h.slots = make([]slot, 0, len(owed)*cap(h.subs))
		}
		h.subs = append(h.subs, subState{first: uint32(len(h.slots)), slots: uint32(len(owed))})
		h.states[0]++
		for _, s := range owed {
			h.slots = append(h.slots, slot{source: s})
		}
	}
	n.shareOrders(len(l.sources))
	for _, h := range n.shards {
		h.subs, h.slots = slices.Clip(h.subs), slices.Clip(h.slots)
	}
	return n, nil
}

// find returns the shard of a subscription and its position there.
func (l *Ledger) find(sub eventmeter.Sub) (*shard, uint32, bool) {
	if int(sub.Lane) >= len(l.lanes) {
		return nil, 0, false
	}
	n := l.lanes[sub.Lane]
	h := n.shards[sub.Index&(1<<n.shift-1)]
	pos := sub.Index >> n.shift
	return h, pos, int(pos) < len(h.subs)
}

// Fired implements eventmeter.Recorder. An emission of another run, of a source
// that does not exist or with a number that is not the next one of its source is
// left out and counted in Account.Misuse.
func (l *Ledger) Fired(e eventmeter.Emission) {
	if e.Run != l.opt.Run || int(e.Source) >= len(l.sources) || !l.sources[e.Source].append(e, l.opt.Recorded) {
		l.misuse.fired.Add(1)
	}
}

// Resolved implements eventmeter.Recorder. When it returns, every delivery of the
// emission that came before is counted.
func (l *Ledger) Resolved(s eventmeter.Stamp, o eventmeter.Outcome, at eventmeter.Instant) {
	l.resolving.RLock()
	defer l.resolving.RUnlock()
	if s.Run != l.opt.Run || int(s.Source) >= len(l.sources) || !l.sources[s.Source].resolve(s.Seq, o, at) {
		l.misuse.resolved.Add(1)
		return
	}
	src := &l.sources[s.Source]
	e := src.at(s.Seq)
	if e.measured {
		for _, n := range l.lanes {
			for _, h := range n.shards {
				h.resolved(s.Source, s.Seq, e)
			}
		}
	}
	src.settle(s.Seq)
}

// Dropped implements eventmeter.Recorder.
func (l *Ledger) Dropped(d eventmeter.Drop) {
	l.drops.Lock()
	defer l.drops.Unlock()
	if !d.Measured {
		l.drops.warmUp++
		return
	}
	l.drops.measured++
	l.drops.series[int64(d.Intended)/int64(l.opt.Recorded)]++
}

// Measure sets the measured window: traffic, events and active time from the
// instant from until before the instant to are also counted in
// LaneAccount.Measured. Call it before from is reached: all that was counted
// until the first call is taken to lie before the window. A second call may end
// the window earlier, at an instant that is not in the past. Without a call,
// the window is the whole run.
func (l *Ledger) Measure(from, to eventmeter.Instant) {
	first := l.measured.CompareAndSwap(false, true)
	b := bounds{from, to}
	for _, n := range l.lanes {
		for _, h := range n.shards {
			h.mu.Lock()
			h.measured = b
			if first {
				h.within = WindowCounts{}
			}
			h.mu.Unlock()
		}
		for i := range n.traffic {
			t := &n.traffic[i]
			t.mu.Lock()
			t.measured = b
			if first {
				t.within = Traffic{}
			}
			t.mu.Unlock()
		}
	}
}

// Delivered implements eventmeter.Recorder. It takes the lock of one shard and
// allocates nothing for copies that come in order, once each.
func (l *Ledger) Delivered(d eventmeter.Delivery) {
	v := Verdict{Kind: VerdictIgnored}
	if h, pos, ok := l.find(d.Sub); ok {
		h.mu.Lock()
		v = h.deliver(pos, &d)
		h.mu.Unlock()
	} else {
		l.misuse.subscription.Add(1)
	}
	if l.opt.Observe != nil {
		l.opt.Observe(d, v)
	}
}

// ofSubscriptions are the notices that need a subscription.
var ofSubscriptions = [...]eventmeter.NoticeKind{eventmeter.Truncated, eventmeter.Claimed, eventmeter.Suspended, eventmeter.Resumed}

// Noticed implements eventmeter.Recorder. Only Truncated, Claimed, Suspended, Resumed and
// notices of a refused copy need a subscription that exists; for the rest the
// lane is enough.
func (l *Ledger) Noticed(n eventmeter.Notice) {
	if int(n.Sub.Lane) >= len(l.lanes) {
		l.misuse.subscription.Add(1)
		return
	}
	lane := l.lanes[n.Sub.Lane]
	if n.Refused || slices.Contains(ofSubscriptions[:], n.Kind) {
		h, pos, ok := l.find(n.Sub)
		if !ok {
			l.misuse.subscription.Add(1)
			return
		}
		h.mu.Lock()
		h.notice(pos, &n)
		h.mu.Unlock()
	}
	if int(n.Kind) >= len(notices) {
		return
	}
	lane.noticed[n.Kind].Add(1)
	if notices[n.Kind].by != nil {
		lane.noticedBy[n.Kind].add(n.Detail)
	}
	if n.Kind == eventmeter.Undeliverable {
		latest(&lane.failedAt, n.At)
		if n.Own {
			lane.ownFrom.CompareAndSwap(0, int64(n.At))
			latest(&lane.ownTo, n.At)
		}
	}
}

// latest keeps the later one of two instants.
func latest(kept *atomic.Int64, at eventmeter.Instant) {
	for {
		if was := kept.Load(); kept.CompareAndSwap(was, max(was, int64(at))) {
			return
		}
	}
}

// notice records what concerns the losses of a subscription; the caller holds
// the lock.
func (h *shard) notice(pos uint32, n *eventmeter.Notice) {
	s := &h.subs[pos]
	switch {
	case n.Refused:
		h.reject(pos, n.Stamp)
		return
	case n.Kind == eventmeter.Suspended:
		h.suspend(pos, n)
		return
	case n.Kind == eventmeter.Claimed:
		h.claimed(s, n.Stamp)
		return
	case n.Kind == eventmeter.Resumed:
		if r := h.rare(s); r.left != 0 {
			r.left, r.resumed = max(r.left, n.Since), true
		}
		return
	}
	h.counts.Announcements++
	r := h.rare(s)
	r.counts.Announcements++
	r.left = 0 // it may be about what was to be replayed
	// Before it is active and after it is over, an announcement is about what
	// nobody was owed.
	if s.active == 0 || s.over {
		return
	}
	number := uint32(0) // which is never missed by FalseAlarms
	if !n.Before {
		s.announced++
		number = s.announced
	}
	slots := h.slotsOf(s)
	for i := range slots {
		slots[i].announce(&h.ledger.sources[slots[i].source], number, n.At, h.lane.spec.Ordered)
	}
}

// Changed implements eventmeter.Recorder.
func (l *Ledger) Changed(t eventmeter.Transition) {
	h, pos, ok := l.find(t.Sub)
	if !ok {
		l.misuse.subscription.Add(1)
		return
	}
	h.mu.Lock()
	ok = h.change(pos, &t)
	h.mu.Unlock()
	if !ok {
		l.misuse.transition.Add(1)
	}
}

// Called implements eventmeter.Recorder.
func (l *Ledger) Called(c eventmeter.Call) {
	if int(c.Lane) >= len(l.lanes) || int(c.Cause) >= eventmeter.Causes {
		l.misuse.subscription.Add(1)
		return
	}
	lane := l.lanes[c.Lane]
	lane.traffic[c.Cause].add(&c)
	if c.Answered != 0 {
		lane.answeredBy.add(answered(c.Answered))
	}
	if c.Failure != "" {
		lane.callFailures.Add(1)
		key := c.Failure
		if c.Method != "" {
			key = c.Method + " " + c.Failure
		}
		lane.failures.add(key)
	}
}

// notices returns what the lane has counted of them.
func (n *lane) notices() (out Notices) {
	for kind, of := range notices {
		if of.count != nil {
			*of.count(&out) = n.noticed[kind].Load()
		}
	}
	return out
}
