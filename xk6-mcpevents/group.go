package mcpevents

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/metrics"
)

// group is subscriptions that were opened together: the lane of one driver. It
// is the driver's recorder and passes everything on to its book.
type group struct {
	eventmeter.Recorder // ignores all other calls: clients publish nothing

	origin  // of the VU that opened it
	hub     *hub
	metrics *metricSet
	client  *client
	book    *book
	driver  driver.Driver
	listens bool    // for changes of the event types
	wakeup  *wakeup // holds the iteration while there are handlers; nil if the group is kept
	during  *iteration
	indexes []uint32 // of the members, in the book
	members []member
	open    *gauge   // subscriptions with these tags, of all VUs
	meters  []*meter // of the bytes of its connections
	asked   eventmeter.Instant

	refreshRequests, refreshBytes, failed atomic.Int64

	handlers handlers

	mu       sync.Mutex
	every    int       // one of this many latencies becomes a sample
	nth      int       // latencies so far, modulo every
	arrivals []arrival // that are not samples yet
	ready    []time.Duration

	pushing sync.Mutex // one flush at a time
	pushed  [len(counts)]int64
	over    bool

	closing atomic.Bool // the script has called close()

	once sync.Once
	done chan struct{} // closed when everything is ended and counted
	// unopened: a subscription could not be opened, so the script has none.
	unopened bool
	stop     func() bool // stops watching the VU's context
	sum      totals      // valid after done, as is own
	own      driver.Figures
}

// member is one subscription of a group.
type member struct {
	group  *group
	self   owner // this member, as its book knows it
	number int   // in the group
	before ledger.SubCounts
	first  atomic.Int64 // first copies
	began  atomic.Int64 // when it became active, an eventmeter.Instant; 0 = not yet
	asked  atomic.Int64 // when it was requested, an eventmeter.Instant
	open   atomic.Bool
}

// arrival is a duration that becomes a sample.
type arrival struct {
	took time.Duration
	// Of a delivery that could not be judged when it arrived.
	member *member
	stamp  eventmeter.Stamp // in the book's ledger
}

// newGroup borrows subscriptions of a book; discard gives them back.
func newGroup(c *client, w way, o *subscribeOptions) (*group, error) {
	h := c.m.hub
	topic, err := h.topic(o.Topic)
	if err != nil {
		return nil, err
	}
	k := kind{
		system: o.System, mode: w.mode, event: w.event(), lane: o.Lane, topic: topic, replay: o.MaxAge.or(0) > 0,
		settle: o.Settle.or(0),
	}
	b, list, err := h.lend(k, o.Subscriptions)
	if err != nil {
		return nil, err
	}
	g := &group{
		Recorder: eventmeter.Tee(),
		origin:   *c.m.origin(),
		hub:      h,
		metrics:  c.m.metrics,
		client:   c,
		every:    o.SampleEvery,
		book:     b,
		indexes:  list,
		members:  make([]member, len(list)),
		open:     h.openOf(k, o.Tags),
		done:     make(chan struct{}),
		asked:    h.clock.Now(),
	}
	g.tags, g.handlers.messages = k.tags(o.Tags.of(g.tags)), o.Payload
	for i, index := range list {
		m := &g.members[i]
		m.group, m.self, m.number = g, m, i
		b.owner[index].Store(&m.self)
	}
	b.ledger.EachSub(0, list, func(i int, c *ledger.SubCounts) { g.members[i].before = *c })
	return g, nil
}

// tags are those of everything that a kind of subscription measures.
func (k *kind) tags(t *metrics.TagSet) *metrics.TagSet {
	return t.With("system", k.system).With("mode", string(k.mode)).With("event", k.event).With("lane", k.lane)
}

// closed reports whether the group is ended and counted.
func (g *group) closed() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// discard gives back the subscriptions of a group that was never opened.
func (g *group) discard() {
	if g.driver != nil {
		_ = g.driver.Close(context.Background()) // nothing was opened that could fail to close
	}
	g.stopListening()
	g.book.give(g.indexes)
}

// stopListening lets another group of the client listen.
func (g *group) stopListening() {
	if g.listens {
		g.client.listens.Store(false)
	}
}

// attach opens every subscription.
func (g *group) attach(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if got, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: len(g.members)}, g.driver.Attach); err != nil {
		if got.FirstError != nil { // context.Cause may know less
			err = got.FirstError
		}
		return late(ctx, fmt.Sprintf("readyTimeout (%v), %d of %d are active", timeout, got.Attached, len(g.members)), err)
	}
	if d, ok := g.driver.(driver.Beginner); ok {
		const never = eventmeter.Instant(1 << 62)
		d.Begin(g.asked, never)
	}
	return nil
}

// watch ends the group when the iteration ends or is interrupted.
func (g *group) watch(ctx context.Context) {
	work := &g.hub.life.work
	work.begin()
	stop := context.AfterFunc(ctx, func() {
		defer work.end()
		if !g.closing.Load() && g.during.calls.Load() == 0 { // else it was interrupted
			g.leftOpen()
		}
		g.finish(ctx, 0)
	})
	g.mu.Lock()
	g.stop = stop
	g.mu.Unlock()
}

// leftOpen logs that the script did not close the group: once for each kind, because
// every iteration does it.
func (g *group) leftOpen() {
	if _, said := g.hub.warned.LoadOrStore(leftOpen{g.book.event, g.book.lane}, true); said {
		return
	}
	g.state.Logger.Warnf(
		"lane %s: when the iteration ended, subscriptions to %s (%d) were still open; they are ended without settle, "+
			"so events in flight count as lost: await close() before, or use keep (said once)",
		g.book.lane,
		g.book.event,
		len(g.members),
	)
}

// leftOpen is what a warning is logged once for.
type leftOpen struct{ event, lane string }

// ours translates the driver's subscription to the book's.
func (g *group) ours(s eventmeter.Sub) (eventmeter.Sub, *member) {
	if int(s.Index) >= len(g.members) {
		return eventmeter.Sub{Lane: ^uint16(0)}, nil // the ledger counts it as misuse
	}
	return eventmeter.Sub{Index: g.indexes[s.Index]}, &g.members[s.Index]
}

// Delivered implements eventmeter.Recorder.
func (g *group) Delivered(d eventmeter.Delivery) {
	d.Sub, _ = g.ours(d.Sub)
	d.Stamp = g.book.local(d.Stamp)
	g.book.ledger.Delivered(d)
}

// PublishedAt implements eventmeter.Publisher.
func (g *group) PublishedAt(s eventmeter.Stamp) (eventmeter.Instant, bool) {
	return g.book.ledger.PublishedAt(g.book.local(s))
}

// Noticed implements eventmeter.Recorder.
func (g *group) Noticed(n eventmeter.Notice) {
	if n.Kind == eventmeter.Undeliverable { // of no subscription
		n.Sub = eventmeter.Sub{}
		g.book.ledger.Noticed(n)
		return
	}
	var s *member
	if n.Sub, s = g.ours(n.Sub); s != nil && n.Kind != eventmeter.Claimed { // which is for the ledger alone
		g.notice(s, n)
	}
	if n.Refused || n.Kind == eventmeter.Claimed {
		n.Stamp = g.book.local(n.Stamp)
	}
	g.book.ledger.Noticed(n)
}

// Changed implements eventmeter.Recorder.
func (g *group) Changed(t eventmeter.Transition) {
	var s *member
	if t.Sub, s = g.ours(t.Sub); s != nil {
		g.change(s, t)
	}
	g.book.ledger.Changed(t)
}

// change keeps what the metrics need of a transition.
func (g *group) change(s *member, t eventmeter.Transition) {
	switch t.To {
	case eventmeter.Attaching:
		s.asked.Store(int64(t.At))
	case eventmeter.Active:
		g.mu.Lock()
		g.ready = append(g.ready, t.At.Sub(eventmeter.Instant(s.asked.Load())))
		g.mu.Unlock()
		s.began.Store(int64(t.At))
		if !s.open.Swap(true) {
			g.open.add(1)
		}
	case eventmeter.Detaching, eventmeter.Detached, eventmeter.Failed:
		was := s.open.Swap(false)
		if was {
			g.open.add(-1)
		}
		if t.To != eventmeter.Failed {
			return
		}
		g.failed.Add(1)
		if was {
			g.queue(item{kind: onClosed, subscription: s.number, text: g.client.secrets.Scrub(t.Reason)})
		}
	}
}

// Called implements eventmeter.Recorder.
func (g *group) Called(c eventmeter.Call) {
	c.Lane = 0
	g.book.ledger.Called(c)
	switch c.Cause {
	case eventmeter.EmptyPoll,
		eventmeter.Heartbeat,
		eventmeter.Refresh,
		eventmeter.Verification,
		eventmeter.Retry,
		eventmeter.Reconnect,
		eventmeter.Control:
		g.refreshRequests.Add(int64(c.Requests))
		g.refreshBytes.Add(c.Up + c.Down)
	}
}

// judged keeps what the metrics and the handlers need of a delivery.
func (s *member) judged(d eventmeter.Delivery, v ledger.Verdict) {
	g := s.group
	copied := false
	switch v.Kind {
	case ledger.VerdictDelivered, ledger.VerdictUndecided:
		s.first.Add(1)
		g.arrive(s, &d, &v)
	case ledger.VerdictInFlight, ledger.VerdictReplayed, ledger.VerdictRecovered, ledger.VerdictUnprobed:
		s.first.Add(1)
	case ledger.VerdictDuplicateRequested,
		ledger.VerdictDuplicateSameEvent,
		ledger.VerdictDuplicateSameEmission,
		ledger.VerdictDuplicateForgotten:
		copied = true
	default:
		return
	}
	g.queue(item{
		kind: onEvent, subscription: s.number, seq: d.Stamp.Seq, latency: v.FromIntended, copied: copied, bytes: d.Bytes, id: d.EventID,
	})
}

// arrive keeps every Nth latency for a sample.
func (g *group) arrive(s *member, d *eventmeter.Delivery, v *ledger.Verdict) {
	a := arrival{took: v.FromIntended}
	if v.Kind == ledger.VerdictUndecided {
		a.member, a.stamp = s, d.Stamp
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nth == 0 {
		g.arrivals = append(g.arrivals, a)
	}
	g.nth = (g.nth + 1) % g.every
}

// queue queues an item for the handlers.
func (g *group) queue(i item) {
	if g.handlers.queue(i) {
		g.wakeup.wake()
	}
}

// notice queues a notice for the handlers.
func (g *group) notice(s *member, n eventmeter.Notice) {
	i := item{kind: onError, subscription: s.number, text: g.client.secrets.Scrub(n.Detail), what: n.Kind.String()}
	switch n.Kind {
	case eventmeter.Truncated:
		i.kind = onGap
	case eventmeter.Terminated, eventmeter.Reconnected: // Failed, which follows the first, queues onClosed
		return
	}
	g.queue(i)
}

// observer is a group whose handlers receive the messages of events.
type observer struct{ *group }

// Observed implements eventmeter.Observer: it is called right after Delivered.
func (o *observer) Observed(v eventmeter.Observation) {
	if o.handlers.observed(v) {
		o.wakeup.wake()
	}
}

// handle calls the handlers; it runs on the event loop.
func (g *group) handle() error {
	items := g.handlers.take()
	vu := g.client.m.vu
	for n := range items {
		if vu.Context().Err() != nil {
			return nil // the iteration is over: scripts run no more
		}
		calls, left := g.handlers.next(items[n].kind)
		v := items[n].script(vu.Runtime(), g.handlers.messages)
		for _, f := range calls {
			if _, err := f.call(sobek.Undefined(), v); err != nil {
				return err
			}
		}
		if !left && !g.handlers.any() {
			g.wakeup.release()
		}
	}
	return nil
}
