package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/internal/wire"
)

// Listing is all pages of a list.
type Listing struct {
	// Method is the JSON-RPC method of the list.
	Method string
	// System is the system whose event types are listed; "" = none.
	System  string
	Entries []json.RawMessage
	Pages   int
	// Took is the time from the first request to the last answer, without a
	// handshake. Up and Down are bytes as in a [eventmeter.Call].
	Took     time.Duration
	Up, Down int64
	// TTL is how long the first page may be kept; HasTTL is true if the answer has it.
	TTL    time.Duration
	HasTTL bool
	// Scope is public, private, or "" if the answer does not have it, which means
	// private.
	Scope string
}

// listNames are the lists of [Endpoint.List].
var listNames = []struct{ name, method, member, system string }{
	{"events", methodProbe, "events", "events"},
	{"triggers", "ai.smithery/events/list", "events", "smithery"},
	{"tools", "tools/list", "tools", ""},
	{"prompts", "prompts/list", "prompts", ""},
	{"resources", "resources/list", "resources", ""},
	{"templates", "resources/templates/list", "resourceTemplates", ""},
}

// Lists returns the names of the lists of [Endpoint.List].
func Lists() (names []string) {
	for _, l := range listNames {
		names = append(names, l.name)
	}
	return names
}

// List fetches a list as the first principal. name is events, triggers (the events of
// Smithery), tools, prompts, resources or templates. The errors wrap those of the
// package, except for an unknown name.
func (e *Endpoint) List(ctx context.Context, name string) (Listing, error) {
	i := slices.IndexFunc(listNames, func(l struct{ name, method, member, system string }) bool { return l.name == name })
	if i < 0 {
		return Listing{}, fmt.Errorf("list: there is no %q: use %s", name, strings.Join(Lists(), " or "))
	}
	l := listNames[i]
	session, err := e.principals[0].Session(ctx, nil)
	if err != nil {
		return Listing{}, fmt.Errorf("%s: %w", l.method, err)
	}
	out := Listing{Method: l.method, System: l.system}
	start := time.Now()
	var cursor string
	var size ListSize
	for out.Pages < MaxPages {
		params := wire.BeginObject(nil)
		if cursor != "" {
			params.String("cursor", cursor)
		}
		a := e.ask(ctx, session, l.method, params)
		out.Took, out.Up, out.Down = time.Since(start), out.Up+a.Up, out.Down+a.Down
		next, err := out.page(a, l.member, &size)
		a.Release()
		if err != nil {
			return out, fmt.Errorf("%s at %s: %w", l.method, e.opts.URL, err)
		}
		if next == "" || next == cursor {
			return out, nil
		}
		cursor = next
	}
	return out, fmt.Errorf("%s at %s: %w: more than %d pages", l.method, e.opts.URL, ErrProtocol, MaxPages)
}

// page adds one page, and returns the cursor of the next one; "" = there is none.
func (l *Listing) page(a *Answer, member string, size *ListSize) (next string, err error) {
	if a.Err != nil {
		return "", a.Err
	}
	if err := size.Add(*a.Buf, member); err != nil {
		return "", err
	}
	var m struct {
		Result map[string]json.RawMessage `json:"result"`
	}
	var entries []json.RawMessage
	var c wire.Cacheable
	err = json.Unmarshal(*a.Buf, &m)
	if err == nil {
		err = json.Unmarshal(m.Result[member], &entries)
	}
	if err != nil || !wire.ScanCacheable(*a.Buf, &c) {
		return "", &CallError{Method: l.Method, Kind: KindProtocol, Cause: err}
	}
	if l.Pages++; l.Pages == 1 {
		l.TTL, l.HasTTL, l.Scope = c.TTL, c.HasTTL, scopeOf(&c)
	}
	l.Entries = append(l.Entries, entries...)
	return string(c.NextCursor), nil
}

// scopeOf returns the scope of a page; "" if it does not have it.
func scopeOf(c *wire.Cacheable) string {
	switch {
	case c.Public:
		return "public"
	case c.HasScope:
		return "private"
	}
	return ""
}

// ListSize adds up the pages of a list.
type ListSize struct{ bytes, entries int }

// Add adds a page, before it is decoded. The error wraps [ErrList] if the list exceeds
// [MaxListBytes] or [MaxListEntries].
func (l *ListSize) Add(text []byte, member string) error {
	l.bytes += len(text)
	l.entries += wire.ListLength(text, member)
	if l.bytes > MaxListBytes || l.entries > MaxListEntries {
		return &CallError{Kind: KindOversized, Cause: ErrList}
	}
	return nil
}
