package driver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// The methods of the MCP Events draft, and what ends a stream in the legacy era.
const (
	methodList        = "events/list"
	methodPoll        = "events/poll"
	methodStream      = "events/stream"
	methodSubscribe   = "events/subscribe"
	methodUnsubscribe = "events/unsubscribe"
	methodCancelled   = "notifications/cancelled"
)

// The methods of Smithery's triggers.
const (
	smitheryList        = "ai.smithery/events/list"
	smitherySubscribe   = "ai.smithery/events/subscribe"
	smitheryUnsubscribe = "ai.smithery/events/unsubscribe"
)

// methods are those of all systems: their header fields are made once for each
// agreement.
var methods = []string{
	methodList, methodPoll, methodStream, methodSubscribe, methodUnsubscribe, methodCancelled, methodListen,
	smitheryList, smitherySubscribe, smitheryUnsubscribe,
	methodEventResources, methodEventTemplates, methodRegister, methodDeregister,
}

// cancelTime bounds the goodbye of a legacy stream.
const cancelTime = 5 * time.Second

const (
	// maxAnswer bounds the answer of one call, in bytes.
	maxAnswer = 32 << 20
	// maxRefusal bounds an answer with an HTTP status that is no success.
	maxRefusal = 1 << 20
)

// maxQuoted bounds what is looked at of a body that is quoted in an error.
const maxQuoted = 4 << 10

// bodyLimit bounds the body of an answer.
func bodyLimit(status int) int {
	if status < 200 || status > 299 {
		return maxRefusal
	}
	return maxAnswer
}

// caller sends requests and reads their answers. It goes below http.Client:
// there are no redirects to follow (a target of a load test that redirects is
// a surprise to be reported) and no cookies to keep.
type caller struct {
	transport http.RoundTripper
	url       *url.URL
	host      string
	clock     *eventmeter.Clock
	rec       eventmeter.Recorder // of a lane; nil otherwise
	pipe      *pipe               // nil unless the target is a program
	traffic   *wire.Traffic       // of what goes over the pipe; nil = counted nowhere
	patience  *patience           // with the ends of answers; nil = they are not waited for
	budget    *budget.Budget
	lane      uint16 // of rec
}

// caller makes a caller of the endpoint's own, whose connections the handshakes
// use, too.
func (e *Endpoint) caller(clock *eventmeter.Clock, traffic *wire.Traffic) caller {
	return caller{transport: e.transport, url: e.url, host: e.host, clock: clock, pipe: e.pipe, traffic: traffic, patience: &e.patience, budget: e.opts.Budget}
}

// laneCaller makes the caller of a lane, which has its own connections.
func (e *Endpoint) laneCaller(opts *Options, transport http.RoundTripper, traffic *wire.Traffic) caller {
	c := e.caller(opts.Clock, traffic)
	c.transport, c.rec, c.lane = transport, opts.Recorder, opts.Lane
	return c
}

// answer is what came of one call. release gives its buffer back; msg is not
// valid afterwards.
type answer struct {
	err    *callError
	msg    wire.Message
	at     eventmeter.Instant // when the last byte was read
	took   time.Duration
	up     int64
	down   int64
	date   time.Time // the Date header, zero if there was none
	status int
	sent   bool // over a pipe: it was handed to the server

	want []byte // the id that it has to name, as JSON; nil = any

	buf  *[]byte
	hold budget.Hold // of buf
}

var answerBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxPooled keeps the odd large answer from staying in the pool for ever.
const maxPooled = 64 << 10

func (a *answer) release() {
	if a.buf != nil && cap(*a.buf) <= maxPooled {
		answerBuffers.Put(a.buf)
	}
	a.buf = nil
	a.hold.Drop()
}

// keep appends b to the answer's text.
func (a *answer) keep(b []byte) error {
	*a.buf = append(*a.buf, b...)
	return a.hold.Resize(cap(*a.buf))
}

// request makes a request out of parts that many requests share.
func (c *caller) request(ctx context.Context, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method: http.MethodPost, URL: c.url, Host: c.host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx)
}

// call sends one request and reads the answer, whether it is one JSON object
// or an event stream that ends with it. header is shared and not written.
func (c *caller) call(ctx context.Context, method string, header http.Header, body []byte) *answer {
	if c.pipe != nil {
		return c.callPipe(ctx, method, body)
	}
	a := &answer{up: requestSize(http.MethodPost, c.url.RequestURI(), header, int64(len(body))), want: wire.RequestID(body)}
	start := c.clock.Now()
	defer func() {
		if a.at == 0 {
			a.at = c.clock.Now()
		}
		a.took = a.at.Sub(start)
		if a.err != nil {
			a.err.method = method
		}
	}()
	resp, err := c.transport.RoundTrip(c.request(ctx, header, body))
	if err != nil {
		a.err = transportError(ctx, err)
		return a
	}
	defer resp.Body.Close()
	a.read(ctx, c, resp, method)
	return a
}

// transportError prefers what the context says: a request that was given up
// reports a dozen different errors.
func transportError(ctx context.Context, err error) *callError {
	if cause := ctx.Err(); cause != nil {
		return &callError{kind: kind(cause), cause: cause}
	}
	return &callError{kind: kind(err), cause: err}
}

// read reads the answer's body and judges it.
func (a *answer) read(ctx context.Context, c *caller, resp *http.Response, method string) {
	a.status = resp.StatusCode
	a.down = responseSize(resp)
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.date = t
	}
	a.buf, a.hold = answerBuffers.Get().(*[]byte), budget.Of(c.budget)
	*a.buf = (*a.buf)[:0] // another answer may have had it
	var found bool
	var err error
	if isEventStream(resp.Header) {
		found, err = a.readStream(c, resp.Body)
	} else {
		found, err = a.readObject(c, resp.Body)
	}
	if a.err = judge(resp, &a.msg, found); a.err != nil {
		a.err.quote((*a.buf)[:min(len(*a.buf), maxQuoted)], c.url)
	} else if !answers(&a.msg, a.want) {
		a.err = &callError{kind: kindProtocol, status: a.status, message: errtext.Of("the answer names the id " + nameOf(a.msg.ID) + ", the request has " + string(a.want))}
	}
	if a.err != nil && a.err.kind == kindProtocol && err != nil {
		a.err = transportError(ctx, err)
	}
	c.tooLarge(a.at, err)
	if a.err == nil && len(a.msg.Cursor) > maxCursor {
		a.err = &callError{kind: kindOversized, status: a.status, cause: errCursor}
		c.tooLarge(a.at, errCursor)
	}
}

// judge makes an error of an answer that is none, or a bad one. An error is
// read from the body whatever the status: servers send the same error with
// 200, 400 or 404.
func judge(resp *http.Response, m *wire.Message, found bool) *callError {
	status := resp.StatusCode
	e := &callError{status: status, retryAfter: retryAfter(resp.Header, time.Now())}
	switch {
	case found && m.HasError:
		e.rpc(&m.Error)
		return e
	case status < 200 || status > 299:
		return e
	case found && m.HasResult:
		return nil
	}
	e.kind, e.message = kindProtocol, "the answer holds no JSON-RPC result"
	if coding := compressed(resp.Header); coding != "" {
		e.message = errtext.Of("the answer is compressed (" + coding + "), which was not asked for")
	}
	return e
}

// answers tells whether a response is that to the request with the id want. An
// error may have the id null: its sender could not read the request.
func answers(m *wire.Message, want []byte) bool {
	id := m.ID
	switch {
	case want == nil:
		return true
	case m.HasError && (id == nil || string(id) == "null"):
		return true
	}
	return bytes.Equal(bareID(id), want)
}

// bareID is an id without quotes: some servers make strings of numbers.
func bareID(tok []byte) []byte {
	if n := len(tok); n > 2 && tok[0] == '"' {
		return tok[1 : n-1]
	}
	return tok
}

func nameOf(id []byte) string {
	if id == nil {
		return "(none)"
	}
	return line(string(id))
}

// compressed names the coding of a body that is not what it seems; "" = none.
func compressed(h http.Header) string {
	if c := strings.TrimSpace(h.Get("Content-Encoding")); c != "" && !strings.EqualFold(c, "identity") {
		return line(c)
	}
	return ""
}

func (a *answer) readObject(c *caller, body io.Reader) (bool, error) {
	b := (*a.buf)[:0]
	for {
		var n int
		var err error
		if len(b) == cap(b) { // by doubling, and paid for first: what is outgrown is garbage for a while
			if err = a.hold.Resize(2 * cap(b)); err == nil {
				b = append(make([]byte, 0, 2*cap(b)), b...)
			}
		}
		if err == nil {
			n, err = body.Read(b[len(b):cap(b)])
		}
		a.at = c.clock.Now()
		b = b[:len(b)+n]
		if len(b) > bodyLimit(a.status) {
			err = wire.ErrTooLarge
		}
		if err != nil {
			*a.buf = b
			a.down += int64(len(b))
			if err == io.EOF {
				err = nil
			}
			return err == nil && wire.ScanMessage(b, &a.msg), err
		}
	}
}

// readStream reads an event stream up to the response: messages before it
// (progress, logs) are not for us. The stream's end is waited for, within
// bounds, but the answer has come before it.
func (a *answer) readStream(c *caller, body io.ReadCloser) (bool, error) {
	parser := wire.EventParser{Limit: bodyLimit(a.status), Budget: c.budget}
	defer parser.Reset()
	piece := make([]byte, 4<<10)
	found := false
	var full error // of the budget
	take := func(e wire.Event) {
		var m wire.Message
		if found || len(e.Data) == 0 || !wire.ScanMessage(e.Data, &m) || m.Method != nil || !m.HasResult && !m.HasError || !answers(&m, a.want) {
			return
		}
		*a.buf = (*a.buf)[:0]
		full = a.keep(e.Data)
		found = wire.ScanMessage(*a.buf, &a.msg)
	}
	for {
		n, err := body.Read(piece)
		a.at = c.clock.Now()
		a.down += int64(n)
		if perr := parser.Feed(piece[:n], take); perr != nil {
			return false, perr
		}
		if found {
			if err != io.EOF {
				a.down += c.patience.rest(body)
			}
			return full == nil, full
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}
