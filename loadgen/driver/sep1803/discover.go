package sep1803

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// known returns the event resources of the target, which it requests once.
func (d *lane) known(ctx context.Context) (*resourceOffer, error) {
	d.naming.Lock()
	defer d.naming.Unlock()
	if d.offer != nil {
		return d.offer, nil
	}
	fixed, err := d.listEvents(ctx, methodEventResources, "resources")
	if err != nil && !refusedOnly(err) {
		return nil, err
	}
	templates, err2 := d.listEvents(ctx, methodEventTemplates, "resourceTemplates")
	// A server may have one of the two lists only.
	if err2 != nil && (err != nil || !refusedOnly(err2)) {
		return nil, cmp.Or(err, err2)
	}
	d.offer = &resourceOffer{fixed, templates}
	return d.offer, nil
}

// refusedOnly reports whether err is an answer of the target that would be the same next
// time.
func refusedOnly(err error) bool {
	return !errors.Is(err, mcpclient.ErrUnreachable) && !errors.Is(err, mcpclient.ErrThrottled)
}

// listEvents reads all pages of a list and returns its events. The list of resources may be
// long, because it also has the caller's subscriptions.
func (d *lane) listEvents(ctx context.Context, method, member string) ([]eventResource, error) {
	var all []eventResource
	cursor, kept := "", 0
	for range mcpclient.MaxPages {
		o := wire.BeginObject(nil)
		if cursor != "" {
			o.String("cursor", cursor)
		}
		var page map[string]json.RawMessage
		if _, err := d.exchange(ctx, d.Endpoint.Principal(0), eventmeter.Discovery, method, o, &page); err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if raw := page[member]; len(raw) > 0 && json.Unmarshal(raw, &entries) != nil {
			return nil, fmt.Errorf("%s: %w: %s is not an array", method, mcpclient.ErrProtocol, member)
		}
		for _, raw := range entries {
			var e eventResource
			// Errors are ignored: the _meta of another extension may use the same
			// names for something else.
			_ = json.Unmarshal(raw, &e)
			if strings.HasPrefix(e.address(), eventScheme) {
				all = append(all, e)
				kept += len(raw)
			}
		}
		if kept > mcpclient.MaxListBytes || len(all) > mcpclient.MaxListEntries {
			d.TooLarge(d.Clock.Now(), mcpclient.ErrList)
			return nil, &mcpclient.CallError{Method: method, Kind: mcpclient.KindOversized, Cause: mcpclient.ErrList}
		}
		next := ""
		if raw := page["nextCursor"]; len(raw) > 0 && json.Unmarshal(raw, &next) != nil {
			return nil, fmt.Errorf("%s: %w: nextCursor is not a string", method, mcpclient.ErrProtocol)
		}
		if next == "" || next == cursor {
			return all, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("%s: %w: more than %d pages", method, mcpclient.ErrProtocol, mcpclient.MaxPages)
}

// uriOf returns the URI of subscription i: the lane's event with the arguments.
func (d *lane) uriOf(ctx context.Context, i int) (string, error) {
	values, err := d.TemplateValues(i)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(d.Opts.Event, eventScheme) {
		return driver.ExpandURI(d.Opts.Event, values)
	}
	offer, err := d.known(ctx)
	if err != nil {
		return "", err
	}
	return offer.uri(d.Opts.Event, values)
}

// Discover implements [driver.Discoverer]. If the target has neither of the two lists, the
// error wraps [mcpclient.ErrNotOffered]; lists without event resources are no error.
func (d *lane) Discover(ctx context.Context) (driver.Offer, error) {
	session, err := d.Endpoint.Principal(0).Session(ctx, d.Observe)
	if err != nil {
		return driver.Offer{}, err
	}
	o := driver.Offer{ServerInfo: session.Info(), Capabilities: session.Capabilities}
	var caps struct {
		Resources struct {
			Events       bool     `json:"events"`
			ListChanged  bool     `json:"listChanged"`
			Subscribe    bool     `json:"subscribe"`
			Subscription []string `json:"subscription"`
		} `json:"resources"`
	}
	_ = json.Unmarshal(session.Capabilities, &caps) // members of the wrong type count as absent
	if caps.Resources.Events {
		o.Capability, o.ListChanged = "resources", caps.Resources.ListChanged
	}
	var modes []eventmeter.Mode
	if caps.Resources.Subscribe || slices.Contains(caps.Resources.Subscription, "notification") {
		modes = append(modes, eventmeter.Push)
	}
	if slices.Contains(caps.Resources.Subscription, "webhook") {
		modes = append(modes, eventmeter.Webhook)
	}
	known, err := d.known(ctx)
	if err != nil {
		return o, fmt.Errorf("discover %s: %w", d.Endpoint.Name(), err)
	}
	for _, e := range slices.Concat(known.fixed, known.templates) {
		o.Events = append(o.Events, driver.EventType{
			Name: e.address(), Description: e.Description, Delivery: slices.Clone(modes),
			InputSchema: e.Meta.ParamsSchema, PayloadSchema: e.Meta.EventSchema,
		})
	}
	return o, nil
}
