package mcpevents

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/sobek"
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen"
	"github.com/mcpload/mcpload/loadgen/dialect"
	"github.com/mcpload/mcpload/sinks"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// defaultSettle is how long a missing event may take until it is lost.
const defaultSettle = 2 * time.Second

// group is subscriptions that were opened together: the lane of one dialect.
// It is the dialect's recorder and passes everything on to its book.
type group struct {
	m       *instance
	state   *lib.State
	tags    *metrics.TagSet
	meta    map[string]string
	every   int // of so many latencies one becomes a sample
	book    *book
	dialect dialect.Dialect
	gate    *gate
	members []member
	open    *atomic.Int64 // subscriptions with these tags, of all VUs

	refreshRequests, refreshBytes atomic.Int64

	mu        sync.Mutex
	nth       int       // latencies so far, modulo every
	arrivals  []arrival // that were not made samples yet
	ready     []arrival
	events    []heard // that wait for handlers
	skipped   int64   // events that found no room there
	listening bool
	handlers  []sobek.Callable

	pushing sync.Mutex // one flush at a time
	pushed  totals
	over    bool

	once sync.Once
	done chan struct{} // closed when everything is ended and counted
	stop func() bool   // stops watching the VU's context
	sum  totals        // valid after done
}

// member is one subscription of a group.
type member struct {
	group  *group
	number int    // in the group
	index  uint32 // in the book
	before sinks.SubCounts
	first  atomic.Int64 // first copies
	began  atomic.Int64 // when it became active, a mcpload.Instant; 0 = not yet
	asked  atomic.Int64 // when it was asked for, likewise
	open   atomic.Bool
}

// arrival is a duration that becomes a sample.
type arrival struct {
	at   mcpload.Instant
	took time.Duration
	// Of a delivery that could not be judged when it came.
	member *member
	stamp  mcpload.Stamp
}

func newGroup(m *instance, event string, mode mcpload.Mode, o *subscribeOptions) (*group, error) {
	topic, err := m.hub.topic(o.Topic)
	if err != nil {
		return nil, err
	}
	k := kind{
		system: o.System, mode: mode, event: event, lane: o.Lane, topic: topic, replay: o.MaxAge.or(0) > 0,
		settle: o.Settle.or(defaultSettle),
	}
	b, list, err := m.hub.lend(k, o.Subscriptions)
	if err != nil {
		return nil, err
	}
	state := m.vu.State()
	now := state.Tags.GetCurrentValues()
	tags := now.Tags
	for _, t := range [][2]string{{"system", o.System}, {"mode", string(mode)}, {"event", event}, {"lane", o.Lane}} {
		tags = tags.With(t[0], t[1])
	}
	g := &group{
		m: m, state: state, tags: tags, meta: now.Metadata, every: o.SampleEvery, book: b,
		members: make([]member, len(list)), open: m.hub.openOf(k), done: make(chan struct{}),
	}
	for i, index := range list {
		s := &g.members[i]
		s.group, s.number, s.index = g, i, index
		s.before = b.ledger.SubAccount(mcpload.Sub{Index: index})
		b.owner[index].Store(s)
	}
	return g, nil
}

// drop gives back what a group that was never opened has borrowed.
func (g *group) drop() {
	list := make([]uint32, len(g.members))
	for i := range g.members {
		list[i] = g.members[i].index
	}
	g.book.give(list)
}

// attach opens every subscription.
func (g *group) attach(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := loadgen.Attach(ctx, loadgen.AttachOptions{N: len(g.members)}, g.dialect.Attach)
	return err
}

// watch ends the group when the iteration ends or is broken off.
func (g *group) watch(ctx context.Context) {
	g.m.hub.work.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer g.m.hub.work.Done()
		g.finish(ctx, 0)
	})
	g.mu.Lock()
	g.stop = stop
	g.mu.Unlock()
}

// own translates the dialect's name of a subscription to the book's.
func (g *group) own(s mcpload.Sub) mcpload.Sub {
	if int(s.Index) >= len(g.members) {
		return mcpload.Sub{Lane: ^uint16(0)} // the ledger counts it as misuse
	}
	return mcpload.Sub{Index: g.members[s.Index].index}
}

// Delivered implements mcpload.Recorder.
func (g *group) Delivered(d mcpload.Delivery) {
	d.Sub = g.own(d.Sub)
	g.book.ledger.Delivered(d)
}

// Noticed implements mcpload.Recorder.
func (g *group) Noticed(n mcpload.Notice) {
	n.Sub = g.own(n.Sub)
	g.book.ledger.Noticed(n)
}

// Changed implements mcpload.Recorder.
func (g *group) Changed(t mcpload.Transition) {
	i := t.Sub.Index
	t.Sub = g.own(t.Sub)
	if int(i) < len(g.members) {
		g.note(&g.members[i], t)
	}
	g.book.ledger.Changed(t)
}

// note keeps what the metrics need of a transition.
func (g *group) note(s *member, t mcpload.Transition) {
	switch t.To {
	case mcpload.Attaching:
		s.asked.Store(int64(t.At))
	case mcpload.Active:
		g.mu.Lock()
		g.ready = append(g.ready, arrival{at: t.At, took: t.At.Sub(mcpload.Instant(s.asked.Load()))})
		g.mu.Unlock()
		s.began.Store(int64(t.At))
		if !s.open.Swap(true) {
			g.open.Add(1)
		}
	case mcpload.Detaching, mcpload.Detached, mcpload.Failed:
		if s.open.Swap(false) {
			g.open.Add(-1)
		}
	}
}

// Called implements mcpload.Recorder.
func (g *group) Called(c mcpload.Call) {
	c.Lane = 0
	g.book.ledger.Called(c)
	switch c.Cause {
	case mcpload.EmptyPoll, mcpload.Heartbeat, mcpload.Refresh, mcpload.Verification, mcpload.Retry, mcpload.Reconnect:
		g.refreshRequests.Add(int64(c.Requests))
		g.refreshBytes.Add(c.Up + c.Down)
	}
}

// Fired implements mcpload.Recorder; clients fire nothing.
func (g *group) Fired(mcpload.Emission) {}

// Resolved implements mcpload.Recorder.
func (g *group) Resolved(mcpload.Stamp, mcpload.Outcome, mcpload.Instant) {}

// Dropped implements mcpload.Recorder.
func (g *group) Dropped(mcpload.Drop) {}

// observe is told what the ledger made of a delivery.
func (g *group) observe(s *member, d mcpload.Delivery, v sinks.Verdict) {
	copied := false
	switch v.Kind {
	case sinks.VerdictDelivered, sinks.VerdictUndecided:
		s.first.Add(1)
		a := arrival{at: d.At, took: v.FromIntended}
		if v.Kind == sinks.VerdictUndecided {
			a.member, a.stamp = s, d.Stamp
		}
		g.mu.Lock()
		g.arrivals = append(g.arrivals, a)
		g.mu.Unlock()
	case sinks.VerdictInFlight, sinks.VerdictReplayed, sinks.VerdictRecovered, sinks.VerdictUnprobed:
		s.first.Add(1)
	case sinks.VerdictDuplicateRequested, sinks.VerdictDuplicateSameEvent, sinks.VerdictDuplicateSameEmission, sinks.VerdictDuplicateForgotten:
		copied = true
	default:
		return
	}
	g.tell(s, d, v, copied)
}
