package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks/ledger"
	"github.com/grafana/sobek"
)

const (
	// defaultReceived bounds received(), and list().
	defaultReceived = 30 * time.Second
	// checkEvery is how often it checks the subscriptions.
	checkEvery = 10 * time.Millisecond
)

// subscription is the object Subscription: subscriptions opened together, as
// one VU sees them. Its exported methods are those of the script's object,
// called on the event loop.
type subscription struct {
	m *instance
	g *group
}

// On adds a handler.
func (s *subscription) On(name string, f sobek.Value) { s.handle("on", name, f, false) }

// Once adds a handler for the next item only.
func (s *subscription) Once(name string, f sobek.Value) { s.handle("once", name, f, true) }

// handle adds a handler.
func (s *subscription) handle(method, name string, f sobek.Value, once bool) {
	kind := s.kindOf(method, name)
	call, ok := sobek.AssertFunction(f)
	if !ok {
		s.m.throw(fmt.Errorf("%s: give a function", method))
	}
	s.g.wakeup.hold() // before there is a handler that has to be woken
	s.g.handlers.add(kind, handler{call, f.ToObject(s.m.vu.Runtime()), once})
}

// Off removes a handler, or all of a name.
func (s *subscription) Off(name string, f sobek.Value) {
	kind := s.kindOf("off", name)
	all := f == nil || sobek.IsUndefined(f)
	if _, ok := sobek.AssertFunction(f); !all && !ok {
		s.m.throw(errors.New("off: give the function that on() was given, or none for all"))
	}
	if !s.g.handlers.remove(kind, func(h handler) bool { return all || h.self.SameAs(f) }) {
		s.g.wakeup.release()
	}
}

// kindOf returns the kind of items that a handler receives.
func (s *subscription) kindOf(method, name string) itemKind {
	kind := slices.Index(itemNames[:], name)
	switch {
	case kind < 0:
		s.m.throw(fmt.Errorf("%s: there is no %q: %s", method, name, choose(name, itemNames[:])))
	case s.g.wakeup == nil:
		s.m.throw(fmt.Errorf("%s: kept subscriptions belong to no VU, and have no handlers", method))
	}
	return itemKind(kind)
}

// receivedOptions are the argument of received.
type receivedOptions struct {
	Events  int64     `json:"events"`
	Timeout *duration `json:"timeout"`
}

// received is the result of received().
type received struct {
	Complete   bool  `js:"complete" json:"complete"`
	Delivered  int64 `js:"delivered" json:"delivered"`
	Duplicates int64 `js:"duplicates" json:"duplicates"`
	OutOfOrder int64 `js:"outOfOrder" json:"outOfOrder"`
	Unexpected int64 `js:"unexpected" json:"unexpected"`
}

// Received resolves when every subscription has received the given number of
// events or, without a number, all events published so far; or when the time is
// over. complete is false in the last case.
func (s *subscription) Received(options sobek.Value) *sobek.Promise {
	var o receivedOptions
	if err := decode(options, &o); err != nil {
		return s.m.rejected(fmt.Errorf("received: %w", err))
	}
	if subscribesToNothing(s.g.book.system) {
		return s.m.rejected(errors.New("received: there are no events: close() waits for the open requests"))
	}
	g, ctx := s.g, s.m.vu.Context()
	promise, resolve, _ := s.m.promised()
	g.hub.life.work.Go(func() {
		var complete bool
		if o.Events > 0 {
			complete = g.await(ctx, o.Events, o.Timeout.or(defaultReceived))
		} else {
			complete = g.settled(ctx, o.Timeout.or(defaultReceived))
		}
		g.flush(false)
		out := g.totals()
		resolve(received{complete, out.Delivered, out.Duplicates.Total(), out.OutOfOrder, out.Unexpected.Total()})
	})
	return promise
}

// await waits until every subscription has received n events.
func (g *group) await(ctx context.Context, n int64, limit time.Duration) bool {
	check, end := time.NewTicker(checkEvery), time.NewTimer(limit)
	defer check.Stop()
	defer end.Stop()
	from := 0 // all before have enough
	for {
		for from < len(g.members) && g.members[from].first.Load() >= n {
			from++
		}
		if from == len(g.members) {
			return true
		}
		select {
		case <-check.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		case <-g.done:
			return false
		}
	}
}

// totals are the figures so far, or the final ones once the group is closed.
func (g *group) totals() totals {
	if g.closed() {
		return g.sum
	}
	return g.account()
}

// stats returns totals for scripts.
func (g *group) stats(t totals) stats {
	out := t.stats()
	for i := range g.members {
		if g.members[i].open.Load() {
			out.Open++
		}
	}
	out.Unhandled = g.handlers.unhandled()
	return out
}

// Stats are the figures so far.
func (s *subscription) Stats() stats { return s.g.stats(s.g.totals()) }

// Close waits until all events that were published before have arrived, at most
// for the settle time, ends the subscriptions, and resolves with their figures.
// Called again it resolves with the same figures.
func (s *subscription) Close() *sobek.Promise {
	g, ctx := s.g, s.m.vu.Context()
	g.closing.Store(true)
	promise, resolve, _ := s.m.promised()
	g.hub.life.work.Go(func() {
		g.settle(ctx)
		resolve(g.stats(g.sum))
	})
	return promise
}

// Figures are the figures of the system.
func (s *subscription) Figures() map[string]any {
	f := s.g.figures()
	values, timings := map[string]any{}, map[string]any{}
	for name, v := range f.Values {
		values[name] = v
	}
	for name, t := range f.Timings {
		timings[name] = timing(t)
	}
	return map[string]any{"values": values, "timings": timings}
}

// timing is a histogram for scripts.
func timing(t ledger.Timing) map[string]any {
	h := t.Histogram
	if h == nil || h.TotalCount() == 0 {
		return map[string]any{"count": 0, "min": 0, "mean": 0, "p50": 0, "p90": 0, "p99": 0, "max": 0}
	}
	ms := func(ns float64) float64 { return ns / float64(time.Millisecond) }
	out := map[string]any{"count": h.TotalCount(), "min": ms(float64(h.Min())), "mean": ms(h.Mean()), "max": ms(float64(h.Max()))}
	for name, q := range map[string]float64{"p50": 50, "p90": 90, "p99": 99} {
		out[name] = ms(float64(h.ValueAtQuantile(q)))
	}
	return out
}

// CertPEM returns the certificate authority of the webhook listener, which the target
// must trust; empty in other modes.
func (s *subscription) CertPEM() string {
	if r, ok := s.g.driver.(driver.Receiver); ok {
		return string(r.CertPEM())
	}
	return ""
}
