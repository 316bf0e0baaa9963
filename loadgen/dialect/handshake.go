package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"

	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"

	// handshakeTime bounds a handshake whose context has no end of its own.
	handshakeTime = 30 * time.Second
)

// principal is one identity of a run and what it agreed on with the target.
type principal struct {
	endpoint *Endpoint
	index    int
	token    string

	mu  sync.Mutex
	now *agreement // nil = no handshake yet, or its session was lost
}

// agreement is the outcome of a handshake. It does not change.
type agreement struct {
	era           Era
	version       string
	versions      []string
	server        string
	serverVersion string
	capabilities  json.RawMessage
	session       string

	meta    []byte                 // the _meta object of modern requests; nil in other eras
	headers map[string]http.Header // by method; shared by all requests, never written
	sdk     *mcp.ClientSession     // a legacy session that has to be ended
}

// agree returns the principal's agreement, shaking hands if there is none.
// observe, if not nil, is told of the traffic.
func (p *principal) agree(ctx context.Context, observe func(mcpload.Call)) (*agreement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return p.now, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	a, err := p.shake(ctx, observe)
	if err != nil {
		return nil, err
	}
	p.now = a
	e := p.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = a
	}
	return a, nil
}

// forget drops an agreement whose session the server no longer knows, so that
// the next call shakes hands anew.
func (p *principal) forget(a *agreement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == a {
		p.now = nil
		a.end()
	}
}

// end ends the session, if there is one. Whether the server still knew it
// makes no difference.
func (p *principal) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		p.now.end()
		p.now = nil
	}
}

func (a *agreement) end() {
	if a.sdk != nil {
		_ = a.sdk.Close()
	}
}

// shake does the handshake with the official client, which knows the rules of
// falling back, and looks over its shoulder for what it does not tell: the
// capabilities as they were sent, and the status of a refusal.
func (p *principal) shake(ctx context.Context, observe func(mcpload.Call)) (*agreement, error) {
	e := p.endpoint
	if e.pipe != nil {
		return p.shakePipe(ctx, observe)
	}
	spy := &spy{p: p, observe: observe, seen: map[string]*capture{}}
	client, opts := e.sdkClient()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             e.opts.URL,
		HTTPClient:           &http.Client{Transport: spy, CheckRedirect: noRedirect},
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
	}, opts)
	if err != nil {
		return p.bare(ctx, spy, err)
	}
	a := agreementOf(session)
	a.capabilities, a.versions = spy.result()
	a.build(p)
	return a, nil
}

// sdkClient makes the official client for one handshake.
func (e *Endpoint) sdkClient() (*mcp.Client, *mcp.ClientSessionOptions) {
	client := mcp.NewClient(&mcp.Implementation{Name: e.opts.ClientName, Version: e.opts.ClientVersion},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	opts := &mcp.ClientSessionOptions{ProtocolVersion: modernVersion}
	if e.opts.Era == Legacy {
		opts.ProtocolVersion = legacyVersion
	}
	return client, opts
}

// agreementOf reads what the official client agreed on. A modern session holds
// nothing and is closed.
func agreementOf(session *mcp.ClientSession) *agreement {
	result := session.InitializeResult()
	a := &agreement{era: Legacy, version: result.ProtocolVersion, session: session.ID()}
	if result.ProtocolVersion >= modernVersion {
		a.era = Modern
		_ = session.Close()
	} else {
		a.sdk = session
	}
	if result.ServerInfo != nil {
		a.server, a.serverVersion = result.ServerInfo.Name, result.ServerInfo.Version
	}
	return a
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bare decides what a failed handshake means: a target that is not there or
// lets nobody in, one that takes calls all the same, or one that is no MCP
// server.
func (p *principal) bare(ctx context.Context, spy *spy, cause error) (*agreement, error) {
	e := p.endpoint
	fail := func(sentinel error, hint string) error {
		return fmt.Errorf("handshake with %s: %w: %s: %s", e.opts.URL, sentinel, line(cause.Error()), hint)
	}
	status, err := spy.last()
	switch {
	case err != nil:
		return nil, fmt.Errorf("handshake with %s: %s: %w: is the server up, and the URL right? (%w)", e.opts.URL, kind(err), ErrUnreachable, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("handshake with %s: http %d: %w: check the token", e.opts.URL, status, ErrAuth)
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil, fail(ErrThrottled, "try again later")
	case e.opts.Era == Modern:
		return nil, fail(ErrProtocol, "the target does not speak "+modernVersion+": use era auto")
	}
	a := &agreement{era: Bare}
	a.build(p)
	params := wire.BeginObject(nil)
	body := wire.AppendRequest(nil, e.id(), methodList, params.End())
	c := e.caller(mcpload.NewClock(), nil)
	c.transport = spy
	ans := c.call(ctx, methodList, a.headers[methodList], body)
	defer ans.release()
	if ans.err != nil && (!ans.err.hasCode || ans.err.code == codeMethodNotFound) {
		return nil, fail(ErrProtocol, "is this the MCP endpoint?")
	}
	return a, nil
}

// build prepares what every request of the agreement carries.
func (a *agreement) build(p *principal) {
	e := p.endpoint
	if a.era == Modern {
		info := wire.BeginObject(nil)
		info.String("name", e.opts.ClientName)
		info.String("version", e.opts.ClientVersion)
		meta := wire.BeginObject(nil)
		meta.String("io.modelcontextprotocol/protocolVersion", a.version)
		meta.Raw("io.modelcontextprotocol/clientInfo", info.End())
		meta.Raw("io.modelcontextprotocol/clientCapabilities", e.capabilities())
		a.meta = meta.End()
	}
	a.headers = map[string]http.Header{}
	for _, m := range methods {
		h := e.header.Clone()
		p.authorize(h)
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
		h.Set("User-Agent", e.opts.ClientName+"/"+e.opts.ClientVersion)
		if a.version != "" {
			h.Set(headerVersion, a.version)
		}
		if a.era == Modern {
			h.Set(headerMethod, m)
		}
		if a.session != "" {
			h.Set(headerSession, a.session)
		}
		a.headers[m] = h
	}
}

func (p *principal) authorize(h http.Header) {
	if p.token != "" {
		h.Set("Authorization", "Bearer "+p.token)
	}
}

// spy is the transport of the handshake. It adds the run's headers, counts,
// and keeps the answers to server/discover and initialize.
type spy struct {
	p       *principal
	observe func(mcpload.Call)

	mu     sync.Mutex
	seen   map[string]*capture
	status int   // of the last answer
	err    error // of the last request that got none
}

// capture is an answer's body, as far as it was read.
type capture struct {
	body   io.ReadCloser
	sse    bool
	mu     sync.Mutex
	kept   bytes.Buffer
	down   int64
	report func(down int64)
	once   sync.Once
}

// maxCapture bounds what is kept of a handshake's answer.
const maxCapture = 1 << 20

func (s *spy) RoundTrip(req *http.Request) (*http.Response, error) {
	e := s.p.endpoint
	method := req.Method
	if req.GetBody != nil {
		if b, err := req.GetBody(); err == nil {
			text, _ := io.ReadAll(b)
			var m wire.Message
			if wire.ScanMessage(text, &m) {
				method = string(m.Method)
			}
		}
	}
	if method == "initialize" && e.opts.Era == Modern {
		return nil, errors.New("the target refused server/discover")
	}
	req = req.Clone(req.Context())
	for k, v := range e.header {
		req.Header[k] = v
	}
	s.p.authorize(req.Header)
	if method == "initialize" {
		if err := e.advertise(req); err != nil {
			return nil, err
		}
	}
	req.Host = e.host
	start := time.Now()
	resp, err := e.transport.RoundTrip(req)
	call := mcpload.Call{
		Cause: mcpload.Discovery, Requests: 1, Method: method, Took: time.Since(start),
		Up: requestSize(req.Method, req.URL.RequestURI(), req.Header, req.ContentLength), Connections: e.traffic.TakeOpened(),
	}
	s.mu.Lock()
	s.err = err
	if err == nil {
		s.status = resp.StatusCode
	}
	s.mu.Unlock()
	if err != nil {
		call.Failure = kind(err)
		s.report(call)
		return nil, err
	}
	if resp.StatusCode >= 400 {
		call.Failure = fmt.Sprintf("http %d", resp.StatusCode)
	}
	call.Down = responseSize(resp)
	c := &capture{body: resp.Body, sse: isEventStream(resp.Header), report: func(down int64) {
		call.Down += down
		s.report(call)
	}}
	resp.Body = c
	s.mu.Lock()
	s.seen[method] = c
	s.mu.Unlock()
	return resp, nil
}

func (s *spy) report(c mcpload.Call) {
	if s.observe != nil {
		s.observe(c)
	}
}

func (c *capture) Read(b []byte) (int, error) {
	n, err := c.body.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down += int64(n)
	if c.kept.Len() < maxCapture {
		c.kept.Write(b[:n])
	}
	return n, err
}

func (c *capture) Close() error {
	err := c.body.Close()
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.report(c.down)
	})
	return err
}

// last returns how the last request of the handshake ended.
func (s *spy) last() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.err
}

// result returns the capabilities and versions of the answer that counted:
// initialize if there was one, since it is only sent when discovery failed.
func (s *spy) result() (caps json.RawMessage, versions []string) {
	s.mu.Lock()
	c := s.seen["initialize"]
	if c == nil {
		c = s.seen["server/discover"]
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

// readOffer reads the answer to server/discover or initialize.
func readOffer(text []byte) (caps json.RawMessage, versions []string) {
	var m struct {
		Result struct {
			Capabilities      json.RawMessage `json:"capabilities"`
			SupportedVersions []string        `json:"supportedVersions"`
			ProtocolVersion   string          `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &m) != nil {
		return nil, nil
	}
	versions = m.Result.SupportedVersions
	if len(versions) == 0 && m.Result.ProtocolVersion != "" {
		versions = []string{m.Result.ProtocolVersion}
	}
	return m.Result.Capabilities, versions
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

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
