package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

const (
	// maxHandshake bounds a response of the handshake, in bytes.
	maxHandshake = 256 << 10
	// probeTime is how long a program may take to answer server/discover. Some older
	// ones answer nothing before initialize, so no answer counts as an unknown method.
	probeTime = 5 * time.Second
)

var (
	errHandshake          = errors.New("the answer is larger than 256 KiB")
	errOversizedHandshake = fmt.Errorf("%w: %w", ErrProtocol, errHandshake)
)

// legacyVersions are the versions that a server may answer initialize with.
var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", legacyVersion}

// A handshake asks a target with server/discover, and then with initialize, which
// version it speaks. Calls that a target refuses are no failures if it speaks an earlier
// version, so they are reported when the handshake is over.
type handshake struct {
	p       *Principal
	caller  Caller
	observe func(eventmeter.Call) // nil = nobody
	refused []eventmeter.Call
	offer   offer      // of the last response that had one
	last    *CallError // why the last request had no result
	sent    uint64     // requests
}

// offer is the result of server/discover or initialize.
type offer struct {
	Capabilities      json.RawMessage `json:"capabilities"`
	SupportedVersions []errtext.Said  `json:"supportedVersions"`
	ProtocolVersion   errtext.Said    `json:"protocolVersion"`
	ServerInfo        serverName      `json:"serverInfo"`
	Meta              struct {
		ServerInfo serverName `json:"io.modelcontextprotocol/serverInfo"`
	} `json:"_meta"`
}

type serverName struct{ Name, Version errtext.Said }

// handshake opens a session of the era; of [Auto], in the latest one that the target
// speaks.
func (p *Principal) handshake(ctx context.Context, era Era, observe func(eventmeter.Call)) (*Session, error) {
	e := p.endpoint
	h := &handshake{p: p, caller: e.Caller(eventmeter.NewClock(), &e.traffic), observe: observe}
	h.caller.Transport = e.Renewing(e.transport, observe)
	h.caller.Limit = maxHandshake
	a, err := h.open(ctx, era)
	if err == nil {
		a.Capabilities, a.versions = h.offer.Capabilities, h.offer.versions()
		named := cmp.Or(h.offer.Meta.ServerInfo, h.offer.ServerInfo)
		a.server, a.serverVersion = named.Name, named.Version
		if e.opts.Version != "" && a.Version != e.opts.Version {
			a.end()
			a, err = nil, e.unspoken(a.versions)
		}
	}
	h.settle(a)
	return a, err
}

// nextID is the id of the next request. Those of a pipe are ids of the run.
func (h *handshake) nextID() uint64 {
	if h.caller.Pipe != nil {
		return h.p.endpoint.NextID()
	}
	h.sent++
	return h.sent
}

func (h *handshake) open(ctx context.Context, era Era) (*Session, error) {
	version := h.p.endpoint.opts.Version
	if era != Legacy {
		if a := h.discover(ctx, cmp.Or(version, modernVersion)); a != nil {
			return a, nil
		}
		if era == Modern || h.over() {
			return h.bare(ctx)
		}
	}
	h.offer = offer{} // that of an earlier response does not belong to this session
	params := h.p.initialization(cmp.Or(version, legacyVersion), h.p.endpoint.capabilities(Legacy))
	body := wire.Request(h.nextID(), methodInitialize, params)
	a, err := h.p.initialize(ctx, &h.caller, body, h.called)
	if err == nil && slices.Contains(legacyVersions, a.Version) {
		return a, nil
	}
	if err == nil {
		h.last = &CallError{Method: methodInitialize, Kind: KindProtocol, Message: errtext.Of("its version is " + strconv.Quote(a.Version))}
	}
	return h.bare(ctx)
}

// discover asks for a version of the modern era. It returns nil if the target refuses.
func (h *handshake) discover(ctx context.Context, version string) *Session {
	a := &Session{Era: Modern, Version: version}
	a.build(h.p)
	if h.caller.Pipe != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, probeTime)
		defer stop()
	}
	params := wire.BeginObject(nil)
	params.Raw("_meta", a.Meta)
	body := wire.Request(h.nextID(), methodDiscover, params.End())
	r := h.caller.Call(ctx, methodDiscover, a.Header(methodDiscover, ""), body)
	defer r.Release()
	h.called(methodDiscover, r)
	if r.Err != nil {
		return nil
	}
	if said := h.offer.SupportedVersions; !slices.Contains(said, errtext.Said(version)) {
		if !slices.Contains(said, modernVersion) {
			h.last = &CallError{Method: methodDiscover, Kind: KindProtocol, Message: "it supports no version of this era"}
			return nil
		}
		a = &Session{Era: Modern, Version: modernVersion}
		a.build(h.p)
	}
	return a
}

// OpenSession opens a session of the legacy era with c, in the given version or one that
// the server prefers. It advertises no capabilities. called is called with the response
// to each request, which it must not keep. The session's ID is empty if the server has no
// sessions. The caller ends the session; the principal does not know it.
func (p *Principal) OpenSession(ctx context.Context, c *Caller, version string, called func(string, *Answer)) (*Session, error) {
	body := wire.Request(p.endpoint.NextID(), methodInitialize, p.initialization(version, []byte("{}")))
	return p.initialize(ctx, c, body, called)
}

func (p *Principal) initialize(ctx context.Context, c *Caller, body []byte, called func(string, *Answer)) (*Session, error) {
	r := c.Call(ctx, methodInitialize, p.header(), body)
	defer r.Release()
	called(methodInitialize, r)
	if r.Err != nil {
		return nil, r.Err
	}
	a := &Session{Era: Legacy, Version: string(readOffer(*r.Buf).ProtocolVersion), ID: r.session}
	a.build(p)
	const initialized = "notifications/initialized"
	n := c.Notify(ctx, initialized, a.Header(initialized, ""), wire.Notification(initialized, []byte("{}")))
	defer n.Release()
	called(initialized, n)
	if n.Err != nil {
		return nil, n.Err
	}
	return a, nil
}

func (p *Principal) initialization(version string, capabilities []byte) []byte {
	o := wire.BeginObject(nil)
	o.String("protocolVersion", version)
	o.Raw("capabilities", capabilities)
	o.Raw("clientInfo", p.endpoint.clientInfo())
	return o.End()
}

// EndSession ends a session of the legacy era. It is no error if the server does not let
// clients end sessions (405), or no longer knows the session (404).
func (c *Caller) EndSession(ctx context.Context, header http.Header) *Answer {
	header = header.Clone()
	header.Del("Content-Type") // it has no body
	req := c.NewRequest(ctx, http.MethodDelete, header)
	a := &Answer{Up: RequestSize(req.Method, c.URL.RequestURI(), header, 0)}
	start := c.Clock.Now()
	if resp, err := c.Transport.RoundTrip(req); err != nil {
		a.Err = TransportError(ctx, err).of(http.MethodDelete)
	} else {
		a.Down = ResponseSize(resp) + c.Patience.Rest(resp.Body)
		resp.Body.Close()
		if resp.StatusCode > 299 && resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusNotFound {
			a.Err = &CallError{Method: http.MethodDelete, Status: resp.StatusCode}
		}
	}
	a.At = c.Clock.Now()
	a.Took = a.At.Sub(start)
	return a
}

// called takes the response to a request: what it offers, and its cost.
func (h *handshake) called(method string, a *Answer) {
	if a.Buf != nil && len(*a.Buf) > maxHandshake {
		a.Err = &CallError{Method: method, Kind: KindOversized, Cause: errHandshake}
	}
	if h.last = a.Err; a.Buf != nil {
		if o := readOffer(*a.Buf); len(o.versions()) > 0 {
			h.offer = o
		}
	}
	call := eventmeter.Call{
		Cause: eventmeter.Discovery, Requests: 1, Method: method, Took: a.Took, Up: a.Up, Down: a.Down, Failure: a.Err.Failure(),
	}
	if h.caller.Pipe == nil {
		call.Connections = h.p.endpoint.traffic.TakeOpened()
	}
	switch {
	case call.Failure != "" && (method == methodDiscover || method == methodInitialize):
		h.refused = append(h.refused, call)
	case h.observe != nil:
		h.observe(call)
	}
}

// settle reports the calls that were refused. a is the session, nil if the handshake
// failed.
func (h *handshake) settle(a *Session) {
	var why []string
	for _, c := range h.refused {
		why = append(why, c.Method+": "+c.Failure)
		if a != nil {
			c.Failure = ""
		}
		if h.observe != nil {
			h.observe(c)
		}
	}
	if a == nil {
		return
	}
	a.fallback = strings.Join(why, ", ")
	if a.Era == Legacy && a.ID != "" {
		a.ends = func() {
			ctx, stop := context.WithTimeout(h.p.endpoint.patient, CancelTime)
			defer stop()
			h.called(http.MethodDelete, h.caller.EndSession(ctx, a.NamedHeader(http.MethodDelete, "")))
		}
	}
}

// over reports whether another request makes no sense after the last one: the target
// cannot be reached, or has refused the principal.
func (h *handshake) over() bool {
	e := h.last
	silent := e.Kind == "timeout" && h.caller.Pipe != nil // see probeTime
	return errors.Is(e, ErrUnreachable) && !silent || errors.Is(e, ErrAuth) || errors.Is(e, ErrThrottled) || e.Kind == KindOversized
}

// failed returns the error of a handshake with the reason of the last call.
func (h *handshake) failed(sentinel error, hint string) error {
	return fmt.Errorf("handshake with %s: %w: %s: %s", h.p.endpoint.opts.URL, sentinel, h.last.text(), hint)
}

// bare decides what a failed handshake means: the target cannot be reached, refuses the
// principal, or is no MCP server, or it takes calls without a handshake.
func (h *handshake) bare(ctx context.Context) (*Session, error) {
	e, last := h.p.endpoint, h.last
	supported := h.offer.versions()
	switch {
	case last.NoToken():
		return nil, last
	case last.Kind == KindEnded:
		return nil, fmt.Errorf("handshake with %s: %w: %w: run the command by hand to see more", e.opts.URL, ErrUnreachable, last.Cause)
	case e.pipe != nil && ctx.Err() != nil:
		const hint = "no answer came: does it speak MCP over standard input and output?"
		return nil, fmt.Errorf("handshake with %s: %w: %s", e.opts.URL, ErrUnreachable, hint)
	case last.Kind == KindOversized:
		return nil, h.failed(errOversizedHandshake, "is this the MCP endpoint?")
	case errors.Is(last, ErrUnreachable) && e.pipe == nil:
		return nil, fmt.Errorf("handshake with %s: %s: %w: %s (%w)", e.opts.URL, last.Kind, ErrUnreachable, wayOut(last.Cause), last.Cause)
	case errors.Is(last, ErrAuth):
		return nil, h.failed(ErrAuth, "check the token")
	case errors.Is(last, ErrThrottled):
		return nil, h.failed(ErrThrottled, "try again later")
	case e.opts.Version != "" && len(supported) > 0:
		return nil, e.unspoken(supported)
	case e.opts.Version != "":
		return nil, h.failed(ErrProtocol, "the target does not speak "+e.opts.Version+": ask for no version")
	case e.opts.Era == Modern:
		return nil, h.failed(ErrProtocol, "the target does not speak "+modernVersion+": use era auto")
	}
	a := &Session{Era: Bare}
	a.build(h.p)
	h.offer = offer{}
	body := wire.Request(e.NextID(), methodProbe, []byte("{}"))
	r := h.caller.Call(ctx, methodProbe, a.Header(methodProbe, ""), body)
	defer r.Release()
	h.called(methodProbe, r)
	if r.Err != nil && (!r.Err.HasCode || r.Err.code == codeMethodNotFound) { // no JSON-RPC, or the method is not known
		h.last = last
		return nil, h.failed(ErrProtocol, "is this the MCP endpoint?")
	}
	return a, nil
}

// readOffer reads the response to server/discover or initialize; of a refusal, the
// versions that it names.
func readOffer(text []byte) offer {
	var m struct {
		Result offer `json:"result"`
		Error  struct {
			Data json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &m) != nil {
		return offer{}
	}
	if supported := supportedOf(m.Error.Data); len(supported) > 0 {
		m.Result.SupportedVersions = supported
	}
	return m.Result
}

// versions are those that the target named.
func (o *offer) versions() []errtext.Said {
	if len(o.SupportedVersions) == 0 && o.ProtocolVersion != "" {
		return []errtext.Said{o.ProtocolVersion}
	}
	return o.SupportedVersions
}

// capabilities returns the object of client capabilities that the endpoint advertises.
func (e *Endpoint) capabilities(era Era) []byte {
	o := wire.BeginObject(nil)
	if era == Modern && len(e.opts.Extensions) > 0 && e.opts.Revision == SEP3415 {
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

// IsEventStream reports whether the body of an answer is an event stream.
func IsEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
