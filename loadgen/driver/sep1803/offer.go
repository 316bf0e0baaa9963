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
	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

const eventScheme = "event://"

// resourceOffer is the event resources of a target.
type resourceOffer struct {
	fixed     []eventResource // of resources/list
	templates []eventResource // of resources/templates/list
}

// eventResource is one entry of either list.
type eventResource struct {
	URI         string `json:"uri"`
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Meta        struct {
		EventSchema  json.RawMessage `json:"eventSchema"`
		ParamsSchema json.RawMessage `json:"paramsSchema"`
		WebhookType  string          `json:"webhookType"`
	} `json:"_meta"`
}

func (e *eventResource) address() string { return e.URI + e.URITemplate }

// is tells whether the resource is of an event type: by the type that its
// webhooks have, by its name, or by the first part of its URI.
func (e *eventResource) is(event string) bool {
	authority, _, _ := strings.Cut(strings.TrimPrefix(e.address(), eventScheme), "/")
	authority, _, _ = strings.Cut(authority, "{")
	return e.Meta.WebhookType == event || e.Name == event || authority == event
}

// known returns what the target offers, asking it once.
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

// refusedOnly tells whether an error is the target's answer, which asking again
// would not change.
func refusedOnly(err error) bool {
	return !errors.Is(err, mcpclient.ErrUnreachable) && !errors.Is(err, mcpclient.ErrThrottled)
}

// listEvents reads one list, all pages of it, and keeps the events. As the list
// of resources also holds the caller's subscriptions, it may be long.
func (d *lane) listEvents(ctx context.Context, method, member string) ([]eventResource, error) {
	var all []eventResource
	cursor, kept := "", 0
	for range mcpclient.MaxPages {
		o := wire.BeginObject(nil)
		if cursor != "" {
			o.String("cursor", cursor)
		}
		var page map[string]json.RawMessage
		if _, err := d.exchange(ctx, d.ep.Principal(0), eventmeter.Discovery, method, o, &page); err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if raw := page[member]; len(raw) > 0 && json.Unmarshal(raw, &entries) != nil {
			return nil, fmt.Errorf("%s: %w: %s is no list", method, mcpclient.ErrProtocol, member)
		}
		for _, raw := range entries {
			var e eventResource
			// What cannot be read in part is read as far as it goes: somebody
			// else's _meta may use the same names for something else.
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
			return nil, fmt.Errorf("%s: %w: nextCursor is no string", method, mcpclient.ErrProtocol)
		}
		if next == "" || next == cursor {
			return all, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("%s: %w: more than %d pages", method, mcpclient.ErrProtocol, mcpclient.MaxPages)
}

// uriOf gives the URI of subscription i: the lane's event, with its arguments.
func (d *lane) uriOf(ctx context.Context, i int) (string, error) {
	values, err := d.argumentsOf(i)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(d.opts.Event, eventScheme) {
		return expand(d.opts.Event, values)
	}
	offer, err := d.known(ctx)
	if err != nil {
		return "", err
	}
	return offer.uri(d.opts.Event, values)
}

// argumentsOf are the values of subscription i's variables.
func (d *lane) argumentsOf(i int) (map[string]any, error) {
	values := map[string]any{}
	if d.opts.Arguments == nil {
		return values, nil
	}
	raw := d.opts.Arguments(i)
	if len(raw) == 0 {
		return values, nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("%w: arguments %s are not a JSON object", mcpclient.ErrInvalid, errtext.Line(string(raw)))
	}
	for name, v := range args {
		text, err := plainText(v)
		if err != nil {
			return nil, fmt.Errorf("%w: argument %s: %w", mcpclient.ErrInvalid, name, err)
		}
		values[name] = text
	}
	return values, nil
}

// plainText makes a template's value of a JSON value.
func plainText(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '[':
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: a list may hold text only", errtext.Line(string(raw)))
		}
		return list, nil
	case '{', 'n':
		return nil, fmt.Errorf("%s: use text, numbers, true, false or a list of texts", errtext.Line(string(raw)))
	}
	return string(raw), nil // a number or a boolean
}

// uri finds the resource of an event: one that takes no variables where there
// are no values, else a template that takes just these.
func (o *resourceOffer) uri(event string, values map[string]any) (string, error) {
	var seen []string
	for _, e := range slices.Concat(o.fixed, o.templates) {
		seen = append(seen, e.address())
		if !e.is(event) {
			continue
		}
		if e.URITemplate == "" {
			if len(values) == 0 {
				return e.URI, nil
			}
			continue
		}
		if t, err := wire.ParseURITemplate(e.URITemplate); err == nil && takes(t, values) {
			return expandTemplate(t, e.URITemplate, values)
		}
	}
	if len(seen) == 0 {
		return "", fmt.Errorf("%w: it lists no event:// resources", mcpclient.ErrNotOffered)
	}
	return "", fmt.Errorf("%w: no event resource of %q takes these arguments; there are %s", mcpclient.ErrNotOffered, event, errtext.Line(strings.Join(seen, ", ")))
}

// takes tells whether every value has a place in the template and every place
// a value.
func takes(t *wire.URITemplate, values map[string]any) bool {
	names := t.Names()
	for _, n := range names {
		if _, given := values[n]; !given {
			return false
		}
	}
	for n := range values {
		if !slices.Contains(names, n) {
			return false
		}
	}
	return true
}

func expand(template string, values map[string]any) (string, error) {
	t, err := wire.ParseURITemplate(template)
	if err != nil {
		return "", fmt.Errorf("%w: URI template %s: %w", mcpclient.ErrInvalid, errtext.Line(template), err)
	}
	return expandTemplate(t, template, values)
}

func expandTemplate(t *wire.URITemplate, text string, values map[string]any) (string, error) {
	uri, err := t.Expand(values)
	if err != nil {
		return "", fmt.Errorf("%w: URI template %s: %w", mcpclient.ErrInvalid, errtext.Line(text), err)
	}
	return uri, nil
}

// Discover asks the target who it is and what event resources it has. A target
// without any is ErrNotOffered only if it does not know the lists.
func (d *lane) Discover(ctx context.Context) (driver.Offer, error) {
	agreed, err := d.ep.Principal(0).Session(ctx, d.observe)
	if err != nil {
		return driver.Offer{}, err
	}
	o := driver.Offer{ServerInfo: agreed.Info(), Capabilities: agreed.Capabilities}
	var caps struct {
		Resources struct {
			Events       bool     `json:"events"`
			ListChanged  bool     `json:"listChanged"`
			Subscribe    bool     `json:"subscribe"`
			Subscription []string `json:"subscription"`
		} `json:"resources"`
	}
	_ = json.Unmarshal(agreed.Capabilities, &caps) // what is odd counts as absent
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
		return o, fmt.Errorf("discover %s: %w", d.ep.Name(), err)
	}
	for _, e := range slices.Concat(known.fixed, known.templates) {
		o.Events = append(o.Events, driver.EventType{
			Name: e.address(), Description: e.Description, Delivery: slices.Clone(modes),
			InputSchema: e.Meta.ParamsSchema, PayloadSchema: e.Meta.EventSchema,
		})
	}
	return o, nil
}
