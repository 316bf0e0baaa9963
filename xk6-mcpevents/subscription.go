package mcpevents

import (
	"fmt"
	"time"

	"github.com/grafana/sobek"
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen/dialect"
	"github.com/mcpload/mcpload/sinks"
	"go.k6.io/k6/v2/js/promises"
)

const (
	// defaultReceived bounds received().
	defaultReceived = 30 * time.Second
	// flushEvery is how often received() passes samples on while it waits.
	flushEvery = time.Second
	// lookEvery is how often it looks whether everybody has enough.
	lookEvery = 10 * time.Millisecond
	// waitingEvents is how many events may wait for handlers.
	waitingEvents = 1 << 16
)

// subscription is the object Subscription: subscriptions opened together. Its
// exported methods are those of the script's object, called on the event loop.
type subscription struct{ g *group }

// heard is one event on its way to handlers.
type heard struct {
	subscription int
	seq          uint32
	latency      time.Duration
	copied       bool
	bytes        int
}

// tell keeps an event for the handlers, if there are any.
func (g *group) tell(s *member, d mcpload.Delivery, v sinks.Verdict, copied bool) {
	g.mu.Lock()
	if !g.listening {
		g.mu.Unlock()
		return
	}
	if len(g.events) == waitingEvents {
		g.skipped++
		g.mu.Unlock()
		return
	}
	g.events = append(g.events, heard{s.number, d.Stamp.Seq, v.FromIntended, copied, d.Bytes})
	first := len(g.events) == 1
	g.mu.Unlock()
	if first {
		g.gate.knock()
	}
}

// handle calls the handlers; it runs on the event loop.
func (g *group) handle() {
	g.mu.Lock()
	list, handlers := g.events, g.handlers
	g.events = nil
	g.mu.Unlock()
	rt := g.m.vu.Runtime()
	for _, e := range list {
		v := rt.ToValue(map[string]any{
			"subscription": e.subscription, "seq": e.seq, "latency": float64(e.latency) / float64(time.Millisecond),
			"duplicate": e.copied, "bytes": e.bytes,
		})
		for _, f := range handlers {
			if _, err := f(sobek.Undefined(), v); err != nil {
				g.state.Logger.WithError(err).Error("a handler of mcpevents has failed")
			}
		}
	}
}

// On adds a handler for event, which is called with every copy that comes.
func (s *subscription) On(name string, handler sobek.Callable) error {
	if name != "event" {
		return fmt.Errorf("on: there is no %q: use 'event'", name)
	}
	if handler == nil {
		return fmt.Errorf("on: give a function")
	}
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handlers, g.listening = append(g.handlers, handler), true
	return nil
}

// receivedOptions are the argument of received.
type receivedOptions struct {
	Events  int64     `json:"events"`
	Timeout *duration `json:"timeout"`
}

// Received resolves when every subscription has received so many events or,
// where no number is given, all that was fired so far; or when the time is
// over. complete tells which.
func (s *subscription) Received(options sobek.Value) (*sobek.Promise, error) {
	var o receivedOptions
	if _, err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("received: %w", err)
	}
	if o.Events < 0 {
		return nil, fmt.Errorf("received: options: events must not be negative")
	}
	g, ctx := s.g, s.g.m.vu.Context()
	promise, resolve, _ := promises.New(g.m.vu)
	g.m.hub.work.Go(func() {
		var complete bool
		if o.Events > 0 {
			complete = g.await(ctx.Done(), o.Events, o.Timeout.or(defaultReceived))
		} else {
			complete = g.settled(ctx, o.Timeout.or(defaultReceived))
		}
		g.flush(false)
		out := g.figures()
		resolve(map[string]any{
			"complete": complete, "delivered": out.delivered, "duplicates": out.copies, "outOfOrder": out.outOfOrder,
			"unexpected": out.unexpected,
		})
	})
	return promise, nil
}

// await waits until every subscription has received n events.
func (g *group) await(over <-chan struct{}, n int64, limit time.Duration) bool {
	look, push, end := time.NewTicker(lookEvery), time.NewTicker(flushEvery), time.NewTimer(limit)
	defer look.Stop()
	defer push.Stop()
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
		case <-push.C:
			g.flush(false)
		case <-end.C:
			return false
		case <-over:
			return false
		case <-g.done:
			return false
		}
	}
}

// figures are those of the last flush.
func (g *group) figures() totals {
	g.pushing.Lock()
	defer g.pushing.Unlock()
	return g.pushed
}

// Close waits until everything that was fired before has come, for the
// subscription's settle time at most, ends the subscriptions, and resolves with
// their figures. Called again it gives the same figures.
func (s *subscription) Close() *sobek.Promise {
	g, ctx := s.g, s.g.m.vu.Context()
	promise, resolve, _ := promises.New(g.m.vu)
	g.m.hub.work.Go(func() {
		g.finish(ctx, g.book.settle)
		out := g.sum.script()
		g.mu.Lock()
		out["unhandled"] = g.skipped
		g.mu.Unlock()
		resolve(out)
	})
	return promise
}

// CertPEM is the certificate authority of the webhook listener, which the
// target has to trust; empty in other modes.
func (s *subscription) CertPEM() string {
	if r, ok := s.g.dialect.(dialect.Receiver); ok {
		return string(r.CertPEM())
	}
	return ""
}
