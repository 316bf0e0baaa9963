package mcpevents

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/grafana/sobek"
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
	m       *instance
	opts    driver.EndpointOptions
	groups  jobs // that are open: an endpoint must be closed after its lanes
	listens atomic.Bool
	passed  meter // of the endpoints' own connections
	secrets *errtext.Secrets

	mu       sync.Mutex
	endpoint *driver.Endpoint // nil until it is needed
	resumes  *driver.Endpoint // says that its requests can be resumed; nil until it is needed
}

// client makes a Client. In the body of an iteration it ends with the
// iteration, or with what it keeps open; in the init context it lives until
// the test ends.
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
	c := &client{m: m, opts: driver.EndpointOptions{
		URL: url.String(), Tokens: o.Tokens, Headers: o.Headers, Era: driver.Era(o.Era), Revision: driver.Revision(o.Revision),
		ClientName: "xk6-mcpevents", ClientVersion: "0.1", Eras: &m.hub.eras,
	}}
	if o.CA != "" {
		c.opts.Roots = x509.NewCertPool()
		if !c.opts.Roots.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("options: ca: there is no certificate in it: give PEM, which k6's open() reads from a file")
		}
	}
	c.secrets = errtext.NewSecrets(secretsOf(c.opts)...)
	c.passed.totals = c.totals
	if _, err := driver.NewEndpoint(c.opts); err != nil { // only looked at: there are no connections
		return nil, err
	}
	m.until(c.end)
	return c, nil
}

// met returns the endpoint. It is made when it is first needed, because the
// init context does not know how the VU connects; this must be on the event
// loop, and not in the init context.
func (c *client) met() (*driver.Endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoint != nil {
		return c.endpoint, nil
	}
	n, err := networkOf(c.m.vu.State(), c.m.hub.guard)
	if err != nil {
		return nil, err
	}
	c.opts.TLS, c.opts.Resolve, c.opts.LocalAddrs = n.tls, n.resolve, n.locals()
	c.endpoint, err = driver.NewEndpoint(c.opts)
	c.passed.last.Store(c.m.origin())
	return c.endpoint, err
}

// totals are the bytes of the endpoints' own connections.
func (c *client) totals() (sent, received int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range []*driver.Endpoint{c.endpoint, c.resumes} {
		if e != nil {
			t := e.Traffic()
			sent, received = sent+t.Up, received+t.Down
		}
	}
	return sent, received
}

// until has something closed when the iteration is over, or, in the init
// context, when the test is.
func (m *instance) until(done func(context.Context)) {
	life := &m.hub.life
	if m.vu.State() == nil {
		life.atEnd(done)
		return
	}
	life.work.begin()
	context.AfterFunc(m.vu.Context(), func() {
		defer life.work.end()
		done(life.over)
	})
}

// end closes the endpoint after everything that is open there.
func (c *client) end(ctx context.Context) {
	c.groups.wait(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	c.mu.Lock()
	for _, e := range []*driver.Endpoint{c.endpoint, c.resumes} {
		if e != nil {
			_ = e.Close(ctx) // there is nobody to tell
		}
	}
	c.mu.Unlock()
	c.passed.rest()
}

// resumable returns the endpoint for requests that can be resumed, as met does
// that for all others.
func (c *client) resumable() (*driver.Endpoint, error) {
	if _, err := c.met(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumes != nil {
		return c.resumes, nil
	}
	o := c.opts
	o.Capabilities = []string{driver.ResumableRequests}
	var err error
	c.resumes, err = driver.NewEndpoint(o)
	return c.resumes, err
}

// Stream opens push streams and resolves with their Subscription once every
// one is active.
func (c *client) Stream(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(way{"stream", eventmeter.Push, event}, options)
}

// Poll begins to poll and resolves with the Subscription once every poller has
// its position.
func (c *client) Poll(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(way{"poll", eventmeter.Poll, event}, options)
}

// Subscribe registers webhooks and resolves with their Subscription once every
// one is active.
func (c *client) Subscribe(event string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(way{"subscribe", eventmeter.Webhook, event}, options)
}

// listChanged is the event of systems that learn of changes from lists.
const listChanged = "list.changed"

// WatchLists has clients use a list and keep it for its time to live, and
// resolves with the Subscription once every one has its first copy.
func (c *client) WatchLists(list string, options sobek.Value) (*sobek.Promise, error) {
	return c.open(way{"watchLists", eventmeter.Poll, list}, options)
}

// Resumable makes long requests that lose their connection and are resumed,
// and resolves with the Subscription once every first one can be.
func (c *client) Resumable(tool, options sobek.Value) (*sobek.Promise, error) {
	w := way{"resumable", eventmeter.Push, "work"}
	if tool != nil && !sobek.IsUndefined(tool) && !sobek.IsNull(tool) {
		w.what = tool.String()
	}
	return c.open(w, options)
}

// way is how subscriptions are opened: the method, the mode that it means, and
// its first argument.
type way struct {
	method string
	mode   eventmeter.Mode
	what   string
}

// open opens a group of subscriptions.
func (c *client) open(w way, options sobek.Value) (*sobek.Promise, error) {
	fail := func(err error) (*sobek.Promise, error) { return nil, fmt.Errorf("%s: %w", w.method, err) }
	if c.m.vu.State() == nil {
		return fail(errors.New("it belongs into setup() or an iteration, not into the init context"))
	}
	o, err := readSubscribe(options, w)
	if err != nil {
		return fail(err)
	}
	g, err := newGroup(c, w, o)
	if err != nil {
		if err = c.m.fatal(err); err == nil {
			return nil, nil
		}
		return fail(err)
	}
	if err = c.prepare(g, w, o); err != nil {
		g.discard()
		return fail(err)
	}
	ctx := c.m.vu.Context()
	life := &c.m.hub.life
	if o.Keep == "" {
		g.gate = newGate(c.m.vu, g.handle)
	}
	promise, resolve, reject := c.m.promised()
	c.groups.begin()
	life.work.Go(func() {
		if err := g.attach(ctx, o.ReadyTimeout.or(defaultReady)); err != nil {
			g.unopened = true
			g.finish(ctx, 0)
			reject(c.clean(fmt.Errorf("%s %s: %w", w.method, w.what, err)))
			return
		}
		if o.Keep == "" {
			g.watch(ctx)
		}
		life.work.Go(g.pump)
		resolve(&subscription{m: c.m, g: g})
	})
	return promise, nil
}

// prepare gives a group its client side, and its name.
func (c *client) prepare(g *group, w way, o *subscribeOptions) (err error) {
	if g.driver, err = c.driver(g, w, o); err != nil {
		g.driver = nil // it may be one of a type, without a value
		return err
	}
	// A session of the legacy era has one stream for what belongs to no request.
	if o.Listen {
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

// driver makes the client side of a group.
func (c *client) driver(g *group, w way, o *subscribeOptions) (driver.Driver, error) {
	d := o.driver(w)
	ep, err := c.met()
	if err != nil {
		return nil, err
	}
	d.Clock, d.Recorder, d.Endpoint, d.Acked = c.m.hub.clock, g, ep, c.m.hub.all.AckedAt
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
		hears := []uint16{g.book.topic}
		d.SEP2549.Emissions = c.m.hub.all
		d.SEP2549.Hears = func(int) []uint16 { return hears }
	case w.mode == eventmeter.Webhook && o.sink != nil:
		l, err := o.sink.open()
		if err != nil {
			return nil, err
		}
		d.Webhook.Shared, g.meters = l.SharedListener, append(g.meters, l.passed)
		d.Webhook.Prefix = fmt.Sprintf("/mcp/%d", c.m.hub.lanes.Add(1))
	case w.mode == eventmeter.Webhook:
		if d.Webhook.Authority, err = c.m.hub.authority(); err != nil {
			return nil, err
		}
		own := new(passing)
		d.Webhook.Wrap, g.meters = own.listener, append(g.meters, &meter{totals: own.totals})
	}
	lane, err := driver.New(d)
	if m, ok := lane.(driver.Meter); ok && err == nil {
		g.meters = append(g.meters, &meter{totals: func() (sent, received int64) {
			t := m.Traffic()
			return t.Up, t.Down
		}})
	}
	return lane, err
}

// secretsOf are the texts of options that a script must not print when the target
// repeats them.
func secretsOf(o driver.EndpointOptions) []string {
	all := append(errtext.InURL(o.URL), o.Tokens...)
	for name, value := range o.Headers {
		if strings.EqualFold(name, "Host") {
			continue
		}
		_, credential, _ := strings.Cut(value, " ") // Bearer, Basic
		all = append(all, value, credential)
	}
	return all
}

// cleaned is an error whose text can be printed.
type cleaned struct {
	text  string
	cause error
}

func (e *cleaned) Error() string { return e.text }
func (e *cleaned) Unwrap() error { return e.cause }

// clean makes an error that may say what the target said safe to print, and hides
// the client's secrets in it.
func (c *client) clean(err error) error { return &cleaned{c.secrets.Scrub(err.Error()), err} }
