package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// principal is one identity of a run and what it agreed on with the target.
type principal struct {
	endpoint *Endpoint
	index    int
	token    string

	mu      sync.Mutex
	now     *agreement    // nil = no handshake yet, or its session was lost
	shaking chan struct{} // closed at the end of the handshake under way; nil = there is none
}

// agreement is the outcome of a handshake. It does not change.
type agreement struct {
	era           Era
	version       string
	versions      []errtext.Said
	server        errtext.Said
	serverVersion errtext.Said
	capabilities  json.RawMessage
	session       string
	fallback      string // what was refused before, see Offer.Fallback

	meta    []byte                 // the _meta object of modern requests; nil in other eras
	headers map[string]http.Header // by method; shared by all requests, never written
	sdk     *mcp.ClientSession     // a legacy session that has to be ended
}

// plain are texts that were cleaned where they came in.
func plain(said []errtext.Said) []string {
	var out []string
	for _, s := range said {
		out = append(out, string(s))
	}
	return out
}

// offer says who the target is, without what it has.
func (a *agreement) offer() Offer {
	return Offer{
		Era: a.era, Version: a.version, Versions: plain(a.versions), Server: string(a.server), ServerVersion: string(a.serverVersion), Capabilities: a.capabilities,
		Fallback: a.fallback,
	}
}

// agree returns the principal's agreement, shaking hands if there is none. One
// handshake serves all who ask meanwhile, each as long as its ctx lasts.
// observe, if not nil, is told of the traffic.
func (p *principal) agree(ctx context.Context, observe func(eventmeter.Call)) (*agreement, error) {
	for {
		p.mu.Lock()
		now, under := p.now, p.shaking
		if now == nil && under == nil {
			p.shaking = make(chan struct{})
		}
		p.mu.Unlock()
		switch {
		case now != nil:
			return now, nil
		case under == nil:
			return p.open(ctx, observe)
		}
		select {
		case <-under: // and if it failed, the next one is ours to try
		case <-ctx.Done():
			return nil, fmt.Errorf("handshake with %s: another one was awaited: %w: %w", p.endpoint.opts.URL, ErrUnreachable, ctx.Err())
		}
	}
}

// open makes the handshake that shaking announces.
func (p *principal) open(ctx context.Context, observe func(eventmeter.Call)) (*agreement, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	a, err := p.settle(ctx, observe)
	p.mu.Lock()
	p.now = a
	close(p.shaking)
	p.shaking = nil
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

// settle makes a handshake in the era that was asked for, or in the one that the
// target is known to be of.
func (p *principal) settle(ctx context.Context, observe func(eventmeter.Call)) (*agreement, error) {
	e := p.endpoint
	shake := func(era Era) (*agreement, error) {
		switch {
		case era == Bare: // nothing is agreed on
			a := &agreement{era: Bare}
			a.build(p)
			return a, nil
		case e.pipe != nil:
			return p.shakePipe(ctx, era, observe)
		}
		return p.shake(ctx, era, observe)
	}
	if e.opts.Era != Auto {
		return shake(e.opts.Era)
	}
	return e.eras.agreed(ctx, shake)
}

// forget drops an agreement whose session the server no longer knows, so that
// the next call shakes hands anew, and takes leave of the session all the same.
func (p *principal) forget(a *agreement) {
	p.mu.Lock()
	mine := p.now == a
	if mine {
		p.now = nil
	}
	p.mu.Unlock()
	if mine { // a call that may take seconds, for which nobody else has to wait
		a.end()
	}
}

// end ends the session, if there is one. Whether the server still knew it
// makes no difference.
func (p *principal) end() {
	p.mu.Lock()
	a := p.now
	p.now = nil
	p.mu.Unlock()
	if a != nil {
		a.end()
	}
}

func (a *agreement) end() {
	if a.sdk != nil {
		_ = a.sdk.Close()
	}
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
