package mcpevents

import (
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/loadgen/driver/events"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/grafana/sobek"
)

// endTimeout bounds the ending of a session.
const endTimeout = 5 * time.Second

// client is the object Client: one MCP endpoint, as one or several principals.
// Its exported methods are those of the script's object.
type client struct {
	m       *instance
	opts    mcpclient.EndpointOptions
	groups  jobs // that are open: an endpoint must be closed after its lanes
	listens atomic.Bool
	passed  meter // of the endpoints' own connections
	secrets *errtext.Secrets

	mu       sync.Mutex
	endpoint *mcpclient.Endpoint // nil until first used
	resumes  *mcpclient.Endpoint // says that its requests can be resumed; nil until first used
}

// client makes a Client. In the body of an iteration it ends with the iteration,
// or with the subscriptions that it keeps open; in the init context it ends with
// the test.
func (m *instance) client(url, options sobek.Value) (*client, error) {
	if url == nil || sobek.IsUndefined(url) || sobek.IsNull(url) {
		return nil, errors.New("give the URL of the MCP endpoint")
	}
	var o clientOptions
	if err := decode(options, &o); err != nil {
		return nil, err
	}
	if o.Token != "" {
		if len(o.Tokens) > 0 {
			return nil, errors.New("options: there are token and tokens: give one of them")
		}
		o.Tokens = []string{o.Token}
	}
	tokens, err := oauthOf(o.OAuth)
	if err != nil {
		return nil, err
	}
	c := &client{m: m, opts: mcpclient.EndpointOptions{
		URL: url.String(), Tokens: o.Tokens, Headers: o.Headers, OAuth: tokens,
		Era: mcpclient.Era(o.Era), Version: o.Version, Revision: mcpclient.Revision(o.Revision),
		ClientName: "xk6-mcpevents", ClientVersion: "0.1", Eras: &m.hub.eras, Extensions: []string{events.Extension},
	}}
	if o.CA != "" {
		c.opts.Roots = x509.NewCertPool()
		if !c.opts.Roots.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("options: ca: there is no certificate in it: give PEM, which k6's open() reads from a file")
		}
	}
	c.secrets = errtext.NewSecrets(secretsOf(c.opts)...)
	c.passed.totals = c.totals
	if _, err := mcpclient.NewEndpoint(c.opts); err != nil { // only checks the options: it opens no connections
		return nil, err
	}
	m.until(c.end)
	return c, nil
}

// met returns the endpoint. It is made at the first use, because the init context
// does not know how the VU connects; met must be called on the event loop, and not in
// the init context.
func (c *client) met() (*mcpclient.Endpoint, error) {
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
	c.endpoint, err = mcpclient.NewEndpoint(c.opts)
	c.passed.last.Store(c.m.origin())
	return c.endpoint, err
}

// totals returns the bytes of the endpoints' own connections.
func (c *client) totals() (sent, received int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range []*mcpclient.Endpoint{c.endpoint, c.resumes} {
		if e != nil {
			t := e.Traffic()
			sent, received = sent+t.Up, received+t.Down
		}
	}
	return sent, received
}

// end closes the endpoint after its groups.
func (c *client) end(ctx context.Context) {
	c.groups.wait(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	c.mu.Lock()
	for _, e := range []*mcpclient.Endpoint{c.endpoint, c.resumes} {
		if e != nil {
			e.EndTokens()
			_ = e.Close(ctx) // nothing can be done about an error here
		}
	}
	c.mu.Unlock()
	c.passed.rest()
}

// resumable returns the endpoint for requests that can be resumed; met returns
// the endpoint for all others.
func (c *client) resumable() (*mcpclient.Endpoint, error) {
	if _, err := c.met(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumes != nil {
		return c.resumes, nil
	}
	o := c.opts
	o.Capabilities = systems.Capabilities()
	var err error
	c.resumes, err = mcpclient.NewEndpoint(o)
	return c.resumes, err
}

// secretsOf returns the texts of options that a script must not print if the target
// repeats them.
func secretsOf(o mcpclient.EndpointOptions) []string {
	all := append(errtext.InURL(o.URL), o.Tokens...)
	if o.OAuth != nil {
		all = append(all, o.OAuth.Secret)
	}
	for name, value := range o.Headers {
		if strings.EqualFold(name, "Host") {
			continue
		}
		_, credential, _ := strings.Cut(value, " ") // Bearer, Basic
		all = append(all, value, credential)
	}
	return all
}

// address is the URL of the endpoint, without secrets.
func (c *client) address() string { return errtext.Address(c.opts.URL) }

// cleaned is an error whose text can be printed.
type cleaned struct {
	text  string
	cause error
}

func (e *cleaned) Error() string { return e.text }

func (e *cleaned) Unwrap() error { return e.cause }

// clean returns err with text from the target made safe to print, and the client's
// secrets hidden.
func (c *client) clean(err error) error { return &cleaned{c.secrets.Scrub(err.Error()), err} }
