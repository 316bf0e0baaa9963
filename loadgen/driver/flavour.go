package driver

import (
	"fmt"

	"github.com/eventmeter/eventmeter"
)

// SmitheryOptions are the variants of Smithery's triggers that are seen in the
// wild.
type SmitheryOptions struct {
	// ArgumentsKey is the name under which the subscription's arguments are
	// sent: "params" (also "") or "arguments".
	ArgumentsKey string
	// ClientID adds an id of the client's own making to each subscribe call.
	ClientID bool
}

// flavour is what tells two systems apart that share the ways of a lane: the
// MCP Events draft, and Smithery's triggers, which are its webhooks without
// cursors, envelopes and wishes.
type flavour struct {
	list, subscribe, unsubscribe string
	arguments                    string
	// plain: neither cursor nor wish for a life is sent.
	plain    bool
	clientID bool
	// capabilities are the names under which servers advertise the system;
	// empty = those of the draft.
	capabilities []string
	// intent: the listener's origin says what it receives.
	intent bool
}

// flavourOf picks the flavour of a lane.
func flavourOf(o Options) (flavour, error) {
	if o.System != "smithery" {
		f := flavour{list: methodList, subscribe: methodSubscribe, unsubscribe: methodUnsubscribe, arguments: "arguments", intent: true}
		if o.Endpoint != nil && o.Endpoint.opts.Revision == Older {
			f.arguments = "params"
		}
		return f, nil
	}
	f := flavour{
		list: smitheryList, subscribe: smitherySubscribe, unsubscribe: smitheryUnsubscribe, arguments: "params",
		plain: true, clientID: o.Smithery.ClientID, capabilities: []string{"ai.smithery/events"},
	}
	switch k := o.Smithery.ArgumentsKey; k {
	case "params", "arguments":
		f.arguments = k
	default:
		return f, fmt.Errorf("smithery: argumentsKey %q is not known: use params or arguments", k)
	}
	switch {
	case o.Mode != eventmeter.Webhook:
		return f, fmt.Errorf("smithery: mode %q: there is only webhook", o.Mode)
	case o.MaxAge != 0:
		return f, fmt.Errorf("smithery: there is no replay: leave maxAge out")
	case o.Webhook.TTL != 0 || o.Webhook.NoExpiry:
		return f, fmt.Errorf("smithery: there is no wish for a ttl: leave it out")
	}
	return f, nil
}
