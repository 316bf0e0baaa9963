package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grafana/sobek"
	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/loadgen/dialect"
	"go.k6.io/k6/v2/js/promises"
)

const (
	// defaultReady bounds the opening of a group of subscriptions.
	defaultReady = 30 * time.Second
	// endTimeout bounds the ending of a session.
	endTimeout = 5 * time.Second
)

// client is the object Client: one MCP endpoint, as one or several principals.
// Its exported methods are those of the script's object.
type client struct {
	m        *instance
	endpoint *dialect.Endpoint
}

// client makes a Client. In the body of an iteration it ends with the
// iteration; in the init context it lives as long as the process.
func (m *instance) client(url, options sobek.Value) (*client, error) {
	if url == nil || sobek.IsUndefined(url) || sobek.IsNull(url) {
		return nil, errors.New("give the URL of the MCP endpoint")
	}
	var o clientOptions
	if _, err := decode(options, &o); err != nil {
		return nil, err
	}
	if o.Token != "" {
		if len(o.Tokens) > 0 {
			return nil, errors.New("options: there are token and tokens: give one of them")
		}
		o.Tokens = []string{o.Token}
	}
	e, err := dialect.NewEndpoint(dialect.EndpointOptions{
		URL: url.String(), Tokens: o.Tokens, Headers: o.Headers, Era: dialect.Era(o.Era), Revision: dialect.Revision(o.Revision),
		ClientName: "xk6-mcpevents", ClientVersion: "0.1",
	})
	if err != nil {
		return nil, err
	}
	c := &client{m: m, endpoint: e}
	if m.vu.State() != nil {
		ctx := m.vu.Context()
		m.hub.work.Add(1)
		context.AfterFunc(ctx, func() {
			defer m.hub.work.Done()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
			defer cancel()
			_ = e.Close(end) // the iteration is over: there is nobody to tell
		})
	}
	return c, nil
}

// Stream opens push streams and resolves with their Subscription once every
// one is active.
func (c *client) Stream(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(event, mcpload.Push, options)
}

// Poll begins to poll and resolves with the Subscription once every poller has
// its position.
func (c *client) Poll(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(event, mcpload.Poll, options)
}

// Subscribe registers webhooks, with a listener in this process, and resolves
// with their Subscription once every one is active.
func (c *client) Subscribe(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(event, mcpload.Webhook, options)
}

// open opens a group of subscriptions.
func (c *client) open(event string, mode mcpload.Mode, options sobek.Value) (*sobek.Promise, error) {
	if c.m.vu.State() == nil {
		return nil, fmt.Errorf("%s() belongs into setup() or an iteration, not into the init context", methodOf[mode])
	}
	o, err := readSubscribe(options, event, mode)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", methodOf[mode], err)
	}
	g, err := newGroup(c.m, event, mode, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", methodOf[mode], err)
	}
	d := o.dialect(event, mode)
	d.Clock, d.Recorder, d.Endpoint, d.Acked = c.m.hub.clock, g, c.endpoint, g.book.ledger.AckedAt
	if g.dialect, err = dialect.New(d); err != nil {
		g.drop()
		return nil, fmt.Errorf("%s: %w", methodOf[mode], err)
	}
	ctx := c.m.vu.Context()
	s := &subscription{g: g}
	g.gate = newGate(c.m.vu, g.handle)
	promise, resolve, reject := promises.New(c.m.vu)
	c.m.hub.work.Go(func() {
		err := g.attach(ctx, o.ReadyTimeout.or(defaultReady))
		if err != nil {
			g.finish(ctx, 0)
			reject(fmt.Errorf("%s %s: %w", methodOf[mode], event, err))
			return
		}
		g.watch(ctx)
		resolve(s)
	})
	return promise, nil
}
