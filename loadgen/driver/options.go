package driver

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/settings"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
	"github.com/eventmeter/eventmeter/sinks"
)

// Options describes a lane. Clock, Recorder, Endpoint, Mode, Event and
// Subscriptions must be set; everything else has a working zero value.
type Options struct {
	Clock    *eventmeter.Clock
	Recorder eventmeter.Recorder
	Endpoint *mcpclient.Endpoint
	// Lane is the lane's number, as it appears in every report.
	Lane uint16
	// System is the name of the lane's system; "" = "events".
	System string
	Mode   eventmeter.Mode
	// Event is the name of the event type to subscribe to.
	Event string
	// Arguments returns the arguments of subscription i, a JSON object; nil, or an
	// empty result, means {}. It must return the same in every call.
	Arguments func(i int) json.RawMessage
	// MaxAge requests a replay of events up to that age when a subscription is
	// attached; 0 = none.
	MaxAge time.Duration
	// HTTP is "1.1" (also ""), "2" (over TLS) or "h2c".
	HTTP string
	// Subscriptions is the number of subscriptions: indices 0 to Subscriptions-1.
	Subscriptions int
	// Number returns the number of subscription i in the whole run, if this process
	// has only a part of the lane; nil = i. It determines the subscription's principal
	// and its random numbers.
	Number func(i int) int
	// Seed makes jitter, backoff and refusals repeatable. Paths and secrets of
	// webhooks are always random.
	Seed uint64
	// Timeout bounds one call; 0 = 30 s. The time that a long poll may be held is
	// added.
	Timeout time.Duration

	// Poll has the settings of poll lanes; nil = the defaults. Its zero value waits
	// exactly as long as the server says.
	Poll *Poll
	// Push has the settings of push lanes, Webhook those of webhook lanes. A field
	// that is zero has its default. Push.Backoff also applies to polls that fail.
	Push    Push
	Webhook Webhook
	// Listener has the options of a webhook lane's listener that are not settings.
	Listener ListenerOptions
	// KernelTimestamps takes the times of deliveries from the kernel where possible:
	// on Linux, without TLS.
	KernelTimestamps bool
	// Unjudged leaves out the rows of conformance, to measure what judging costs.
	Unjudged bool
	// Settings are the settings of the lane's system, of the system's own type, by
	// value or by pointer; nil = the defaults.
	Settings any
	// Published, if not nil, has the emissions of the run.
	Published Published
	// Sole, if not nil, returns the emission that an update without a payload stands
	// for, which reached a subscription at that instant; false if that is ambiguous.
	// It is called before the update is reported.
	Sole func(sub eventmeter.Sub, at eventmeter.Instant) (eventmeter.Emission, bool)
	// Owed returns the sources whose events subscription i is owed; nil, as a function
	// or as a result, means all.
	Owed func(i int) []uint16
}

// Published has the emissions of a run. A [ledger.Ledger] implements it. Its methods are
// called on hot paths, by many goroutines at once.
type Published interface {
	// AckedAt returns when the target acknowledged an emission to the upstream; 0 = it
	// has not.
	AckedAt(eventmeter.Stamp) eventmeter.Instant
	// Emission returns an emission and its outcome so far; false if this run did not
	// publish it.
	Emission(eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool)
	// Run returns the run number of every emission.
	Run() uint32
	// Sources returns the number of sources.
	Sources() int
}

// SettingsOr returns the settings of a lane, or the defaults of its mode if it has
// none. The error names a value that the settings do not allow.
func SettingsOr[S any, P interface {
	*S
	settings.Settings
}](o *Options, defaults func(mode string) P) (set S, err error) {
	switch s := o.Settings.(type) {
	case nil:
		return *defaults(string(o.Mode)), nil
	case S:
		set = s
	case *S:
		set = *s
	default:
		return set, fmt.Errorf("settings are of type %T", o.Settings)
	}
	return set, settings.Invalid(P(&set))
}

// NumberOf returns the number of subscription i in the whole run.
func (o *Options) NumberOf(i int) int {
	if o.Number == nil {
		return i
	}
	return o.Number(i)
}

// ListenerOptions are the options of a webhook lane's listener that the program sets, in
// addition to the settings of the profile.
type ListenerOptions struct {
	// Prefix begins the path of every callback, such as "/shard-3", so that listeners
	// of several processes can have one address; "" = none.
	Prefix string
	// Shared is a listener that the lane shares with others, instead of its own.
	// Prefix must then be unique to the lane and have two elements, such as "/mcp/7".
	Shared *sinks.SharedListener
	// Authority signs the listener's certificate; nil = one made for the lane.
	Authority *sinks.Authority
	// Certificate is used instead of one that Authority signs; nil = none.
	Certificate *tls.Certificate
	// Wrap, if not nil, is called with the listener, below TLS, and returns the
	// listener to use, for example to count its traffic.
	Wrap func(net.Listener) net.Listener
	// MaxConnections bounds the open connections of the target. Twice as many
	// deliveries may be in progress. 0 = [sinks.DefaultMaxConnections].
	MaxConnections int
}

// The settings that lanes of several systems have.
type (
	Poll    = settings.PollLane
	Push    = settings.PushLane
	Backoff = settings.Backoff
	Webhook = settings.WebhookLane
	Answer  = settings.WebhookAnswer
)

// WithDefaults returns the options with every field filled in whose zero value stands
// for a default, except for Settings.
func (o Options) WithDefaults() Options {
	o.System = cmp.Or(o.System, "events")
	o.HTTP = cmp.Or(o.HTTP, settings.HTTP)
	o.Timeout = cmp.Or(o.Timeout, settings.Timeout)
	if o.Poll == nil {
		poll := settings.DefaultPoll()
		o.Poll = &poll
	}
	settings.Fill(&o.Push, settings.DefaultPush())
	settings.Fill(&o.Webhook, settings.DefaultWebhook())
	o.Webhook.BodyLimit = cmp.Or(o.Webhook.BodyLimit, int(sinks.DefaultBodyLimit))
	return o
}
