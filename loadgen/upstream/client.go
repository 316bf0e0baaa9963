package upstream

import (
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
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

const (
	// DefaultTimeout bounds one emission, connecting included.
	DefaultTimeout = 5 * time.Second
	// DefaultConnections is how many idle connections are kept.
	DefaultConnections = 64
	// maxAnswer is how much of an answer is read, so that its connection can be
	// used again. A longer one costs its connection.
	maxAnswer = 64 << 10
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// client sends one request at a time for each caller and says what became of
// it. It follows no redirect and uses no proxy: the request goes where the
// profile says, or nowhere.
type client struct {
	failures
	transport *http.Transport
	timeout   time.Duration
	secret    string // stays out of error texts; "" = there is none
}

func newClient(timeout time.Duration, connections int, tlsConfig *tls.Config) *client {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	if connections <= 0 {
		connections = DefaultConnections
	}
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	return &client{timeout: timeout, transport: &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig.Clone(),
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}}
}

// through has connections made by dial; nil leaves it to the system.
func (c *client) through(dial DialFunc) *client {
	if dial != nil {
		c.transport.DialContext = dial
	}
	return c
}

// do sends req. status is 0 when there was no answer.
//
// A request that got no connection was never sent, so it is refused. Once it
// has one, an error leaves open whether the other side read it.
func (c *client) do(ctx context.Context, req *http.Request) (outcome eventmeter.Outcome, status int) {
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
			return eventmeter.Uncertain, 0
		}
		return eventmeter.Refused, 0
	}
	defer answer.Body.Close()
	outcome = outcomeOf(answer.StatusCode)
	if outcome != eventmeter.Accepted {
		c.failed("%s %s: %s", req.Method, errtext.URL(req.URL), c.said(answer, req.URL))
	}
	// What else the answer says is of no interest, and neither is a failure to
	// read it: the upstream has spoken.
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	return outcome, answer.StatusCode
}

// why says why no answer came.
func (c *client) why(ctx context.Context, err error, req *http.Request) string {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Sprintf("no answer within %v", c.timeout)
	}
	return errtext.Hide(errtext.FirstLine([]byte(err.Error())), req.URL, c.secret)
}

// maxSaid is how much of an answer's body is read for an error text.
const maxSaid = 4 << 10

// said puts the status of an answer, where it redirects to, and the first line
// of its body on one line.
func (c *client) said(answer *http.Response, sentTo *url.URL) string {
	text := strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode))
	if to := answer.Header.Get("Location"); to != "" {
		text += ", Location " + errtext.FirstLine([]byte(errtext.Address(to)))
	}
	if coding := answer.Header.Get("Content-Encoding"); coding == "" || strings.EqualFold(coding, "identity") {
		body := make([]byte, maxSaid)
		n, _ := io.ReadFull(answer.Body, body) // what was read is what is shown
		if line := errtext.FirstLine(body[:n]); line != "" {
			text += ": " + line
		}
	}
	return errtext.Hide(text, sentTo, c.secret)
}

// outcomeOf reads a status: a redirect or a 4xx says that nothing was taken, a
// 5xx does not say.
func outcomeOf(status int) eventmeter.Outcome {
	switch {
	case status >= 200 && status < 300:
		return eventmeter.Accepted
	case status >= 300 && status < 500:
		return eventmeter.Refused
	}
	return eventmeter.Uncertain
}

func (c *client) close() { c.transport.CloseIdleConnections() }
