package events

import (
	"cmp"
	"fmt"
	"time"

	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/driver"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Settings are the settings of a lane of system events.
type Settings struct {
	// opens a stream for changes of the event types, and lists the types again after each change;
	// in the legacy era only one lane of a run can
	Listen bool `json:"listen,omitempty"`
	// resumes a subscription that churn closed from its last cursor when it is reopened: events
	// published meanwhile are replayed, up to maxAge if given
	Resume bool `json:"resume,omitempty" needs:"churn.rate: subscriptions are not closed"`
	// cursor with which each subscription begins; empty = null, which means from now on
	Cursor string `json:"cursor,omitempty"`
	// subscribes to webhooks without a token, which the target must refuse with Forbidden; accepted
	// subscriptions are counted, and the run warns of them
	Anonymous bool `json:"anonymous,omitempty"`
	// mean life of a stream (±50 %) after which the lane cuts it like a lost network; 0 = never
	CutEvery time.Duration `json:"cutEvery,omitempty" check:"0.."`
	// cuts all streams of the lane together, this long after the measured phase began; 0 = never
	CutAt  time.Duration `json:"cutAt,omitempty" check:"0.."`
	CutFor time.Duration `json:"cutFor,omitempty" check:"0.." needs:"cutEvery or cutAt: no stream is cut"` // how long a cut stream stays closed, in addition to push.backoff
	// how long streams stop reading when the measured phase begins, as slow readers do; 0 = not at
	// all. The target has to wait when the buffers between it and the reader are full.
	StallFor time.Duration `json:"stallFor,omitempty" check:"0.."`
	// share of the streams that stop reading, chosen by the seed; 0 = all
	StallShare float64 `json:"stallShare,omitempty" check:"0..1" needs:"stallFor: no stream stops reading"`
}

// Defaults are the settings of a lane that sets nothing.
func Defaults(string) *Settings { return &Settings{} }

// Key is the key of the settings in a lane.
func (s *Settings) Key() string { return "events" }

// Check reports what is wrong with the settings and their lane.
func (s *Settings) Check(l settings.Lane) {
	if l.Mode == "poll" && l.LongPoll > 0 && l.Revision != string(mcpclient.LongPoll) {
		l.Bad("poll.timeout", "revision "+l.Revision+" has no long polls", "remove it, or set target.revision: longpoll")
	}
	if l.Mode != "webhook" && l.Given("events.anonymous") {
		l.Bad("events.anonymous", "only webhooks need a token", "remove it, or set mode: webhook")
	} else if s.Anonymous && l.OverStdio {
		l.Bad("events.anonymous", "a program has no tokens", "remove it, or connect to a server by its url")
	}
	if l.Mode != "push" {
		l.Reject(
			"events",
			[]string{"cutEvery", "cutAt", "cutFor"},
			fmt.Sprintf("a lane of mode %s has no streams to cut", l.Mode),
			"remove it, or set mode: push",
		)
		l.Reject(
			"events",
			[]string{"stallFor", "stallShare"},
			fmt.Sprintf("a lane of mode %s has no streams that could stop reading", l.Mode),
			"remove it, or set mode: push",
		)
	} else if s.StallFor > 0 && l.OverStdio {
		l.Bad("events.stallFor", "all streams of a program share its output", "remove it, or connect to a server by its url")
	}
}

// cuts reports whether the lane cuts streams.
func (s *Settings) cuts() bool { return s.CutEvery > 0 || s.CutAt > 0 }

// Replays reports whether subscriptions that are opened again are given what they
// missed.
func (s *Settings) Replays() bool { return s.Resume }

// Listens reports whether the lane opens a stream for changes of the event types.
func (s *Settings) Listens() bool { return s.Listen }

// SmitherySettings are the settings of a lane of system smithery in addition to its webhook block:
// variants seen in practice.
type SmitherySettings struct {
	// key under which arguments are sent: params, as specified (the default), or arguments
	ArgumentsKey string `json:"argumentsKey,omitempty" check:"|params|arguments"`
	// adds an id chosen by the client to each subscribe call
	ClientID bool `json:"clientID,omitempty"`
}

// SmitheryDefaults are the settings of a lane that sets nothing.
func SmitheryDefaults(string) *SmitherySettings { return &SmitherySettings{} }

// Key is the key of the settings in a lane.
func (s *SmitherySettings) Key() string { return "smithery" }

// Check reports what is wrong with the settings and their lane: there are only
// webhooks, and the server chooses their life.
func (s *SmitherySettings) Check(l settings.Lane) {
	if l.Mode == "webhook" && l.TTL != "default" {
		l.Bad("webhook.ttl", "system smithery has no requested ttl", "remove it; the server chooses the life of a subscription")
	}
	if l.MaxAge != 0 {
		l.Bad("maxAge", "system smithery has no replay", "remove it")
	}
}

// flavour has the differences between two systems: the MCP Events draft, and Smithery's
// triggers, which are the draft's webhooks without cursors, envelopes and requested
// lifetimes.
type flavour struct {
	list, subscribe, unsubscribe string // methods
	arguments                    string // member of the arguments
	// plain is true if neither a cursor nor a requested lifetime is sent.
	plain    bool
	clientID bool // see SmitherySettings
	// capabilities are the names under which servers advertise the system;
	// empty = those of the draft.
	capabilities []string
	// intent is true if the listener serves receiverDocument.
	intent bool
}

// flavourOf returns the flavour of a lane and its settings.
func flavourOf(o driver.Options) (flavour, Settings, error) {
	if o.System != "smithery" {
		set, err := driver.SettingsOr(&o, Defaults)
		f := flavour{list: methodList, subscribe: methodSubscribe, unsubscribe: methodUnsubscribe, arguments: "arguments", intent: true}
		if o.Endpoint != nil && o.Endpoint.Revision() == mcpclient.Older {
			f.arguments = "params"
		}
		return f, set, err
	}
	set, err := driver.SettingsOr(&o, SmitheryDefaults)
	f := flavour{
		list: smitheryList, subscribe: smitherySubscribe, unsubscribe: smitheryUnsubscribe, arguments: "params",
		plain: true, clientID: set.ClientID, capabilities: []string{"ai.smithery/events"},
	}
	f.arguments = cmp.Or(set.ArgumentsKey, f.arguments)
	switch {
	case o.MaxAge != 0:
		return f, Settings{}, fmt.Errorf("there is no replay: leave maxAge out")
	case o.Webhook.TTL != "" && o.Webhook.TTL != settings.TTLDefault:
		return f, Settings{}, fmt.Errorf("a ttl cannot be requested: leave webhook.ttl out")
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
