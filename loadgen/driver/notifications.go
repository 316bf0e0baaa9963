package driver

import (
	"encoding/json"
	"slices"

	"github.com/eventmeter/eventmeter/internal/wire"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// The methods of the base protocol by which clients learn of changes.
const (
	MethodSubscribe    = "resources/subscribe"
	MethodUnsubscribe  = "resources/unsubscribe"
	MethodRead         = "resources/read"
	MethodUpdated      = "notifications/resources/updated"
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	// MethodGet names the GET of a session in reports.
	MethodGet = "GET stream"
)

// List is a list of the base protocol: the method that reads it, the notification of its
// changes, and the member of subscriptions/listen that asks for that notification.
type List struct{ Read, Changed, Want string }

// Lists are the lists by the names of settings.
var Lists = map[string]List{
	"tools":     {"tools/list", "notifications/tools/list_changed", "toolsListChanged"},
	"prompts":   {"prompts/list", "notifications/prompts/list_changed", "promptsListChanged"},
	"resources": {"resources/list", "notifications/resources/list_changed", "resourcesListChanged"},
	"templates": {"resources/templates/list", "notifications/resources/list_changed", "resourcesListChanged"},
}

// Listen fills in subscriptions/listen, the request of the modern era for notifications:
// of changes of the list with the member want, or, without it, of the resources.
func (l *Lane[T]) Listen(r *StreamRequest, want string, resources ...string) {
	what := wire.BeginObject(nil)
	if want != "" {
		what.Raw(want, []byte("true"))
	} else {
		uris := []byte{'['}
		for i, uri := range resources {
			if i > 0 {
				uris = append(uris, ',')
			}
			uris = wire.AppendString(uris, uri)
		}
		what.Raw("resourceSubscriptions", append(uris, ']'))
	}
	o := wire.BeginObject(nil)
	o.Raw("notifications", what.End())
	r.Method, r.Header = mcpclient.MethodListen, r.Session.Header(mcpclient.MethodListen, "")
	r.ID, r.Body = l.Body(r.Session, r.Method, o)
}

// Granted reports whether an acknowledgement of subscriptions/listen covers changes of
// the list with the member want, or, without it, of the resource.
func Granted(acknowledgement []byte, want, resource string) bool {
	var m struct {
		Params struct {
			Notifications map[string]json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	_ = json.Unmarshal(acknowledgement, &m) // a malformed one grants nothing
	if want != "" {
		return string(m.Params.Notifications[want]) == "true"
	}
	var uris []string
	_ = json.Unmarshal(m.Params.Notifications["resourceSubscriptions"], &uris) // a malformed list grants nothing
	return slices.Contains(uris, resource)
}
