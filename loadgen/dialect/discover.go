package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpload/mcpload"
	"github.com/mcpload/mcpload/internal/wire"
)

// maxPages bounds events/list: a server whose cursor never ends is broken.
const maxPages = 1000

// Discover asks the target who it is and what events it has, as the first
// principal. A target that has no events at all is ErrNotOffered.
func (d *events) Discover(ctx context.Context) (Offer, error) {
	p := d.ep.principals[0]
	agreed, err := p.agree(ctx, d.observe)
	if err != nil {
		return Offer{}, err
	}
	o := Offer{
		Era: agreed.era, Version: agreed.version, Versions: agreed.versions, Server: agreed.server,
		ServerVersion: agreed.serverVersion, Capabilities: agreed.capabilities,
	}
	o.Capability, o.ListChanged = eventsCapability(agreed.capabilities)
	var cursor json.RawMessage
	for range maxPages {
		page, err := d.list(ctx, agreed, cursor)
		if err != nil {
			return o, fmt.Errorf("discover %s: %w", d.ep.opts.URL, err)
		}
		for _, e := range page.Events {
			o.Events = append(o.Events, e.eventType())
		}
		if next := string(page.NextCursor); next == "" || next == "null" || next == `""` || next == string(cursor) {
			return o, nil
		}
		cursor = page.NextCursor
	}
	return o, fmt.Errorf("discover %s: events/list: %w: more than %d pages", d.ep.opts.URL, ErrProtocol, maxPages)
}

type listPage struct {
	Events     []listedEvent   `json:"events"`
	NextCursor json.RawMessage `json:"nextCursor"`
}

type listedEvent struct {
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	Delivery      []string        `json:"delivery"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

func (e listedEvent) eventType() EventType {
	t := EventType{Name: e.Name, Description: e.Description, InputSchema: e.InputSchema, PayloadSchema: e.PayloadSchema}
	for _, m := range e.Delivery {
		t.Delivery = append(t.Delivery, mcpload.Mode(m))
	}
	return t
}

func (d *events) list(ctx context.Context, agreed *agreement, cursor json.RawMessage) (listPage, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	o := wire.BeginObject(nil)
	if cursor != nil {
		o.Raw("cursor", cursor)
	}
	_, body := d.build(methodList, o, agreed)
	a := d.call(ctx, methodList, agreed.headers[methodList], body)
	defer a.release()
	d.called(mcpload.Discovery, methodList, a)
	if a.err != nil {
		return listPage{}, a.err
	}
	var m struct {
		Result listPage `json:"result"`
	}
	if err := json.Unmarshal(*a.buf, &m); err != nil {
		return listPage{}, &callError{method: methodList, kind: kindProtocol, cause: err}
	}
	return m.Result, nil
}

// eventsCapability finds the capability, which servers put in three places.
func eventsCapability(caps json.RawMessage) (where string, listChanged bool) {
	var c struct {
		Events       json.RawMessage            `json:"events"`
		Extensions   map[string]json.RawMessage `json:"extensions"`
		Experimental map[string]json.RawMessage `json:"experimental"`
	}
	// What cannot be read in part is read as far as it goes: an odd capability
	// of something else must not hide this one.
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(caps, &c); err != nil && !errors.As(err, &odd) {
		return "", false
	}
	found := func(raw json.RawMessage) bool {
		var v struct {
			ListChanged bool `json:"listChanged"`
		}
		if len(raw) == 0 || string(raw) == "null" || string(raw) == "false" {
			return false
		}
		json.Unmarshal(raw, &v) // a capability that is no object has no listChanged
		listChanged = v.ListChanged
		return true
	}
	if found(c.Events) {
		return "events", listChanged
	}
	for _, m := range []struct {
		where string
		in    map[string]json.RawMessage
	}{{"extensions", c.Extensions}, {"experimental", c.Experimental}} {
		for _, name := range []string{"events", "io.modelcontextprotocol/events"} {
			if found(m.in[name]) {
				return m.where, listChanged
			}
		}
	}
	return "", false
}
