package sep1803

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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

// is reports whether the resource is of an event type: by the type of its webhooks, by its
// name, or by the first part of its URI.
func (e *eventResource) is(event string) bool {
	authority, _, _ := strings.Cut(strings.TrimPrefix(e.address(), eventScheme), "/")
	authority, _, _ = strings.Cut(authority, "{")
	return e.Meta.WebhookType == event || e.Name == event || authority == event
}

// uri returns the URI of an event's resource: without values one without variables,
// otherwise the expansion of a template with exactly these variables. The errors wrap
// [mcpclient.ErrNotOffered] or [mcpclient.ErrInvalid].
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
			return driver.ExpandURI(e.URITemplate, values)
		}
	}
	if len(seen) == 0 {
		return "", fmt.Errorf("%w: the target lists no event:// resources", mcpclient.ErrNotOffered)
	}
	return "", fmt.Errorf(
		"%w: no event resource of %q takes these arguments; there are %s",
		mcpclient.ErrNotOffered,
		event,
		errtext.Line(strings.Join(seen, ", ")),
	)
}

// takes reports whether the template's variables are exactly the names of values.
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
