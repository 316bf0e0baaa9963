package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/budget"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// capabilities returns the object of client capabilities that the endpoint advertises.
func (e *Endpoint) capabilities() []byte {
	o := wire.BeginObject(nil)
	if len(e.opts.Extensions) > 0 && e.opts.Revision == SEP3415 {
		x := wire.BeginObject(nil)
		for _, name := range e.opts.Extensions {
			x.Raw(name, []byte("{}"))
		}
		o.Raw("extensions", x.End())
	}
	for _, name := range e.opts.Capabilities {
		o.Raw(name, []byte("{}"))
	}
	return o.End()
}

// advertise adds the endpoint's capabilities to an initialize request: the official
// client cannot send capabilities that it does not know.
func (e *Endpoint) advertise(req *http.Request) error {
	if len(e.opts.Capabilities) == 0 || req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	text, err := io.ReadAll(body)
	if err == nil {
		text, err = e.advertised(text)
	}
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	return nil
}

// advertised returns an initialize request with the endpoint's capabilities added.
func (e *Endpoint) advertised(text []byte) ([]byte, error) {
	if len(e.opts.Capabilities) == 0 {
		return text, nil
	}
	// Other members keep their bytes.
	var message, params, capabilities map[string]json.RawMessage
	for _, part := range []struct {
		text []byte
		into *map[string]json.RawMessage
	}{{text, &message}, {nil, &params}, {nil, &capabilities}} {
		switch part.into {
		case &params:
			part.text = message["params"]
		case &capabilities:
			if part.text = params["capabilities"]; part.text == nil {
				part.text = []byte("{}")
			}
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return nil, err
		}
	}
	for _, name := range e.opts.Capabilities {
		capabilities[name] = json.RawMessage("{}")
	}
	for _, part := range []struct {
		key      string
		of, into map[string]json.RawMessage
	}{{"capabilities", capabilities, params}, {"params", params, message}} {
		var err error
		if part.into[part.key], err = json.Marshal(part.of); err != nil {
			return nil, err
		}
	}
	return json.Marshal(message)
}

// recordingTransport is the transport of the handshake. It adds the endpoint's headers,
// reports calls, and keeps the answers to server/discover and initialize.
type recordingTransport struct {
	p     *Principal
	tried tried

	mu     sync.Mutex
	during context.Context // that of the handshake; nil when the handshake is over
	seen   map[string]*capture
	status int    // of the last answer
	said   string // the first line of the last answer, if that was an error
	err    error  // of the last request, if it got no answer
}

// capture is an answer's body that keeps the bytes that were read from it.
type capture struct {
	body   io.ReadCloser
	sse    bool
	mu     sync.Mutex
	kept   bytes.Buffer
	down   int64
	report func(down int64)
	once   sync.Once
	hold   budget.Hold // of kept, until the body is closed
	// bounded is true for the answers that make the session, which maxHandshake
	// bounds; large is true if one exceeded it.
	bounded, large bool
}

// maxHandshake bounds an answer of the handshake, in bytes.
const maxHandshake = 256 << 10

var (
	errHandshake          = errors.New("the answer is larger than 256 KiB")
	errOversizedHandshake = fmt.Errorf("%w: %w", ErrProtocol, errHandshake)
)

func (s *recordingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	e := s.p.endpoint
	method := mcpMethod(req)
	if method == methodInitialize && e.opts.Era == Modern {
		return nil, errors.New("the target refused server/discover")
	}
	// The SDK ends a session with a request of its own, for which it waits seconds even
	// if its context has ended: notifications/cancelled during the handshake, DELETE
	// after it. So until bounds every request.
	ctx, cancel := context.WithCancel(req.Context())
	defer context.AfterFunc(s.until(), cancel)()
	req = req.Clone(ctx)
	for k, v := range e.header {
		req.Header[k] = v
	}
	s.p.authorize(req.Header)
	if method == methodInitialize {
		if err := e.advertise(req); err != nil {
			return nil, err
		}
	}
	req.Host = e.host
	start := time.Now()
	resp, err := e.Renewing(e.transport, s.tried.observe).RoundTrip(req)
	call := eventmeter.Call{
		Cause: eventmeter.Discovery, Requests: 1, Method: method, Took: time.Since(start),
		Up: RequestSize(req.Method, req.URL.RequestURI(), req.Header, req.ContentLength), Connections: e.traffic.TakeOpened(),
	}
	said := ""
	if err == nil && resp.StatusCode >= 400 {
		said = errtext.Hide(peek(resp), e.url)
	}
	s.mu.Lock()
	s.err, s.said = err, said
	if err == nil {
		s.status = resp.StatusCode
	}
	s.mu.Unlock()
	if err != nil {
		call.Failure = KindOf(err)
		s.tried.report(call)
		return nil, err
	}
	if resp.StatusCode >= 400 {
		call.Failure = fmt.Sprintf("http %d", resp.StatusCode)
	}
	call.Down = ResponseSize(resp)
	c := &capture{
		body:    resp.Body,
		sse:     IsEventStream(resp.Header),
		hold:    budget.Of(e.opts.Budget),
		bounded: method == methodDiscover || method == methodInitialize,
	}
	c.report = func(down int64) {
		call.Down += down
		if code := c.errorCode(); code != 0 {
			call.Failure = (&CallError{HasCode: true, code: code, Status: resp.StatusCode}).Failure()
		}
		s.tried.report(call)
	}
	resp.Body = c
	s.mu.Lock()
	s.seen[method] = c
	s.mu.Unlock()
	return resp, nil
}

// mcpMethod returns the MCP method of a request, or its HTTP method if it has none.
func mcpMethod(req *http.Request) string {
	if req.GetBody != nil {
		if b, err := req.GetBody(); err == nil {
			text, _ := io.ReadAll(b)
			var m wire.Message
			if wire.ScanMessage(text, &m) {
				return string(m.Method)
			}
		}
	}
	return req.Method
}

// until returns the context whose end cancels a request that has no answer yet.
func (s *recordingTransport) until() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.during != nil {
		return s.during
	}
	return s.p.endpoint.patient
}

// over marks the handshake as over.
func (s *recordingTransport) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.during = nil
}

// errorCode returns the code of the JSON-RPC error in the kept bytes, 0 if there is
// none. The caller holds the lock.
func (c *capture) errorCode() int64 {
	text := c.kept.Bytes()
	if c.sse {
		text = lastData(bytes.Clone(text))
	}
	var m wire.Message
	if !wire.ScanMessage(text, &m) || !m.HasError {
		return 0
	}
	return m.Error.Code
}

func (c *capture) Read(b []byte) (int, error) {
	n, err := c.body.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down += int64(n)
	switch {
	case !c.bounded: // a list, whose reader bounds it
		c.kept.Write(b[:max(min(n, maxPeek-c.kept.Len()), 0)])
		return n, err
	case c.down > maxHandshake:
		c.large = true
		return 0, errHandshake
	}
	c.kept.Write(b[:n])
	// Twice, because the official client keeps a copy, too.
	if full := c.hold.Resize(2 * c.kept.Cap()); full != nil {
		return 0, full
	}
	return n, err
}

func (c *capture) Close() error {
	err := c.body.Close()
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hold.Drop()
		c.report(c.down)
	})
	return err
}

// maxPeek bounds how much of an error's body is searched for its first line, in bytes.
const maxPeek = 4 << 10

// peek returns the first line of a body. Afterwards the whole body can still be read.
func peek(resp *http.Response) string {
	head := make([]byte, maxPeek)
	n, err := io.ReadFull(resp.Body, head)
	rest := io.Reader(resp.Body)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), rest), resp.Body}
	return errtext.FirstLine(head[:n])
}

// failing is a reader whose every Read fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// quote returns the first line of the last answer in parentheses, with a space before
// them, if that answer was an error; otherwise "".
func (s *recordingTransport) quote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said == "" {
		return ""
	}
	return " (" + s.said + ")"
}

// tooLarge reports whether an answer exceeded maxHandshake.
func (s *recordingTransport) tooLarge() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.seen {
		c.mu.Lock()
		large := c.large
		c.mu.Unlock()
		if large {
			return true
		}
	}
	return false
}

// last returns the status of the last answer, and the error of the last request.
func (s *recordingTransport) last() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.err
}

// result returns the capabilities and versions of the answer that made the session: that
// to initialize if there was one, because it is sent only after discovery has failed.
func (s *recordingTransport) result() (caps json.RawMessage, versions []errtext.Said) {
	s.mu.Lock()
	c := s.seen[methodInitialize]
	if c == nil {
		c = s.seen[methodDiscover]
	}
	s.mu.Unlock()
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	text := bytes.Clone(c.kept.Bytes())
	c.mu.Unlock()
	if c.sse {
		text = lastData(text)
	}
	return readOffer(text)
}

// lastData returns the data of the last event that has any.
func lastData(stream []byte) (data []byte) {
	var p wire.EventParser
	keep := func(e wire.Event) {
		if len(e.Data) > 0 {
			data = bytes.Clone(e.Data)
		}
	}
	if p.Feed(append(stream, "\n\n"...), keep) != nil {
		return nil
	}
	return data
}
