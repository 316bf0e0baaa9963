package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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

// MethodCancelled ends a stream in the legacy era, and any request on a pipe.
const MethodCancelled = "notifications/cancelled"

// CancelTime bounds the notification that ends a stream of the legacy era.
const CancelTime = 5 * time.Second

const (
	// maxAnswer bounds the answer of one call, in bytes.
	maxAnswer = 32 << 20
	// MaxRefusal bounds an answer whose HTTP status is not 2xx, in bytes.
	MaxRefusal = 1 << 20
)

// maxQuoted bounds how much of a body is searched for the line that an error quotes,
// in bytes.
const maxQuoted = 4 << 10

// bodyLimit returns the limit for the body of an answer, in bytes.
func (c *Caller) bodyLimit(status int) int {
	if status < 200 || status > 299 {
		return MaxRefusal
	}
	return cmp.Or(c.Limit, maxAnswer)
}

// Caller sends requests and reads their answers. It uses a transport instead of an
// http.Client: redirects are reported as errors rather than followed, and no cookies
// are kept. It is safe for concurrent use.
type Caller struct {
	Transport http.RoundTripper
	URL       *url.URL
	host      string
	Clock     *eventmeter.Clock
	Recorder  eventmeter.Recorder // of a lane; nil otherwise
	Pipe      *Pipe               // nil unless the target is a program
	traffic   *wire.Traffic       // counts what goes over the pipe; nil = nothing does
	Patience  *Patience           // how long to wait for the ends of answers; nil = not at all
	Budget    *budget.Budget
	Limit     int    // of an answer, in bytes; 0 = 32 MiB
	Lane      uint16 // of Recorder
	tokens    *tokens
}

// Caller returns a caller that uses the endpoint's own connections, as handshakes do.
func (e *Endpoint) Caller(clock *eventmeter.Clock, traffic *wire.Traffic) Caller {
	return Caller{
		Transport: e.Renewing(e.transport, nil),
		URL:       e.url,
		host:      e.host,
		Clock:     clock,
		Pipe:      e.pipe,
		traffic:   traffic,
		Patience:  &e.patience,
		Budget:    e.opts.Budget,
		tokens:    e.tokens,
	}
}

// Answer is the result of one call. Release returns its buffer; Msg and Buf are not
// valid afterwards.
type Answer struct {
	Err     *CallError
	Msg     wire.Message
	At      eventmeter.Instant // when the last byte was read
	Took    time.Duration
	Up      int64
	Down    int64
	Date    time.Time // the Date header, zero if there was none
	Status  int
	sent    bool   // over a pipe: the request was queued for the server
	session string // of an answer to initialize: the id of the session; "" = none
	// Before are the methods of the notifications that preceded the answer on its
	// stream, apart from progress and logs.
	Before []string

	Want []byte // the id that the answer must have, as JSON; nil = any

	Buf  *[]byte     // the text of the answer
	hold budget.Hold // of Buf
}

// Began returns when the request was sent.
func (a *Answer) Began() eventmeter.Instant { return a.At.Add(-a.Took) }

var answerBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxPooled is the largest buffer that is reused, so that one large answer does not
// occupy its size for ever.
const maxPooled = 64 << 10

// Release returns the answer's buffer, if it has one. Calling it twice is harmless.
func (a *Answer) Release() {
	if a.Buf != nil && cap(*a.Buf) <= maxPooled {
		answerBuffers.Put(a.Buf)
	}
	a.Buf = nil
	a.hold.Drop()
}

// keep appends b to the answer's text.
func (a *Answer) keep(b []byte) error {
	*a.Buf = append(*a.Buf, b...)
	return a.hold.Resize(cap(*a.Buf))
}

// NewPost returns a POST request. header is shared with other requests and must not be
// changed.
func (c *Caller) NewPost(ctx context.Context, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method: http.MethodPost, URL: c.URL, Host: c.host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx)
}

// NewRequest returns a request without a body.
func (c *Caller) NewRequest(ctx context.Context, method string, header http.Header) *http.Request {
	req := &http.Request{Method: method, URL: c.URL, Host: c.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return req.WithContext(ctx)
}

// NewGet returns a GET request, for the stream of a session.
func (c *Caller) NewGet(ctx context.Context, header http.Header) *http.Request {
	return c.NewRequest(ctx, http.MethodGet, header)
}

// Call sends one request and reads the answer, which is a JSON object or an event
// stream that ends with one. header is shared with other requests and not changed. The
// caller must release the Answer.
func (c *Caller) Call(ctx context.Context, method string, header http.Header, body []byte) *Answer {
	return c.send(ctx, method, header, body, true)
}

// send sends a request or a notification. Only within the response to a request, requests of the
// server are answered: one that asks in every answer to a reply would be replied to without end.
func (c *Caller) send(ctx context.Context, method string, header http.Header, body []byte, request bool) *Answer {
	if c.Pipe != nil {
		return c.callPipe(ctx, method, body)
	}
	a := &Answer{Up: RequestSize(http.MethodPost, c.URL.RequestURI(), header, int64(len(body))), Want: wire.RequestID(body)}
	start := c.Clock.Now()
	defer func() {
		if a.At == 0 {
			a.At = c.Clock.Now()
		}
		a.Took = a.At.Sub(start)
		if a.Err != nil && !a.Err.NoToken() {
			a.Err.Method = method
		}
	}()
	req := c.NewPost(ctx, header, body)
	resp, err := c.Transport.RoundTrip(req)
	if err != nil {
		a.Err = TransportError(ctx, err)
		a.Down = a.Err.down
		return a
	}
	defer resp.Body.Close()
	if resp.Request = nil; request {
		resp.Request = req
	}
	a.Read(ctx, c, resp, method)
	return a
}

// TransportError returns the error of a request that got no answer. If ctx has ended,
// it is the error of ctx, because a request that was given up can fail in a dozen ways.
func TransportError(ctx context.Context, err error) *CallError {
	if e := (*CallError)(nil); errors.As(err, &e) && e.NoToken() {
		return e
	}
	if cause := ctx.Err(); cause != nil {
		return &CallError{Kind: KindOf(cause), Cause: cause}
	}
	return &CallError{Kind: KindOf(err), Cause: err}
}

// Read reads the answer's body and sets a.Err if it is not a result. method names the
// call in errors. With resp.Request, requests of the server within the body are answered.
func (a *Answer) Read(ctx context.Context, c *Caller, resp *http.Response, method string) {
	a.Status = resp.StatusCode
	a.Down = ResponseSize(resp)
	if method == methodInitialize {
		a.session = resp.Header.Get(HeaderSession)
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.Date = t
	}
	a.Buf, a.hold = answerBuffers.Get().(*[]byte), budget.Of(c.Budget)
	*a.Buf = (*a.Buf)[:0] // another answer may have used it
	var found bool
	var err error
	if IsEventStream(resp.Header) {
		found, err = a.readStream(ctx, c, resp)
	} else {
		if found, err = a.readObject(c, resp.Body); err == nil && wire.IsBatch(*a.Buf) {
			found = a.readBatch(ctx, c, resp)
		}
	}
	if a.Err = judge(resp, &a.Msg, found); a.Err != nil {
		a.Err.quote((*a.Buf)[:min(len(*a.Buf), maxQuoted)], c.URL)
	} else if !Answers(&a.Msg, a.Want) {
		a.Err = &CallError{
			Kind:    KindProtocol,
			Status:  a.Status,
			Message: errtext.Of("the answer names the id " + nameOf(a.Msg.ID) + ", the request has " + string(a.Want)),
		}
	} else if a.Want != nil {
		c.otherID(a)
	}
	if a.Err != nil && a.Err.Kind == KindProtocol && err != nil {
		a.Err = TransportError(ctx, err)
	}
	c.TooLarge(a.At, err)
	if a.Err == nil && len(a.Msg.Cursor) > MaxCursor {
		a.Err = &CallError{Kind: KindOversized, Status: a.Status, Cause: ErrCursor}
		c.TooLarge(a.At, ErrCursor)
	}
}

// redirected is what an answer with a Location says.
func redirected(to string) string {
	return "it redirects to " + errtext.Address(to) + ", which is not followed"
}

// judge returns the error of an answer, nil if it is a result. A JSON-RPC error in the
// body takes precedence over the status: servers send the same error with 200, 400 or
// 404.
func judge(resp *http.Response, m *wire.Message, found bool) *CallError {
	status := resp.StatusCode
	e := &CallError{Status: status, RetryAfter: retryAfter(resp.Header, time.Now())}
	switch {
	case found && m.HasError:
		e.rpc(&m.Error)
		return e
	case status < 200 || status > 299:
		if to := resp.Header.Get("Location"); to != "" && status >= 300 && status <= 399 {
			e.Message = errtext.Of(redirected(to))
		}
		return e
	case found && m.HasResult:
		return nil
	}
	e.Kind, e.Message = KindProtocol, "the answer holds no JSON-RPC result"
	if coding := Compressed(resp.Header); coding != "" {
		e.Message = errtext.Of("the answer is compressed (" + coding + "), which was not asked for")
	}
	return e
}

// Answers reports whether m is the response to the request with the id want; nil = any.
// An error may have the id null: its sender could not read the request.
func Answers(m *wire.Message, want []byte) bool {
	id := m.ID
	switch {
	case want == nil:
		return true
	case m.HasError && (id == nil || string(id) == "null"):
		return true
	}
	return bytes.Equal(BareID(id), want)
}

// BareID returns an id without quotes: some servers turn numbers into strings.
func BareID(tok []byte) []byte {
	if n := len(tok); n > 2 && tok[0] == '"' {
		return tok[1 : n-1]
	}
	return tok
}

func nameOf(id []byte) string {
	if id == nil {
		return "(none)"
	}
	return errtext.Line(string(id))
}

// Compressed returns the content coding of a body; "" = it has none.
func Compressed(h http.Header) string {
	if c := strings.TrimSpace(h.Get("Content-Encoding")); c != "" && !strings.EqualFold(c, "identity") {
		return errtext.Line(c)
	}
	return ""
}

func (a *Answer) readObject(c *Caller, body io.Reader) (bool, error) {
	b := (*a.Buf)[:0]
	for {
		var n int
		var err error
		if len(b) == cap(b) { // charge the doubled buffer first; the old one stays in memory for a while
			if err = a.hold.Resize(2 * cap(b)); err == nil {
				b = append(make([]byte, 0, 2*cap(b)), b...)
			}
		}
		if err == nil {
			n, err = body.Read(b[len(b):cap(b)])
		}
		a.At = c.Clock.Now()
		b = b[:len(b)+n]
		if len(b) > c.bodyLimit(a.Status) {
			err = wire.ErrTooLarge
		}
		if err != nil {
			*a.Buf = b
			a.Down += int64(len(b))
			if err == io.EOF {
				err = nil
			}
			return err == nil && wire.ScanMessage(b, &a.Msg), err
		}
	}
}

// readBatch finds the response in an array of messages (2025-03-26).
func (a *Answer) readBatch(ctx context.Context, c *Caller, resp *http.Response) (found bool) {
	wire.EachMessage(*a.Buf, len(*a.Buf), func(text []byte, _ int) bool {
		if a.response(ctx, c, resp, text) {
			*a.Buf = append((*a.Buf)[:0], text...)
			found = wire.ScanMessage(*a.Buf, &a.Msg)
		}
		return !found
	})
	return found
}

// response reports whether a message is the response, and answers requests of the server.
func (a *Answer) response(ctx context.Context, c *Caller, resp *http.Response, text []byte) bool {
	var m wire.Message
	switch {
	case !wire.ScanMessage(text, &m):
		return false
	case IsRequest(&m):
		a.before(&m)
		c.asked(ctx, resp, &m)
		return false
	}
	return !a.before(&m) && (m.HasResult || m.HasError) && Answers(&m, a.Want)
}

// readStream reads an event stream up to the response, and skips the messages before
// it, such as progress and logs. Then it waits, within bounds, for the end of the
// stream, so that the connection can be used again.
func (a *Answer) readStream(ctx context.Context, c *Caller, resp *http.Response) (bool, error) {
	body := resp.Body
	parser := wire.EventParser{Limit: c.bodyLimit(a.Status), Budget: c.Budget}
	defer parser.Reset()
	piece := make([]byte, 4<<10)
	found := false
	var full error // of the budget
	take := func(e wire.Event) {
		wire.EachMessage(e.Data, e.Size, func(text []byte, _ int) bool {
			if !found && a.response(ctx, c, resp, text) {
				*a.Buf = (*a.Buf)[:0]
				full = a.keep(text)
				found = wire.ScanMessage(*a.Buf, &a.Msg)
			}
			return !found
		})
	}
	for {
		n, err := body.Read(piece)
		a.At = c.Clock.Now()
		a.Down += int64(n)
		if perr := parser.Feed(piece[:n], take); perr != nil {
			return false, perr
		}
		if found {
			if err != io.EOF {
				a.Down += c.Patience.Rest(body)
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

// before reports whether m is a request or a notification, and adds its method to
// Before. The list is bounded: reports show only a few.
func (a *Answer) before(m *wire.Message) bool {
	if m.Method == nil {
		return false
	}
	if name := string(m.Method); len(a.Before) < 100 && name != "notifications/progress" && name != "notifications/message" {
		a.Before = append(a.Before, name)
	}
	return true
}

// TooLarge reports an answer or a stream of the lane that was given up because it was
// too large. It does nothing if err is another error.
func (c *Caller) TooLarge(at eventmeter.Instant, err error) {
	c.TooLargeFor(eventmeter.Sub{Lane: c.Lane}, at, err)
}

// TooLargeFor is TooLarge for one subscription.
func (c *Caller) TooLargeFor(sub eventmeter.Sub, at eventmeter.Instant, err error) {
	if err == nil || c.Recorder == nil {
		return
	}
	if what := oversize(err); what != "" {
		c.Recorder.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Oversized, At: at, Detail: what})
	}
}
