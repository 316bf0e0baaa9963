package sep1803

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/errtext"
	"github.com/eventmeter/eventmeter/internal/wire"
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
