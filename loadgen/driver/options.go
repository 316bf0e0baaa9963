package driver

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/defaults"
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
	// System is the system spoken: "events" (also the meaning of "").
	System string
	Mode   eventmeter.Mode
	// Event is the name of the event type to subscribe to.
	Event string
	// Arguments gives the arguments of subscription i, a JSON object. nil, or
	// an empty answer, means {}. It must give the same answer each time.
	Arguments func(i int) json.RawMessage
	// MaxAge asks for a replay of events up to that old when a subscription is
	// attached; 0 = not asked for.
	MaxAge time.Duration
	// HTTP is "1.1" (also ""), "2" (over TLS) or "h2c".
	HTTP string
	// Subscriptions is how many the lane has: indexes are 0 to Subscriptions-1.
	Subscriptions int
	// Number gives the number in the whole run of subscription i, where the lane
	// is only a part of it (nil: i). It decides which principal a subscription
	// is, and what is drawn for it.
	Number func(i int) int
	// Seed makes jitter, backoff and refusals repeatable. Paths and secrets of
	// webhooks are always random.
	Seed uint64
	// Timeout bounds one call that is answered at once (long polls have their
	// own time on top); 0 = 30 s.
	Timeout time.Duration

	Poll    PollOptions
	Push    PushOptions
	Webhook WebhookOptions
	// Settings are what only the lane's system knows, in a type of its own, by
	// value or by pointer; nil = its defaults.
	Settings any
	// Published, if not nil, knows what was published.
	Published Published
	// Sole, if not nil, tells which emission an update without a payload stands
	// for, which came to a subscription at that instant; false where it cannot
	// be told. It is asked before the update is reported.
	Sole func(sub eventmeter.Sub, at eventmeter.Instant) (eventmeter.Emission, bool)
	// Hears gives the sources whose events subscription i is owed; nil, and a nil
	// answer, mean all.
	Hears func(i int) []uint16
}

// Published is what is known of the events that were published. A
// [ledger.Ledger] is one. It is asked on hot paths, by many goroutines at once.
type Published interface {
	// AckedAt tells when an emission was acknowledged to the upstream, 0 = not,
	// or not yet.
	AckedAt(eventmeter.Stamp) eventmeter.Instant
	// Emission returns one emission and its outcome so far; false for one that
	// was not fired by this run.
	Emission(eventmeter.Stamp) (eventmeter.Emission, eventmeter.Outcome, bool)
	// Run is the run number of every emission, Sources the number of sources.
	Run() uint32
	Sources() int
}

// SettingsOf returns the settings of a lane whose system has settings of type S.
func SettingsOf[S any](o *Options) (set S, err error) {
	switch s := o.Settings.(type) {
	case nil:
	case S:
		set = s
	case *S:
		set = *s
	default:
		err = fmt.Errorf("driver %s: settings are of type %T", o.System, o.Settings)
	}
	return set, err
}

// SettingsOr returns the settings of a lane, or the defaults of its mode if it has
// none.
func SettingsOr[S any](o *Options, defaults func(mode string) *S) (S, error) {
	if o.Settings == nil {
		return *defaults(string(o.Mode)), nil
	}
	return SettingsOf[S](o)
}

// NumberOf is what subscription i is called in the whole run.
func (o *Options) NumberOf(i int) int {
	if o.Number == nil {
		return i
	}
	return o.Number(i)
}

// PollOptions paces pollers.
type PollOptions struct {
	// MinInterval is the least wait between an answer without hasMore and the next
	// poll, whatever the server says; 0 = 1 s, the draft's default. A negative
	// MinInterval is no wait at all.
	MinInterval time.Duration
	// Timeout is the long-poll time asked for; 0 = the server answers at once.
	Timeout time.Duration
	// MaxEvents per poll; 0 = the server's own.
	MaxEvents int
	// BackoffMin and BackoffMax bound the wait after a failed poll, which
	// doubles and is fully jittered; 0 = 500 ms and 30 s.
	BackoffMin, BackoffMax time.Duration
}

// PushOptions watches streams.
type PushOptions struct {
	// Heartbeat is the interval that the server promises; a stream that is
	// silent for more than twice as long is dead; 0 = 30 s, the draft's bound.
	Heartbeat time.Duration
	// BackoffMin and BackoffMax bound the wait before a reconnect, which
	// doubles and is fully jittered; 0 = 500 ms and 30 s.
	BackoffMin, BackoffMax time.Duration
	// KernelTimestamps takes the time of deliveries from the kernel where that
	// is possible: Linux, HTTP/1.1, plain text.
	KernelTimestamps bool
}

// WebhookOptions says how callbacks are subscribed and answered.
type WebhookOptions struct {
	// TTL is the lifetime asked for; 0 = the server's default. Not sent in the
	// older revision, which has no such wish.
	TTL time.Duration
	// NoExpiry asks for a subscription without an end (ttlMs: null).
	NoExpiry bool
	// RefreshAt is the share of the grant after which a refresh is sent, with
	// a jitter of up to 5 % of the grant before it; 0 = 0.75.
	RefreshAt float64
	// RotateEvery is how many refreshes pass between two new secrets; 0 = never.
	RotateEvery int
	// Grace is how long a replaced secret is still accepted, from the answer
	// on; 0 = 5 min.
	Grace time.Duration
	// Secrets says which one is accepted while it changes; "" = [SecretsBoth].
	Secrets Secrets
	// Verify says what becomes of a delivery whose signature does not verify;
	// "" = [VerifyStrict].
	Verify Verify
	// Answer is how shares of the deliveries and challenges are answered; the rest is
	// answered 200, at once.
	Answer []Answer
	// ShareURL gives all subscriptions of the lane one callback; what comes is routed
	// by X-MCP-Subscription-Id. Two subscriptions of one principal must not have the
	// same arguments then: a target takes them for one.
	ShareURL bool
	// Require is what a delivery must have, or it is answered 400: eventId (its
	// webhook-id is the event's id), zone (its timestamp has one), name (it is of the
	// lane's event type).
	Require []string
	// RefusePending answers 503 while the answer to a subscribe is awaited;
	// RefuseExpired answers 410 after the end of the grant.
	RefusePending, RefuseExpired bool
	// Silent is the share of subscriptions that end without unsubscribing.
	Silent float64
	// UnsubscribeMode sends delivery.mode with the unsubscribe.
	UnsubscribeMode bool
	// Listen is the listener's address; "" = a free port of 127.0.0.1.
	Listen string
	// Callback is the address, without a path, under which the target reaches
	// the listener; "" = the listener's own. It is https, or http on loopback;
	// port 0 stands for the listener's own port.
	Callback string
	// Prefix is put before the path of every callback, "/shard-3", so that
	// listeners of several processes can stand behind one address; "" = none.
	Prefix string
	// Shared is a listener that the lane shares with others, instead of one of
	// its own; Prefix must then be its alone and have two elements, "/mcp/7".
	Shared *sinks.SharedListener
	// Authority signs the listener's certificate; nil = one made for the lane.
	Authority *sinks.Authority
	// Certificate is the listener's own, instead of one that Authority signs;
	// nil = none.
	Certificate *tls.Certificate
	// Wrap, if not nil, is given the listener, below TLS, and returns the one to
	// use: that of a program which counts what passes.
	Wrap func(net.Listener) net.Listener
	// MaxConnections bounds the connections of the target that are open at once,
	// and twice as many deliveries; 0 = [sinks.DefaultMaxConnections].
	MaxConnections int
	// BodyLimit is the largest delivery accepted, in bytes; larger ones are
	// answered 413. 0 = 256 KiB, the draft's bound, and 16 KiB margin.
	BodyLimit int64
}

// WithDefaults returns the options with every field filled in whose zero value
// stands for a default, but for Settings.
func (o Options) WithDefaults() Options {
	o.System = cmp.Or(o.System, "events")
	o.HTTP = cmp.Or(o.HTTP, defaults.HTTP)
	o.Timeout = cmp.Or(o.Timeout, defaults.Timeout)
	o.Poll.MinInterval = cmp.Or(o.Poll.MinInterval, defaults.PollMinInterval)
	o.Poll.BackoffMin = cmp.Or(o.Poll.BackoffMin, defaults.BackoffMin)
	o.Poll.BackoffMax = cmp.Or(o.Poll.BackoffMax, defaults.BackoffMax)
	o.Push.Heartbeat = cmp.Or(o.Push.Heartbeat, defaults.Heartbeat)
	o.Push.BackoffMin = cmp.Or(o.Push.BackoffMin, defaults.BackoffMin)
	o.Push.BackoffMax = cmp.Or(o.Push.BackoffMax, defaults.BackoffMax)
	o.Webhook.RefreshAt = cmp.Or(o.Webhook.RefreshAt, defaults.RefreshAt)
	o.Webhook.Grace = cmp.Or(o.Webhook.Grace, defaults.OldSecret)
	o.Webhook.Secrets = cmp.Or(o.Webhook.Secrets, defaults.Secrets)
	o.Webhook.Verify = cmp.Or(o.Webhook.Verify, defaults.Verify)
	o.Webhook.BodyLimit = cmp.Or(o.Webhook.BodyLimit, sinks.DefaultBodyLimit)
	return o
}

// Secrets says which secret a receiver accepts while it changes.
type Secrets string

// What receivers do when they change their secret.
const (
	// SecretsBoth accepts both, the old one for the grace.
	SecretsBoth Secrets = "both"
	// SecretsEarly accepts only the new one, from the moment that it is sent.
	SecretsEarly Secrets = "early"
	// SecretsLate accepts only the old one until the answer to the refresh has
	// come, and only the new one from then on.
	SecretsLate Secrets = "late"
)

// Verify says what becomes of a delivery whose signature does not verify.
type Verify string

// What receivers do with such deliveries.
const (
	// VerifyStrict refuses them, as the draft wants.
	VerifyStrict Verify = "strict"
	// VerifyReport takes them and notes what is wrong.
	VerifyReport Verify = "report"
)
