package mcpclient

import (
	"bytes"
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
	// MaxRefusal bounds an answer with an HTTP status that is no success.
	MaxRefusal = 1 << 20
)

// maxQuoted bounds what is looked at of a body that is quoted in an error.
const maxQuoted = 4 << 10

// bodyLimit bounds the body of an answer.
func bodyLimit(status int) int {
	if status < 200 || status > 299 {
		return MaxRefusal
	}
	return maxAnswer
}

// Caller sends requests and reads their answers. It goes below http.Client:
// there are no redirects to follow (a target of a load test that redirects is
// a surprise to be reported) and no cookies to keep.
type Caller struct {
	Transport http.RoundTripper
	URL       *url.URL
	host      string
	Clock     *eventmeter.Clock
	Recorder  eventmeter.Recorder // of a lane; nil otherwise
	Pipe      *Pipe               // nil unless the target is a program
	traffic   *wire.Traffic       // of what goes over the pipe; nil = counted nowhere
	Patience  *Patience           // with the ends of answers; nil = they are not waited for
	Budget    *budget.Budget
	Lane      uint16 // of rec
	tokens    *tokens
}

// Caller makes a caller of the endpoint's own, whose connections the handshakes
// use, too.
func (e *Endpoint) Caller(clock *eventmeter.Clock, traffic *wire.Traffic) Caller {
	return Caller{Transport: e.Renewing(e.transport, nil), URL: e.url, host: e.host, Clock: clock, Pipe: e.pipe, traffic: traffic, Patience: &e.patience, Budget: e.opts.Budget, tokens: e.tokens}
}

// Answer is what came of one call. release gives its buffer back; msg is not
// valid afterwards.
type Answer struct {
	Err    *CallError
	Msg    wire.Message
	At     eventmeter.Instant // when the last byte was read
	Took   time.Duration
	Up     int64
	Down   int64
	Date   time.Time // the Date header, zero if there was none
	Status int
	sent   bool // over a pipe: it was handed to the server

	Want []byte // the id that it has to name, as JSON; nil = any

	Buf  *[]byte
	hold budget.Hold // of buf
}

// Began is when the request was sent that the answer answers.
func (a *Answer) Began() eventmeter.Instant { return a.At.Add(-a.Took) }

var answerBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxPooled keeps the odd large answer from staying in the pool for ever.
const maxPooled = 64 << 10

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

// NewPost makes a request out of parts that many requests share.
func (c *Caller) NewPost(ctx context.Context, header http.Header, body []byte) *http.Request {
	req := &http.Request{
		Method: http.MethodPost, URL: c.URL, Host: c.host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx)
}

// NewRequest makes a request without a body.
func (c *Caller) NewRequest(ctx context.Context, method string, header http.Header) *http.Request {
	req := &http.Request{Method: method, URL: c.URL, Host: c.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return req.WithContext(ctx)
}

// NewGet makes a request for the stream of a session.
func (c *Caller) NewGet(ctx context.Context, header http.Header) *http.Request {
	return c.NewRequest(ctx, http.MethodGet, header)
}

// Call sends one request and reads the answer, whether it is one JSON object
// or an event stream that ends with it. header is shared and not written.
func (c *Caller) Call(ctx context.Context, method string, header http.Header, body []byte) *Answer {
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
	resp, err := c.Transport.RoundTrip(c.NewPost(ctx, header, body))
	if err != nil {
		a.Err = TransportError(ctx, err)
		a.Down = a.Err.down
		return a
	}
	defer resp.Body.Close()
	a.Read(ctx, c, resp, method)
	return a
}

// TransportError prefers what the context says: a request that was given up
// reports a dozen different errors.
func TransportError(ctx context.Context, err error) *CallError {
	if e := (*CallError)(nil); errors.As(err, &e) && e.NoToken() {
		return e
	}
	if cause := ctx.Err(); cause != nil {
		return &CallError{Kind: KindOf(cause), Cause: cause}
	}
	return &CallError{Kind: KindOf(err), Cause: err}
}

// Read reads the answer's body and judges it.
func (a *Answer) Read(ctx context.Context, c *Caller, resp *http.Response, method string) {
	a.Status = resp.StatusCode
	a.Down = ResponseSize(resp)
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.Date = t
	}
	a.Buf, a.hold = answerBuffers.Get().(*[]byte), budget.Of(c.Budget)
	*a.Buf = (*a.Buf)[:0] // another answer may have had it
	var found bool
	var err error
	if IsEventStream(resp.Header) {
		found, err = a.readStream(c, resp.Body)
	} else {
		found, err = a.readObject(c, resp.Body)
	}
	if a.Err = judge(resp, &a.Msg, found); a.Err != nil {
		a.Err.quote((*a.Buf)[:min(len(*a.Buf), maxQuoted)], c.URL)
	} else if !Answers(&a.Msg, a.Want) {
		a.Err = &CallError{Kind: KindProtocol, Status: a.Status, Message: errtext.Of("the answer names the id " + nameOf(a.Msg.ID) + ", the request has " + string(a.Want))}
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

// judge makes an error of an answer that is none, or a bad one. An error is
// read from the body whatever the status: servers send the same error with
// 200, 400 or 404.
func judge(resp *http.Response, m *wire.Message, found bool) *CallError {
	status := resp.StatusCode
	e := &CallError{Status: status, RetryAfter: retryAfter(resp.Header, time.Now())}
	switch {
	case found && m.HasError:
		e.rpc(&m.Error)
		return e
	case status < 200 || status > 299:
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

// Answers tells whether a response is that to the request with the id want. An
// error may have the id null: its sender could not read the request.
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

// BareID is an id without quotes: some servers make strings of numbers.
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

// Compressed names the coding of a body that is not what it seems; "" = none.
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
		if len(b) == cap(b) { // by doubling, and paid for first: what is outgrown is garbage for a while
			if err = a.hold.Resize(2 * cap(b)); err == nil {
				b = append(make([]byte, 0, 2*cap(b)), b...)
			}
		}
		if err == nil {
			n, err = body.Read(b[len(b):cap(b)])
		}
		a.At = c.Clock.Now()
		b = b[:len(b)+n]
		if len(b) > bodyLimit(a.Status) {
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

// readStream reads an event stream up to the response: messages before it
// (progress, logs) are not for us. The stream's end is waited for, within
// bounds, but the answer has come before it.
func (a *Answer) readStream(c *Caller, body io.ReadCloser) (bool, error) {
	parser := wire.EventParser{Limit: bodyLimit(a.Status), Budget: c.Budget}
	defer parser.Reset()
	piece := make([]byte, 4<<10)
	found := false
	var full error // of the budget
	take := func(e wire.Event) {
		var m wire.Message
		if found || len(e.Data) == 0 || !wire.ScanMessage(e.Data, &m) || m.Method != nil || !m.HasResult && !m.HasError || !Answers(&m, a.Want) {
			return
		}
		*a.Buf = (*a.Buf)[:0]
		full = a.keep(e.Data)
		found = wire.ScanMessage(*a.Buf, &a.Msg)
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

// TooLarge counts an answer or a stream of the lane that was given up because it
// was too large; it does nothing with other errors.
func (c *Caller) TooLarge(at eventmeter.Instant, err error) {
	c.TooLargeFor(eventmeter.Sub{Lane: c.Lane}, at, err)
}

// TooLargeFor is tooLarge of one subscription.
func (c *Caller) TooLargeFor(sub eventmeter.Sub, at eventmeter.Instant, err error) {
	if err == nil || c.Recorder == nil {
		return
	}
	if what := oversize(err); what != "" {
		c.Recorder.Noticed(eventmeter.Notice{Sub: sub, Kind: eventmeter.Oversized, At: at, Detail: what})
	}
}
