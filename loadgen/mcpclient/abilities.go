package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// Abilities are what a target can do beside telling of events.
type Abilities struct {
	// Resumable tells that it knows requests/getStatus of SEP-975. Servers do not
	// advertise it; which of their requests can be resumed shows only when one is
	// made.
	Resumable bool
	// Lists are those of SEP-2549 that it has.
	Lists []ListAbility
}

// ListAbility is what a target says about keeping its first page of a list.
type ListAbility struct {
	Method  string
	Entries int  // on the first page
	More    bool // there are further pages
	// TTL is how long the page may be kept; HasTTL tells whether it was said.
	TTL    time.Duration
	HasTTL bool
	// Scope is public, private, or "" when it was not said, which means private.
	Scope string
}

// listMembers are the lists, and where their entries are.
var listMembers = []struct{ method, member string }{
	{"tools/list", "tools"},
	{"prompts/list", "prompts"},
	{"resources/list", "resources"},
	{"resources/templates/list", "resourceTemplates"},
}

// Abilities asks the target, as the first principal: for the status of a
// request that was never made, and for the first page of each list. What it
// does not know is left out; an error means that it does not talk at all, and
// wraps one of the package's.
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
	// That there is no such request is an answer, too; of no such method, not.
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
