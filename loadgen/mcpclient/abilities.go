package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// Abilities are what a target supports besides events.
type Abilities struct {
	// Resumable is true if the target has the method requests/getStatus of SEP-975.
	// Servers do not advertise it. Which requests can be resumed shows only when one
	// is made.
	Resumable bool
	// Lists are the lists that the target has.
	Lists []ListAbility
	// Subscribe is true if clients can subscribe to resources (resources.subscribe).
	Subscribe bool
	// Resources are the URIs on the first page of resources/list, and Tools the tools on that of
	// tools/list.
	Resources []string `json:",omitempty"`
	Tools     []Tool   `json:",omitempty"`
}

// Tool is an entry of tools/list.
type Tool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// ListAbility is what a target says about caching the first page of a list (SEP-2549).
type ListAbility struct {
	Method  string
	Entries int  // on the first page
	More    bool // there are further pages
	// TTL is how long the page may be kept; HasTTL is true if the answer has it.
	TTL    time.Duration
	HasTTL bool
	// Scope is public, private, or "" if the answer does not have it, which means
	// private.
	Scope string
}

// Abilities asks the target, as the first principal, for the status of a request that
// was never made, and for the first page of each list. Methods that the target refuses
// are left out. The error is that of the handshake or of ctx, and wraps one of the
// package's.
func (e *Endpoint) Abilities(ctx context.Context) (Abilities, error) {
	session, err := e.principals[0].Session(ctx, nil)
	if err != nil {
		return Abilities{}, err
	}
	var out Abilities
	var says struct{ Resources struct{ Subscribe bool } }
	_ = json.Unmarshal(session.Capabilities, &says) // what is odd is no capability
	out.Subscribe = says.Resources.Subscribe
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(e.NextID()))
	o.String("resumeToken", "none")
	a := e.ask(ctx, session, "requests/getStatus", o)
	// A target with the method answers that there is no such request.
	out.Resumable = a.Err == nil || a.Err.HasCode && a.Err.code != codeMethodNotFound && a.Err.code != codeInvalidRequest
	a.Release()
	for _, l := range listNames {
		if l.system != "" {
			continue
		}
		if ctx.Err() != nil {
			return out, TransportError(ctx, ctx.Err())
		}
		a := e.ask(ctx, session, l.method, wire.BeginObject(nil))
		var c wire.Cacheable
		if a.Err == nil && wire.ScanCacheable(*a.Buf, &c) {
			entries := entriesOf(*a.Buf, l.member)
			out.Lists = append(out.Lists, listAbility(entries, l.method, &c))
			out.read(l.member, entries)
		}
		a.Release()
	}
	return out, nil
}

// read keeps the resources and tools among the entries of a list.
func (a *Abilities) read(member string, entries []json.RawMessage) {
	for _, entry := range entries {
		var resource struct{ URI string }
		var tool Tool
		switch {
		case member == "resources" && json.Unmarshal(entry, &resource) == nil:
			a.Resources = append(a.Resources, resource.URI)
		case member == "tools" && json.Unmarshal(entry, &tool) == nil:
			a.Tools = append(a.Tools, tool)
		}
	}
}

func entriesOf(answer []byte, member string) (entries []json.RawMessage) {
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	if json.Unmarshal(answer, &m) == nil {
		_ = json.Unmarshal(m.Result[member], &entries) // what is no list has no entries
	}
	return entries
}

func listAbility(entries []json.RawMessage, method string, c *wire.Cacheable) ListAbility {
	return ListAbility{
		Method: method, Entries: len(entries), TTL: c.TTL, HasTTL: c.HasTTL, More: len(c.NextCursor) > 0, Scope: scopeOf(c),
	}
}

// ask makes one call on the endpoint's own connections.
func (e *Endpoint) ask(ctx context.Context, session *Session, method string, params wire.Object) *Answer {
	if session.Meta != nil {
		params.Raw("_meta", session.Meta)
	}
	c := e.Caller(toolClock, nil)
	a := c.Call(ctx, method, session.Header(method, ""), wire.Request(e.NextID(), method, params.End()))
	if a.Err == nil && !bytes.Contains(*a.Buf, []byte(`"result"`)) {
		a.Err = &CallError{Method: method, Kind: KindProtocol, Message: "answered with something else"}
	}
	return a
}
