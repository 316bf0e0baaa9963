package driver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks"
)

// Driver is the client side of one system for one lane. It is safe for
// concurrent use.
type Driver interface {
	// Attach opens subscription i and returns when the target confirmed it, or
	// with the reason why it did not. It reports Attaching, and then Active or
	// Failed. Answers 429 and 503, and errors that say that the target has no
	// room (ResourceExhausted), are tried again until ctx is over. A
	// subscription that was detached or has failed may be attached again; one
	// that is open may not.
	Attach(ctx context.Context, i int) error
	// Detach ends subscription i and reports Detaching and Detached; nothing
	// is delivered for it afterwards. A subscription that is not open is left
	// alone. The returned error says that the target did not confirm the end;
	// the subscription is over on this side all the same.
	Detach(ctx context.Context, i int) error
	// Close ends everything that is still open and waits for every goroutine.
	// The Driver cannot be used afterwards.
	Close(ctx context.Context) error
}

// Discoverer is a Driver that can ask the target what it offers.
type Discoverer interface {
	Discover(ctx context.Context) (Offer, error)
}

// Meter is a Driver that knows what passed its sockets.
type Meter interface {
	// Traffic returns the totals of the lane so far.
	Traffic() Traffic
}

// Traffic is bytes and connections, as the sockets saw them: TLS records and
// HTTP framing included, TCP and IP headers not.
type Traffic struct {
	// Up and Down are bytes written and read on connections that the lane
	// opened to the target.
	Up, Down int64
	// Opened is the number of connections that the lane opened.
	Opened int64
	// Accepted is the number of connections that the target opened to the
	// lane's webhook listener.
	Accepted int64
}

// Receiver is a Driver with a webhook listener.
type Receiver interface {
	// CertPEM is the certificate authority that the target has to trust.
	CertPEM() []byte
	// CallbackURL is the address, without a path, that the target is given.
	CallbackURL() string
}

// Options describes a lane. Clock, Recorder, Endpoint, Mode, Event and
// Subscriptions must be set; everything else has a working zero value.
type Options struct {
	Clock    *eventmeter.Clock
	Recorder eventmeter.Recorder
	Endpoint *Endpoint
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
	// Smithery is of system smithery only, Events of system events.
	Smithery SmitheryOptions
	Events   EventsOptions
	// SEP1803 is of system sep-1803 only.
	SEP1803 SEP1803Options
	// SEP2549 is of system sep-2549 only.
	SEP2549 SEP2549Options
	// Acked, if not nil, tells when an emission was acknowledged to the
	// upstream, 0 = not, or not yet. It is asked on the hot path of streams that
	// were opened again, to tell replayed events from live ones.
	Acked func(eventmeter.Stamp) eventmeter.Instant
	// Sole, if not nil, tells which emission an update without a payload stands
	// for, which came to a subscription at that instant; false where it cannot
	// be told. It is asked before the update is reported.
	Sole func(sub eventmeter.Sub, at eventmeter.Instant) (eventmeter.Emission, bool)
	// SEP975 is of system sep-975 only.
	SEP975 SEP975Options
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
	// Refuse is the share of events, 0 to 1, whose first copy is answered 503.
	// Which ones depends on Seed, the subscription and the event id.
	Refuse float64
	// AckDelay is how long an accepted delivery waits for its answer.
	AckDelay time.Duration
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

// Offer is what a target says about itself.
type Offer struct {
	// Era is Modern, Legacy or Bare.
	Era Era
	// Version is the negotiated protocol version, "" in the Bare era.
	Version string
	// Versions are all that the server named, where it named any.
	Versions      []string
	Server        string // name of the server software, may be empty
	ServerVersion string
	// Fallback is what the handshakes of later eras were answered with before
	// this one was found, such as "server/discover: http 400"; "" = nothing was
	// refused.
	Fallback string
	// Capability is where the events capability was found: "events",
	// "extensions", "experimental", or "" when none was advertised.
	Capability  string
	ListChanged bool
	// Capabilities as the server sent them; nil when it sent none.
	Capabilities json.RawMessage
	Events       []EventType
}

// EventType is one entry of events/list.
type EventType struct {
	Name        string
	Description string
	// Delivery are the modes offered; empty when the server named none
	// (delivery left out, or null), which says nothing about what works.
	Delivery      []eventmeter.Mode
	InputSchema   json.RawMessage
	PayloadSchema json.RawMessage
}

// Event returns the event type with that name.
func (o Offer) Event(name string) (EventType, bool) {
	for _, e := range o.Events {
		if e.Name == name {
			return e, true
		}
	}
	return EventType{}, false
}

// New returns the driver of opts.System for one lane. It opens the listener
// of a webhook lane, and no connection to the target.
func New(opts Options) (Driver, error) {
	switch opts.System {
	case "", "events", "smithery":
		return newEvents(opts)
	case "sep-1803":
		return newSEP1803(opts)
	case "sep-975":
		return newSEP975(opts)
	case "sep-2549":
		return newListLane(opts)
	}
	return nil, fmt.Errorf("driver: system %q is not known: use events", opts.System)
}
