package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

const (
	// DefaultTimeout bounds one emission, connecting included.
	DefaultTimeout = 5 * time.Second
	// defaultConnections is how many idle connections are kept.
	defaultConnections = 64
	// maxAnswer bounds the bytes of an answer that are read so that its connection
	// can be used again. A longer answer closes the connection.
	maxAnswer = 64 << 10
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// ClientOptions are the options of all upstreams that send HTTP requests.
type ClientOptions struct {
	// Timeout of one emission; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Connections is how many idle connections are kept; 0 means 64. Use the number
	// of workers.
	Connections int
	// TLS configures https; nil means Go's defaults.
	TLS *tls.Config
	// Dial opens connections; nil means a net.Dialer.
	Dial DialFunc
}

// client sends requests and returns their outcome. It follows no redirect and uses no
// proxy, so that a request goes only where the profile says. Upstreams embed it. It is
// safe for concurrent use.
type client struct {
	failures
	transport *http.Transport
	timeout   time.Duration
	hidden    string // a secret that is removed from error texts; "" = none
}

func newClient(o ClientOptions) *client {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &client{timeout: o.Timeout, transport: &http.Transport{
		DialContext:         o.Dial,
		TLSClientConfig:     o.TLS.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        o.Connections,
		MaxIdleConnsPerHost: o.Connections,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}}
}

// httpURL parses an http or https URL with a host; ok is false for any other text.
func httpURL(text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// post sends one JSON body. header is given away.
func (c *client) post(ctx context.Context, url string, header http.Header, body []byte) eventmeter.Outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return eventmeter.Refused
	}
	req.Header = header
	return c.do(ctx, req)
}

// do sends req and returns what became of it.
//
// A request that got no connection was never sent, so it is refused. Once it
// has one, an error leaves open whether the other side read it.
func (c *client) do(ctx context.Context, req *http.Request) eventmeter.Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport tries again by itself only when nothing was written.
		GetConn: func(string) { connected.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	answer, err := c.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		c.failed("%s %s: %s", req.Method, errtext.URL(req.URL), c.why(ctx, err, req))
		if connected.Load() {
			return eventmeter.Uncertain
		}
		return eventmeter.Refused
	}
	defer answer.Body.Close()
	outcome := outcomeOf(answer.StatusCode)
	if outcome != eventmeter.Accepted {
		c.failed("%s %s: %s", req.Method, errtext.URL(req.URL), c.said(answer, req.URL))
	}
	// The rest is read only to use the connection again: the outcome is known.
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	return outcome
}

// why returns why no answer came, in one line.
func (c *client) why(ctx context.Context, err error, req *http.Request) string {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Sprintf("no answer within %v", c.timeout)
	}
	text := errtext.Hide(errtext.FirstLine([]byte(err.Error())), req.URL, c.hidden)
	if way := errtext.WayOut(err); way != "" {
		text += ": " + way
	}
	return text
}

// maxSaid is how much of an answer's body is read for an error text.
const maxSaid = 4 << 10

// said returns one line with an answer's status, its Location and the first line of
// its body.
func (c *client) said(answer *http.Response, sentTo *url.URL) string {
	text := strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode))
	if to := answer.Header.Get("Location"); to != "" {
		text += ", Location " + errtext.FirstLine([]byte(errtext.Address(to)))
	}
	if coding := answer.Header.Get("Content-Encoding"); coding == "" || strings.EqualFold(coding, "identity") {
		body := make([]byte, maxSaid)
		n, _ := io.ReadFull(answer.Body, body) // a partial body will do
		if line := errtext.FirstLine(body[:n]); line != "" {
			text += ": " + line
		}
	}
	return errtext.Hide(text, sentTo, c.hidden)
}

// outcomeOf returns the outcome for a status. A redirect or a 4xx means that nothing
// was accepted; after a 5xx that is not known.
func outcomeOf(status int) eventmeter.Outcome {
	switch {
	case status >= 200 && status < 300:
		return eventmeter.Accepted
	case status >= 300 && status < 500:
		return eventmeter.Refused
	}
	return eventmeter.Uncertain
}

// Close implements [Upstream].
func (c *client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// failures implements [Explainer].
type failures struct {
	mu            sync.Mutex
	first, latest string // guarded by mu
}

// failed keeps why an emission was not accepted.
func (f *failures) failed(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == "" {
		f.first = text
	}
	f.latest = text
}

// Failures implements [Explainer].
func (f *failures) Failures() (first, latest string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first, f.latest
}
