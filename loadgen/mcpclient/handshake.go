package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// handshake makes a handshake with the official client, which knows the rules of
// falling back. A recording transport keeps what that client does not return: the
// capabilities as they were sent, and the status of a refusal.
func (p *Principal) handshake(ctx context.Context, era Era, observe func(eventmeter.Call)) (a *Session, err error) {
	e := p.endpoint
	recordingTransport := &recordingTransport{p: p, during: ctx, seen: map[string]*capture{}, tried: tried{observe: observe}}
	defer func() { recordingTransport.tried.settle(a) }()
	client, opts := e.sdkClient(era)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             e.address,
		HTTPClient:           &http.Client{Transport: recordingTransport, CheckRedirect: noRedirect},
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
	}, opts)
	if err != nil {
		return p.bare(ctx, recordingTransport, err)
	}
	recordingTransport.over()
	a = sessionOf(session)
	a.Capabilities, a.versions = recordingTransport.result()
	if err := e.spoken(a); err != nil {
		a.end()
		return nil, err
	}
	a.build(p)
	return a, nil
}

// tried reports the calls of a handshake. It keeps refused calls until the handshake is
// over: if the handshake succeeds in an earlier era, they are no failures.
type tried struct {
	observe func(eventmeter.Call)

	mu      sync.Mutex
	over    bool
	refused []eventmeter.Call
}

func (t *tried) report(c eventmeter.Call) {
	t.mu.Lock()
	keep := c.Failure != "" && !t.over && (c.Method == methodDiscover || c.Method == methodInitialize)
	if keep {
		t.refused = append(t.refused, c)
	}
	t.mu.Unlock()
	if !keep && t.observe != nil {
		t.observe(c)
	}
}

// settle reports the calls that were kept. a is the session, nil if the handshake
// failed.
func (t *tried) settle(a *Session) {
	t.mu.Lock()
	t.over = true
	refused := t.refused
	t.mu.Unlock()
	var why []string
	for _, c := range refused {
		why = append(why, c.Method+": "+c.Failure)
		if a != nil {
			c.Failure = ""
		}
		if t.observe != nil {
			t.observe(c)
		}
	}
	if a != nil {
		a.fallback = strings.Join(why, ", ")
	}
}

// sdkClient makes the official client for one handshake.
func (e *Endpoint) sdkClient(era Era) (*mcp.Client, *mcp.ClientSessionOptions) {
	client := mcp.NewClient(&mcp.Implementation{Name: e.opts.ClientName, Version: e.opts.ClientVersion},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	opts := &mcp.ClientSessionOptions{ProtocolVersion: modernVersion}
	if era == Legacy {
		opts.ProtocolVersion = legacyVersion
	}
	if e.opts.Version != "" {
		opts.ProtocolVersion = e.opts.Version
	}
	return client, opts
}

// sessionOf converts a session of the official client. A modern session holds nothing
// and is closed.
func sessionOf(session *mcp.ClientSession) *Session {
	result := session.InitializeResult()
	a := &Session{Era: Legacy, Version: result.ProtocolVersion, ID: session.ID()}
	if result.ProtocolVersion >= modernVersion {
		a.Era = Modern
		_ = session.Close()
	} else {
		a.sdk = session
	}
	if result.ServerInfo != nil {
		a.server, a.serverVersion = errtext.Of(result.ServerInfo.Name), errtext.Of(result.ServerInfo.Version)
	}
	return a
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bare decides what a failed handshake means: the target cannot be reached, refuses the
// principal, or is no MCP server, or it takes calls without a handshake.
func (p *Principal) bare(ctx context.Context, recordingTransport *recordingTransport, cause error) (*Session, error) {
	e := p.endpoint
	fail := func(sentinel error, hint string) error {
		return fmt.Errorf(
			"handshake with %s: %w: %s%s: %s",
			e.opts.URL,
			sentinel,
			errtext.Hide(errtext.Line(cause.Error()), e.url),
			recordingTransport.quote(),
			hint,
		)
	}
	status, err := recordingTransport.last()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the official client ends its requests by canceling them, also when the time is over
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf(
			"handshake with %s: %s: %w: is the server up, and the URL right? (%w)",
			e.opts.URL,
			KindOf(err),
			ErrUnreachable,
			err,
		)
	case recordingTransport.tooLarge():
		return nil, fail(errOversizedHandshake, "is this the MCP endpoint?")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, fmt.Errorf("handshake with %s: http %d: %w%s: check the token", e.opts.URL, status, ErrAuth, recordingTransport.quote())
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return nil, fail(ErrThrottled, "try again later")
	case e.opts.Version != "":
		if _, supported := recordingTransport.result(); len(supported) > 0 {
			return nil, e.unspoken(supported)
		}
		return nil, fail(ErrProtocol, "the target does not speak "+e.opts.Version+": ask for no version")
	case e.opts.Era == Modern:
		return nil, fail(ErrProtocol, "the target does not speak "+modernVersion+": use era auto")
	}
	c := e.Caller(eventmeter.NewClock(), nil)
	c.Transport = recordingTransport
	if a := p.callBare(ctx, &c); a != nil {
		return a, nil
	}
	return nil, fail(ErrProtocol, "is this the MCP endpoint?")
}

// callBare makes a call without a handshake. It returns nil if the target does not speak
// JSON-RPC, or does not know the method.
func (p *Principal) callBare(ctx context.Context, c *Caller) *Session {
	a := &Session{Era: Bare}
	a.build(p)
	params := wire.BeginObject(nil)
	body := wire.AppendRequest(nil, p.endpoint.NextID(), methodProbe, params.End())
	ans := c.Call(ctx, methodProbe, a.Header(methodProbe, ""), body)
	defer ans.Release()
	if ans.Err != nil && (!ans.Err.HasCode || ans.Err.code == codeMethodNotFound) {
		return nil
	}
	return a
}

// readOffer returns the capabilities and versions in the answer to server/discover or
// initialize; of a refusal, the versions that it names.
func readOffer(text []byte) (caps json.RawMessage, versions []errtext.Said) {
	var m struct {
		Result struct {
			Capabilities      json.RawMessage `json:"capabilities"`
			SupportedVersions []errtext.Said  `json:"supportedVersions"`
			ProtocolVersion   errtext.Said    `json:"protocolVersion"`
		} `json:"result"`
		Error struct {
			Data json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &m) != nil {
		return nil, nil
	}
	if versions = supportedOf(m.Error.Data); len(versions) == 0 {
		versions = m.Result.SupportedVersions
	}
	if len(versions) == 0 && m.Result.ProtocolVersion != "" {
		versions = []errtext.Said{m.Result.ProtocolVersion}
	}
	return m.Result.Capabilities, versions
}

// IsEventStream reports whether the body of an answer is an event stream.
func IsEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
