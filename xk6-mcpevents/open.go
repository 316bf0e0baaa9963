package mcpevents

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/grafana/sobek"
)

// Stream opens push streams and resolves with their Subscription once every
// one is active.
func (c *client) Stream(event string, options sobek.Value) *sobek.Promise {
	return c.open(way{"stream", eventmeter.Push, event}, options)
}

// Poll begins to poll and resolves with the Subscription once every poller has
// its position.
func (c *client) Poll(event string, options sobek.Value) *sobek.Promise {
	return c.open(way{"poll", eventmeter.Poll, event}, options)
}

// Subscribe registers webhooks and resolves with their Subscription once all are
// active.
func (c *client) Subscribe(event string, options sobek.Value) *sobek.Promise {
	return c.open(way{"subscribe", eventmeter.Webhook, event}, options)
}

// WatchLists makes clients use a list and keep it for its time to live, and resolves
// with the Subscription once every client has its first copy.
func (c *client) WatchLists(list string, options sobek.Value) *sobek.Promise {
	return c.open(way{"watchLists", eventmeter.Poll, list}, options)
}

// Resumable makes long requests that lose their connection and are resumed, and
// resolves with the Subscription once every first request can be resumed.
func (c *client) Resumable(tool, options sobek.Value) *sobek.Promise {
	w := way{"resumable", eventmeter.Push, "work"}
	if tool != nil && !sobek.IsUndefined(tool) && !sobek.IsNull(tool) {
		w.what = tool.String()
	}
	return c.open(w, options)
}

// open opens a group of subscriptions.
func (c *client) open(w way, options sobek.Value) *sobek.Promise {
	fail := func(err error) *sobek.Promise { return c.m.rejected(fmt.Errorf("%s: %w", w.method, err)) }
	if c.m.vu.State() == nil {
		return fail(errors.New("call it in setup() or an iteration, not in the init context"))
	}
	o, err := readSubscribe(options, w)
	if err != nil {
		return fail(err)
	}
	g, err := newGroup(c, w, o)
	if err != nil {
		if err = c.m.fatal(err); err == nil {
			return nil // the script does not continue
		}
		return fail(err)
	}
	if err = c.prepare(g, w, o); err != nil {
		g.discard()
		return fail(err)
	}
	c.warnAssumptions(o)
	ctx := c.m.vu.Context()
	life := &c.m.hub.life
	if o.Keep == "" {
		g.wakeup, g.during = &wakeup{vu: c.m.vu, work: g.handle}, c.m.iteration()
	}
	promise, resolve, reject := c.m.promised()
	c.groups.begin()
	life.work.Go(func() {
		if err := g.attach(ctx, o.ReadyTimeout.or(defaultReady)); err != nil {
			g.unopened = true
			g.finish(ctx, 0)
			reject(c.clean(fmt.Errorf("%s %s at %s: %w", w.method, w.what, c.address(), err)))
			return
		}
		if o.Keep == "" {
			g.watch(ctx)
		}
		life.work.Go(g.pump)
		resolve(&subscription{m: c.m, g: g})
	})
	return promise
}

// warnAssumptions logs the assumptions about the imitated client, once.
func (c *client) warnAssumptions(o *subscribeOptions) {
	for _, text := range o.webhook.Assumptions(o.Client) {
		if _, before := c.m.hub.warned.LoadOrStore("assumption: "+text, true); !before {
			c.m.vu.State().Logger.Warnf("client %s: %s", o.Client, text)
		}
	}
}

// prepare gives a group its driver and its name.
func (c *client) prepare(g *group, w way, o *subscribeOptions) (err error) {
	if g.driver, err = c.driver(g, w, o); err != nil {
		g.driver = nil // it may be a nil pointer of a type
		return err
	}
	// A session of the legacy era has a single stream for messages that belong to no
	// request.
	if s, ok := o.settings.(interface{ Listens() bool }); ok && s.Listens() {
		if c.listens.Swap(true) {
			return errors.New("options: listen: other subscriptions of this Client listen already: close them first, or use another Client")
		}
		g.listens = true
	}
	if o.Keep != "" {
		return c.m.hub.life.keep(o.Keep, g)
	}
	return nil
}

// driver makes the driver of a group.
func (c *client) driver(g *group, w way, o *subscribeOptions) (driver.Driver, error) {
	d := o.driver(w)
	ep, err := c.met()
	if err != nil {
		return nil, err
	}
	d.Clock, d.Recorder, d.Endpoint, d.Published = c.m.hub.clock, g, ep, c.m.hub.all
	g.meters = append(g.meters, &c.passed)
	if o.Payload {
		d.Recorder = &observer{g}
	}
	switch {
	case w.method == "resumable":
		if d.Endpoint, err = c.resumable(); err != nil {
			return nil, err
		}
	case w.method == "watchLists":
		sources := []uint16{g.book.topic}
		d.Owed = func(int) []uint16 { return sources }
	case w.mode == eventmeter.Webhook && o.sink != nil:
		l, err := o.sink.open()
		if err != nil {
			return nil, err
		}
		d.Listener.Shared, g.meters = l.SharedListener, append(g.meters, l.passed)
		d.Listener.Prefix = fmt.Sprintf("/mcp/%d", c.m.hub.lanes.Add(1))
	case w.mode == eventmeter.Webhook:
		if d.Listener.Authority, err = c.m.hub.authority(); err != nil {
			return nil, err
		}
		own := new(wire.Traffic)
		d.Listener.Wrap, g.meters = own.Listener, append(g.meters, &meter{totals: totalsOf(own)})
	}
	lane, err := systems.New(d)
	if m, ok := lane.(driver.Meter); ok && err == nil {
		g.meters = append(g.meters, &meter{totals: func() (sent, received int64) {
			t := m.Traffic()
			return t.Up, t.Down
		}})
	}
	return lane, err
}

// defaultReady bounds the opening of a group of subscriptions.
const defaultReady = 30 * time.Second
