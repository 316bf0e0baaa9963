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

// Discover implements [driver.Discoverer], as the first principal. If the target does not
// have the method that lists events, the error wraps [mcpclient.ErrNotOffered].
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

// listAll reads all pages of the list of event types. With an error it returns the event
// types of the pages before.
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
	t := driver.EventType{
		Name:          string(e.Name),
		Description:   string(e.Description),
		InputSchema:   e.InputSchema,
		PayloadSchema: e.PayloadSchema,
	}
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
		d.judgeUnlisted(a, session)
		return listPage{}, a.Err
	}
	if err := size.Add(*a.Buf, "events"); err != nil {
		d.TooLarge(a.At, err)
		return listPage{}, err
	}
	d.judgeList(*a.Buf, cursor) // behind the bound, which a hostile page exceeds
	var m struct {
		Result listPage `json:"result"`
	}
	if err := json.Unmarshal(*a.Buf, &m); err != nil {
		return listPage{}, &mcpclient.CallError{Method: method, Kind: mcpclient.KindProtocol, Cause: err}
	}
	return m.Result, nil
}

// eventsCapability returns the first place of a capability under one of names, and its
// listChanged. Without names it looks for the capability of MCP Events.
func eventsCapability(caps json.RawMessage, names ...string) (where string, listChanged bool) {
	for _, p := range capabilityPlaces(caps, names...) {
		return p.where, p.listChanged
	}
	return "", false
}

// eventsCapabilities returns all places that have the capability of MCP Events.
func eventsCapabilities(caps json.RawMessage) (all []string) {
	for _, p := range capabilityPlaces(caps) {
		all = append(all, p.where)
	}
	return all
}

// capabilityPlace is a place that has a capability: "extensions", "events" or
// "experimental".
type capabilityPlace struct {
	where       string
	listChanged bool
	odd         bool // its listChanged is no boolean
}

// capabilityPlaces returns all places of a capability under one of names; without names,
// of the capability of MCP Events.
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
	// An error of type is ignored: another capability of an odd form must not hide this
	// one.
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
		err := json.Unmarshal(raw, &v) // a capability that is not an object has no listChanged
		all = append(all, capabilityPlace{where, v.ListChanged, err != nil && raw[0] == '{'})
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
