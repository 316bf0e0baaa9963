package events

import (
	"cmp"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/defaults"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Settings are what only lanes of the MCP Events draft can be asked for.
type Settings struct {
	// Listen opens a stream for changes of the event types, as the lane's first
	// principal, and lists them again at each. A session of the legacy era has
	// one such stream, so no two lanes of an Endpoint may ask for it there.
	Listen bool
	// Resume lets a subscription that is attached again go on from the last
	// cursor that it had, so that what happened meanwhile is replayed, as far
	// back as Options.MaxAge if that is set.
	Resume bool
	// CutEvery is how long a stream lives, half as long to half as long again,
	// until the lane cuts it as a lost network would; 0 = it does not. CutFor
	// is how long it stays away then, on top of the backoff.
	CutEvery, CutFor time.Duration
}

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s Settings) WithDefaults() Settings { return s }

// SmitherySettings are the variants of Smithery's triggers that are seen in the
// wild.
type SmitherySettings struct {
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

// WithDefaults returns the settings with every field filled in whose zero value
// stands for a default.
func (s SmitherySettings) WithDefaults() SmitherySettings {
	s.ArgumentsKey = cmp.Or(s.ArgumentsKey, defaults.SmitheryArgumentsKey)
	return s
}

// flavourOf picks the flavour of a lane, and returns its settings.
func flavourOf(o driver.Options) (flavour, Settings, error) {
	if o.System != "smithery" {
		set, err := driver.SettingsOf[Settings](&o)
		f := flavour{list: methodList, subscribe: methodSubscribe, unsubscribe: methodUnsubscribe, arguments: "arguments", intent: true}
		if o.Endpoint != nil && o.Endpoint.Revision() == mcpclient.Older {
			f.arguments = "params"
		}
		return f, set, err
	}
	set, err := driver.SettingsOf[SmitherySettings](&o)
	set = set.WithDefaults()
	f := flavour{
		list: smitheryList, subscribe: smitherySubscribe, unsubscribe: smitheryUnsubscribe, arguments: "params",
		plain: true, clientID: set.ClientID, capabilities: []string{"ai.smithery/events"},
	}
	switch k := set.ArgumentsKey; k {
	case "params", "arguments":
		f.arguments = k
	default:
		return f, Settings{}, fmt.Errorf("smithery: argumentsKey %q is not known: use params or arguments", k)
	}
	switch {
	case o.Mode != eventmeter.Webhook:
		return f, Settings{}, fmt.Errorf("smithery: mode %q: there is only webhook", o.Mode)
	case o.MaxAge != 0:
		return f, Settings{}, fmt.Errorf("smithery: there is no replay: leave maxAge out")
	case o.Webhook.TTL != 0 || o.Webhook.NoExpiry:
		return f, Settings{}, fmt.Errorf("smithery: there is no wish for a ttl: leave it out")
	}
	return f, Settings{}, err
}

// Extension is the name of the MCP Events extension.
const Extension = "io.modelcontextprotocol/events"

// The methods of the MCP Events draft.
const (
	methodList        = "events/list"
	methodPoll        = "events/poll"
	methodStream      = "events/stream"
	methodSubscribe   = "events/subscribe"
	methodUnsubscribe = "events/unsubscribe"
)

// The methods of Smithery's triggers.
const (
	smitheryList        = "ai.smithery/events/list"
	smitherySubscribe   = "ai.smithery/events/subscribe"
	smitheryUnsubscribe = "ai.smithery/events/unsubscribe"
)
