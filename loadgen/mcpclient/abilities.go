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

// listMembers are the methods of lists, and the members that have their entries.
var listMembers = []struct{ method, member string }{
	{"tools/list", "tools"},
	{"prompts/list", "prompts"},
	{"resources/list", "resources"},
	{"resources/templates/list", "resourceTemplates"},
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
	o := wire.BeginObject(nil)
	o.Int("requestId", int64(e.NextID()))
	o.String("resumeToken", "none")
	a := e.ask(ctx, session, "requests/getStatus", o)
	// A target with the method answers that there is no such request.
	out.Resumable = a.Err == nil || a.Err.HasCode && a.Err.code != codeMethodNotFound && a.Err.code != codeInvalidRequest
	a.Release()
	for _, l := range listMembers {
		if ctx.Err() != nil {
			return out, TransportError(ctx, ctx.Err())
		}
		a := e.ask(ctx, session, l.method, wire.BeginObject(nil))
		var c wire.Cacheable
		if a.Err == nil && wire.ScanCacheable(*a.Buf, &c) {
			out.Lists = append(out.Lists, listAbility(*a.Buf, l.method, l.member, &c))
		}
		a.Release()
	}
	return out, nil
}

func listAbility(answer []byte, method, member string, c *wire.Cacheable) ListAbility {
	out := ListAbility{Method: method, TTL: c.TTL, HasTTL: c.HasTTL, More: len(c.NextCursor) > 0}
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	var entries []json.RawMessage
	if json.Unmarshal(answer, &m) == nil && json.Unmarshal(m.Result[member], &entries) == nil {
		out.Entries = len(entries)
	}
	switch {
	case c.Public:
		out.Scope = "public"
	case c.HasScope:
		out.Scope = "private"
	}
	return out
}

// ask makes one call on the endpoint's own connections.
func (e *Endpoint) ask(ctx context.Context, session *Session, method string, params wire.Object) *Answer {
	if session.Meta != nil {
		params.Raw("_meta", session.Meta)
	}
	c := e.Caller(toolClock, nil)
	a := c.Call(ctx, method, session.Header(method, ""), wire.AppendRequest(nil, e.NextID(), method, params.End()))
	if a.Err == nil && !bytes.Contains(*a.Buf, []byte(`"result"`)) {
		a.Err = &CallError{Method: method, Kind: KindProtocol, Message: "answered with something else"}
	}
	return a
}
