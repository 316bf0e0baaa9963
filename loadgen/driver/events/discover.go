package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Discover asks the target who it is and what events it has, as the first
// principal. A target that has no events at all is ErrNotOffered.
func (d *lane) Discover(ctx context.Context) (driver.Offer, error) {
	p := d.Endpoint.Principal(0)
	session, err := p.Session(ctx, d.Observe)
	if err != nil {
		return driver.Offer{}, err
	}
	o := driver.Offer{ServerInfo: session.Info(), Capabilities: session.Capabilities}
	o.Capability, o.ListChanged = eventsCapability(session.Capabilities, d.flavour.capabilities...)
	o.Events, err = d.listAll(ctx, session, &d.said)
	if err != nil {
		return o, fmt.Errorf("discover %s: %w", d.Endpoint.Name(), err)
	}
	return o, nil
}

// listAll reads the catalogue, all pages of it; with an error, what was read
// before.
func (d *lane) listAll(ctx context.Context, session *mcpclient.Session, said *said) (all []driver.EventType, err error) {
	var cursor json.RawMessage
	var size mcpclient.ListSize
	for range mcpclient.MaxPages {
		page, err := d.list(ctx, session, cursor, &size)
		if err != nil {
			return all, err
		}
		if said != nil {
			said.page(&page, cursor)
		}
		for _, e := range page.Events {
			all = append(all, e.eventType())
		}
		if next := string(page.NextCursor); next == "" || next == "null" || next == `""` || next == string(cursor) {
			return all, nil
		}
		cursor = page.NextCursor
	}
	return all, fmt.Errorf("%s: %w: more than %d pages", d.flavour.list, mcpclient.ErrProtocol, mcpclient.MaxPages)
}

type listPage struct {
	ResultType string          `json:"resultType"`
	Events     []listedEvent   `json:"events"`
	NextCursor json.RawMessage `json:"nextCursor"`
}

type listedEvent struct {
	Name          errtext.Said    `json:"name"`
	Description   errtext.Said    `json:"description"`
	Delivery      []errtext.Said  `json:"delivery"`
	DeliveryModes []errtext.Said  `json:"deliveryModes"` // the older spelling
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

func (e listedEvent) eventType() driver.EventType {
	t := driver.EventType{Name: string(e.Name), Description: string(e.Description), InputSchema: e.InputSchema, PayloadSchema: e.PayloadSchema}
	for _, m := range append(e.Delivery, e.DeliveryModes...) {
		t.Delivery = append(t.Delivery, eventmeter.Mode(m))
	}
	return t
}

func (d *lane) list(ctx context.Context, session *mcpclient.Session, cursor json.RawMessage, size *mcpclient.ListSize) (listPage, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Opts.Timeout)
	defer cancel()
	o := wire.BeginObject(nil)
	if cursor != nil {
		o.Raw("cursor", cursor)
	}
	method := d.flavour.list
	_, body := d.build(method, o, session)
	a := d.Call(ctx, method, session.Header(method, ""), body)
	defer a.Release()
	d.Called(eventmeter.Discovery, method, a)
	if a.Err != nil {
		return listPage{}, a.Err
	}
	if err := size.Add(*a.Buf, "events"); err != nil {
		d.TooLarge(a.At, err)
		return listPage{}, err
	}
	var m struct {
		Result listPage `json:"result"`
	}
	if err := json.Unmarshal(*a.Buf, &m); err != nil {
		return listPage{}, &mcpclient.CallError{Method: method, Kind: mcpclient.KindProtocol, Cause: err}
	}
	return m.Result, nil
}

// eventsCapability finds the capability, which servers put in three places,
// under one of names; none are those of MCP Events.
func eventsCapability(caps json.RawMessage, names ...string) (where string, listChanged bool) {
	for _, p := range capabilityPlaces(caps, names...) {
		return p.where, p.listChanged
	}
	return "", false
}

// eventsCapabilities are all places where the capability of MCP Events is.
func eventsCapabilities(caps json.RawMessage) (all []string) {
	for _, p := range capabilityPlaces(caps) {
		all = append(all, p.where)
	}
	return all
}

// capabilityPlace is a place where a capability is.
type capabilityPlace struct {
	where       string
	listChanged bool
}

// capabilityPlaces are those of a capability under one of names; none are those of
// MCP Events.
func capabilityPlaces(caps json.RawMessage, names ...string) (all []capabilityPlace) {
	draft := len(names) == 0
	if draft {
		names = []string{Extension, "events"}
	}
	var c struct {
		Events       json.RawMessage            `json:"events"`
		Extensions   map[string]json.RawMessage `json:"extensions"`
		Experimental map[string]json.RawMessage `json:"experimental"`
	}
	// What cannot be read in part is read as far as it goes: an odd capability
	// of something else must not hide this one.
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal(caps, &c); err != nil && !errors.As(err, &odd) {
		return nil
	}
	found := func(where string, raw json.RawMessage) bool {
		var v struct {
			ListChanged bool `json:"listChanged"`
		}
		if len(raw) == 0 || string(raw) == "null" || string(raw) == "false" {
			return false
		}
		_ = json.Unmarshal(raw, &v) // a capability that is no object has no listChanged
		all = append(all, capabilityPlace{where, v.ListChanged})
		return true
	}
	for _, m := range []struct {
		where string
		in    map[string]json.RawMessage
	}{{"extensions", c.Extensions}, {"events", map[string]json.RawMessage{"events": c.Events}}, {"experimental", c.Experimental}} {
		if m.where == "events" && !draft {
			continue
		}
		for _, name := range names {
			if found(m.where, m.in[name]) {
				break
			}
		}
	}
	return all
}
