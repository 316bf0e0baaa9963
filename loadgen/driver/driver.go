package driver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
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

// Examiner is a Driver that can find out which revision of its system a target
// speaks, and how it deviates. It may send requests that name nothing that exists,
// and subscribes to nothing.
type Examiner interface {
	Examine(ctx context.Context, o *Offer) error
}

// Meter is a Driver that knows what passed its sockets.
type Meter interface {
	// Traffic returns the totals of the lane so far.
	Traffic() mcpclient.Traffic
}

// Receiver is a Driver with a webhook listener.
type Receiver interface {
	// CertPEM is the certificate authority that the target has to trust.
	CertPEM() []byte
	// CallbackURL is the address, without a path, that the target is given.
	CallbackURL() string
}

// Offer is what a target says about itself and its events.
type Offer struct {
	mcpclient.ServerInfo
	// Capability is where the events capability was found: "events",
	// "extensions", "experimental", or "" when none was advertised.
	Capability  string
	ListChanged bool
	// Revision of MCP Events that the target speaks, as far as its answers tell; ""
	// where they do not, or were not examined. Deviations are what is not as that
	// revision has it.
	Revision   string   `json:",omitempty"`
	Deviations []string `json:",omitempty"`
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

// Phased is a Driver that makes work of its own, beside what the upstream
// fires, and has to know the phases of the run. Its methods are called once
// each, in this order, after the lane was attached.
type Phased interface {
	// Begin says when the measured part begins and when firing stops. Work
	// that is over before measure enters no figure.
	Begin(measure, until eventmeter.Instant)
	// Drain has nothing new begun. What is under way goes on.
	Drain()
	// Pending is how much is under way. It may be called at any time.
	Pending() int64
}

// PollPatience is how long the end of a run waits for polls beyond the time that
// it gives to stragglers.
const PollPatience = time.Minute

// Poller is a Driver whose subscriptions may have to ask for their events, so
// that what happened after they last asked cannot have reached them.
type Poller interface {
	// Behind returns how many subscriptions are open and ask, and how many of
	// them have not got to the end of what there was since an instant: no poll
	// that was sent then or later was answered without hasMore. A long poll that
	// the target holds counts as sent now. It may be called at any time.
	Behind(since eventmeter.Instant) (behind, open int)
}
