package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/sinks"
	"github.com/grafana/sobek"
)

const (
	// defaultReceived bounds received(), and list().
	defaultReceived = 30 * time.Second
	// lookEvery is how often it looks whether everybody has enough.
	lookEvery = 10 * time.Millisecond
)

// subscription is the object Subscription: subscriptions opened together, as
// one VU sees them. Its exported methods are those of the script's object,
// called on the event loop.
type subscription struct {
	m *instance
	g *group
}

// On adds a handler.
func (s *subscription) On(name string, handler sobek.Callable) error {
	kind := slices.Index(itemNames[:], name)
	switch {
	case kind < 0:
		return fmt.Errorf("on: there is no %q: use %s", name, strings.Join(itemNames[:], ", "))
	case handler == nil:
		return errors.New("on: give a function")
	case s.g.gate == nil:
		return errors.New("on: subscriptions that are kept belong to no VU, and have no handlers")
	}
	e := &s.g.ears
	e.earing.Lock()
	defer e.earing.Unlock()
	e.handlers[kind] = append(e.handlers[kind], handler)
	return nil
}

// receivedOptions are the argument of received.
type receivedOptions struct {
	Events  int64     `json:"events"`
	Timeout *duration `json:"timeout"`
}

// received is what it resolves with.
type received struct {
	Complete   bool  `js:"complete" json:"complete"`
	Delivered  int64 `js:"delivered" json:"delivered"`
	Duplicates int64 `js:"duplicates" json:"duplicates"`
	OutOfOrder int64 `js:"outOfOrder" json:"outOfOrder"`
	Unexpected int64 `js:"unexpected" json:"unexpected"`
}

// Received resolves when every subscription has received so many events or,
// where no number is given, all that was fired so far; or when the time is
// over. complete tells which.
func (s *subscription) Received(options sobek.Value) (*sobek.Promise, error) {
	var o receivedOptions
	if _, err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("received: %w", err)
	}
	if s.g.book.system == "sep-975" {
		return nil, errors.New("received: there are no events: close() waits for the requests that are under way")
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
	return promise, nil
}

// await waits until every subscription has received n events.
func (g *group) await(ctx context.Context, n int64, limit time.Duration) bool {
	look, end := time.NewTicker(lookEvery), time.NewTimer(limit)
	defer look.Stop()
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
		case <-look.C:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		case <-g.done:
			return false
		}
	}
}

// totals are the figures so far, and those for good once the group is closed.
func (g *group) totals() totals {
	if g.closed() {
		return g.sum
	}
	return g.account()
}

// stats is what scripts get of totals.
func (g *group) stats(t totals) stats {
	out := t.stats()
	for i := range g.members {
		if g.members[i].open.Load() {
			out.Open++
		}
	}
	g.earing.Lock()
	defer g.earing.Unlock()
	out.Unhandled = g.skipped
	return out
}

// Stats are the figures so far.
func (s *subscription) Stats() stats { return s.g.stats(s.g.totals()) }

// Close waits until everything that was fired before has come, for the
// subscription's settle time at most, ends the subscriptions, and resolves with
// their figures. Called again it gives the same figures.
func (s *subscription) Close() *sobek.Promise {
	g, ctx := s.g, s.m.vu.Context()
	promise, resolve, _ := s.m.promised()
	g.hub.life.work.Go(func() {
		g.finish(ctx, g.book.settle)
		resolve(g.stats(g.sum))
	})
	return promise
}

// Figures are those of the system.
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

// timing is the form in which scripts get a histogram.
func timing(t sinks.Timing) map[string]any {
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

// CertPEM is the certificate authority of the webhook listener, which the
// target has to trust; empty in other modes.
func (s *subscription) CertPEM() string {
	if r, ok := s.g.driver.(driver.Receiver); ok {
		return string(r.CertPEM())
	}
	return ""
}

// onceOptions are the second argument of list.
type onceOptions struct {
	Timeout *duration `json:"timeout"`
}

// List fetches a list once.
func (c *client) List(what string, options sobek.Value) (*sobek.Promise, error) {
	state := c.m.vu.State()
	if state == nil {
		return nil, errors.New("list: it belongs into setup() or an iteration, not into the init context")
	}
	var o onceOptions
	if _, err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	ctx, now := c.m.vu.Context(), state.Tags.GetCurrentValues() // the loop's: not to be asked for elsewhere
	ep, err := c.met()
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	promise, resolve, reject := c.m.promised()
	c.groups.begin()
	c.m.hub.life.work.Go(func() {
		defer c.groups.end()
		ctx, cancel := context.WithTimeout(ctx, o.Timeout.or(defaultReceived))
		defer cancel()
		out, err := c.fetch(ctx, ep, what, state, now)
		if err != nil {
			reject(c.clean(err))
			return
		}
		resolve(out)
	})
	return promise, nil
}

// plain decodes JSON for a script.
func plain(raw json.RawMessage) (v any, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}
