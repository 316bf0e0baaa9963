package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
)

// Era is a generation of the base protocol.
type Era string

// The eras. Auto occurs only in options, Bare only in results.
const (
	// Auto tries Modern first and falls back to Legacy.
	Auto Era = "auto"
	// Modern is 2026-07-28: stateless, discovered with server/discover.
	Modern Era = "modern"
	// Legacy is 2025-03-26 to 2025-11-25: sessions, opened with initialize.
	Legacy Era = "legacy"
	// Bare is a server that refused both handshakes and still takes calls.
	Bare Era = "bare"
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"

	HeaderSession = "Mcp-Session-Id" // of the legacy era
	headerVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method" // of the modern era

	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
	// methodProbe is called if a server has refused every handshake, to find out
	// whether it takes calls all the same.
	methodProbe = "events/list"

	// handshakeTime bounds a handshake.
	handshakeTime = 30 * time.Second
)

// MethodListen opens a stream of notifications in the modern era.
const MethodListen = "subscriptions/listen"

// Principal is one identity of a run and its session with the target.
type Principal struct {
	endpoint *Endpoint
	Index    int
	token    string
	holder   *holder // of tokens that expire; nil = token does not
	nobody   bool    // it sends no token, even if the endpoint's Headers have one

	mu          sync.Mutex
	now         *Session      // nil = no handshake yet, or its session was lost
	handshaking chan struct{} // closed at the end of the handshake under way; nil = there is none
}

// Session is the result of a handshake. Only the token in its header fields changes. It
// is safe for concurrent use.
type Session struct {
	Era           Era
	Version       string
	versions      []errtext.Said
	server        errtext.Said
	serverVersion errtext.Said
	Capabilities  json.RawMessage
	ID            string
	fallback      string // see ServerInfo.Fallback

	Meta []byte // the _meta object of modern requests; nil in other eras
	ends func() // ends a legacy session; nil = there is nothing to end

	making  sync.Mutex  // held while header fields are made
	base    http.Header // the header fields that the requests of all methods share
	headers atomic.Pointer[map[headerKey]http.Header]
}

// plain returns texts as strings. They were cleaned when they were decoded.
func plain(said []errtext.Said) []string {
	var out []string
	for _, s := range said {
		out = append(out, string(s))
	}
	return out
}

// Info returns what the handshake says about the target.
func (a *Session) Info() ServerInfo {
	return ServerInfo{
		Era: a.Era, Version: a.Version, Versions: plain(a.versions), Server: string(a.server), ServerVersion: string(a.serverVersion),
		Fallback: a.fallback,
	}
}

// Session returns the principal's session, after a handshake if there is none. One
// handshake serves all concurrent callers, each of which waits until its ctx ends.
// observe, if not nil, is called with the calls of the handshake.
func (p *Principal) Session(ctx context.Context, observe func(eventmeter.Call)) (*Session, error) {
	if p.holder == nil {
		return p.session(ctx, observe)
	}
	if _, err := p.holder.bearer(ctx, "", nil, observe); err != nil {
		return nil, err
	}
	a, err := p.session(ctx, observe)
	if err == nil {
		a.Authorize(p)
	}
	return a, err
}

func (p *Principal) session(ctx context.Context, observe func(eventmeter.Call)) (*Session, error) {
	for {
		p.mu.Lock()
		now, under := p.now, p.handshaking
		if now == nil && under == nil {
			p.handshaking = make(chan struct{})
		}
		p.mu.Unlock()
		switch {
		case now != nil:
			return now, nil
		case under == nil:
			return p.open(ctx, observe)
		}
		select {
		case <-under: // if it failed, this goroutine may make the next one
		case <-ctx.Done():
			return nil, fmt.Errorf(
				"handshake with %s: waited for another handshake: %w: %w",
				p.endpoint.opts.URL,
				ErrUnreachable,
				ctx.Err(),
			)
		}
	}
}

// open makes a handshake, after its caller has set handshaking.
func (p *Principal) open(ctx context.Context, observe func(eventmeter.Call)) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	a, err := p.settle(ctx, observe)
	p.mu.Lock()
	p.now = a
	close(p.handshaking)
	p.handshaking = nil
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e := p.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		e.found = a
	}
	return a, nil
}

// settle makes a handshake in the era of the options, or, for Auto, in the known era
// of the target.
func (p *Principal) settle(ctx context.Context, observe func(eventmeter.Call)) (*Session, error) {
	e := p.endpoint
	handshake := func(era Era) (*Session, error) {
		if era == Bare { // there is no handshake
			a := &Session{Era: Bare}
			a.build(p)
			return a, nil
		}
		return p.handshake(ctx, era, observe)
	}
	if e.opts.Era != Auto {
		return handshake(e.opts.Era)
	}
	return e.eras.handshake(ctx, handshake)
}

// Forget drops a session that the server no longer knows, so that the next call makes a
// new one. The old session is ended, in case the server knows it after all.
func (p *Principal) Forget(a *Session) {
	p.mu.Lock()
	mine := p.now == a
	if mine {
		p.now = nil
	}
	p.mu.Unlock()
	if mine { // outside the lock: this may take seconds
		a.end()
	}
}

// Lost reports whether e means that the server no longer knows session a. If so, the
// principal forgets it.
func (p *Principal) Lost(a *Session, e *CallError) bool {
	if a.ID == "" || !e.Forgotten() {
		return false
	}
	p.Forget(a)
	return true
}

// Refusal returns the error of a call that was refused: e, or, if the server no longer
// knows session a, one of the kind [KindSession]. The principal then forgets a.
func (p *Principal) Refusal(a *Session, e *CallError) *CallError {
	if p.Lost(a, e) {
		return SessionLost(e.Method)
	}
	return e
}

// End ends the session, if there is one, and ignores errors of the server.
func (p *Principal) End() {
	p.mu.Lock()
	a := p.now
	p.now = nil
	p.mu.Unlock()
	if a != nil {
		a.end()
	}
}

func (a *Session) end() {
	if a.ends != nil {
		a.ends()
	}
}

// build makes the parts that all requests of the session share.
func (a *Session) build(p *Principal) {
	e := p.endpoint
	if a.Era == Modern {
		meta := wire.BeginObject(nil)
		meta.String("io.modelcontextprotocol/protocolVersion", a.Version)
		meta.Raw("io.modelcontextprotocol/clientInfo", e.clientInfo())
		meta.Raw("io.modelcontextprotocol/clientCapabilities", e.capabilities(Modern))
		a.Meta = meta.End()
	}
	h := p.header()
	if a.Version != "" {
		h.Set(headerVersion, a.Version)
	}
	if a.ID != "" {
		h.Set(HeaderSession, a.ID)
	}
	a.base = h
}

// header returns the header fields that all requests of the principal share.
func (p *Principal) header() http.Header {
	e := p.endpoint
	h := e.header.Clone()
	p.authorize(h)
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("User-Agent", e.opts.ClientName+"/"+e.opts.ClientVersion)
	return h
}

// Clone returns the same identity without a session.
func (p *Principal) Clone() *Principal {
	return &Principal{endpoint: p.endpoint, Index: p.Index, token: p.token, holder: p.holder, nobody: p.nobody}
}

func (p *Principal) authorize(h http.Header) {
	if p.nobody {
		h.Del("Authorization")
	} else if p.token != "" {
		h.Set("Authorization", "Bearer "+p.token)
	} else if token := p.holder.current(); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
}

// Authorize makes the session's requests carry the principal's current token.
func (a *Session) Authorize(p *Principal) {
	a.making.Lock()
	defer a.making.Unlock()
	now := p.Current(a.base)
	if Bearer(now) != Bearer(a.base) {
		a.base = now
		a.headers.Store(nil)
	}
}

// Bearer returns the access token of header fields; "" = there is none.
func Bearer(h http.Header) string {
	token, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return token
}

// headerKey names the header fields of one kind of request.
type headerKey struct{ method, name string }

// Header returns the header fields of a method's requests. name is the value of
// Mcp-Name, which the modern era requires for some methods; "" = none. The fields are
// made once and shared: they must not be changed. Header is safe for concurrent use.
func (a *Session) Header(method, name string) http.Header {
	key := headerKey{method, name}
	if known := a.headers.Load(); known != nil {
		if h, ok := (*known)[key]; ok {
			return h
		}
	}
	a.making.Lock()
	defer a.making.Unlock()
	known := map[headerKey]http.Header{}
	if p := a.headers.Load(); p != nil {
		if h, ok := (*p)[key]; ok {
			return h
		}
		known = maps.Clone(*p)
	}
	h := a.named(method, name)
	known[key] = h
	a.headers.Store(&known)
	return h
}

// NamedHeader is Header for a name that few requests share: the fields are not kept,
// and belong to the caller.
func (a *Session) NamedHeader(method, name string) http.Header {
	a.making.Lock()
	defer a.making.Unlock()
	return a.named(method, name)
}

// named makes the header fields of a request. The caller holds the lock.
func (a *Session) named(method, name string) http.Header {
	h := a.base.Clone()
	if a.Era == Modern {
		h.Set(HeaderMethod, method)
		if name != "" {
			h.Set(headerName, headerText(name))
		}
	}
	return h
}

// StreamHeader returns the header fields of a GET that opens an event stream. They
// belong to the caller.
func (a *Session) StreamHeader() http.Header {
	a.making.Lock()
	h := a.base.Clone()
	a.making.Unlock()
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	return h
}
