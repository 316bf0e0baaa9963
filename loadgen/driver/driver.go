package driver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/loadgen/mcpclient"
)

// Driver is the client side of one system for one lane. It is safe for
// concurrent use.
type Driver interface {
	// Attach opens subscription i. It returns when the target has confirmed the
	// subscription, or why it did not. It reports Attaching, and then Active or
	// Failed. After 429, 503 and ResourceExhausted (the target has no room) it tries
	// again until ctx ends. A subscription that was detached or has failed may be
	// attached again; one that is open must not.
	Attach(ctx context.Context, i int) error
	// Detach ends subscription i and reports Detaching and Detached; nothing
	// is delivered for it afterwards. It does nothing if the subscription is not
	// open. The error says that the target did not confirm the end; the subscription
	// is over on this side all the same.
	Detach(ctx context.Context, i int) error
	// Close ends everything that is still open and waits for every goroutine.
	// The Driver cannot be used afterwards.
	Close(ctx context.Context) error
}

// Discoverer is a Driver that can ask the target what it offers.
type Discoverer interface {
	Discover(ctx context.Context) (Offer, error)
}

// Examiner is a Driver that can find out which revision of its system a target speaks,
// and how the target deviates from it. It may send requests that name unknown event
// types, and does not subscribe.
type Examiner interface {
	Examine(ctx context.Context, o *Offer) error
}

// Meter is a Driver that counts the traffic of its sockets.
type Meter interface {
	// Traffic returns the totals of the lane so far.
	Traffic() mcpclient.Traffic
}

// Looker is a Driver that can read what its subscriptions are about.
type Looker interface {
	// Look reads once more, past all copies, what the first open subscription is about. It
	// counts the events of this run that it shows and the client does not know (shownAtEnd).
	Look()
}

// Receiver is a Driver with a webhook listener.
type Receiver interface {
	// CertPEM returns the certificate authority that the target has to trust.
	CertPEM() []byte
	// CallbackURL returns the callback address for the target, without a path.
	CallbackURL() string
}

// Offer is what a target says about itself and its events.
type Offer struct {
	mcpclient.ServerInfo
	// Capability is where the events capability was found: "events",
	// "extensions", "experimental", or "" when none was advertised.
	Capability  string
	ListChanged bool
	// Revision is the revision of MCP Events that the target speaks, as far as its
	// answers show; "" if they do not, or were not examined. Deviations are the
	// differences from that revision.
	Revision   string   `json:",omitempty"`
	Deviations []string `json:",omitempty"`
	// Capabilities as the server sent them; nil if it sent none.
	Capabilities json.RawMessage
	Events       []EventType
	// Conform is what the answers showed of the rows of conformance.
	Conform conform.Account `json:"-"`
}

// EventType is one entry of events/list.
type EventType struct {
	Name        string
	Description string
	// Delivery are the modes that the server lists; empty if it lists none (delivery
	// left out, or null), which does not mean that none works.
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

// Starter is a part of a profile for a target that supports a system without event types.
type Starter struct {
	Lane string // a lane in YAML; "" = the target does not support the system
	// Resource is the URI of what source n changes, a template over .Source, and Sources the number
	// of such sources. Sources is 0 if nothing is known that can be changed.
	Resource string
	Sources  int
}

// Beginner is a Driver that has to know when the measured part of the run begins.
type Beginner interface {
	// Begin is called once, after the lane was attached, with the times at which the
	// measured part begins and publishing stops.
	Begin(measure, until eventmeter.Instant)
}

// Phased is a Driver that makes work of its own, which the upstream does not cause, and
// has to know the phases of the run. Begin and Drain are called once each, in this order,
// after the lane was attached.
type Phased interface {
	// Work that is over before the measured part is in no figure.
	Beginner
	// Drain stops new work. Work in progress goes on.
	Drain()
	// Pending returns how much work is in progress. It may be called at any time.
	Pending() int64
}

// Patience is how long the end of a run waits for polls and for streams that come back,
// in addition to the drain timeout.
const Patience = time.Minute

// Asker is a Driver whose subscriptions have to ask for events, so that those published
// after they last asked cannot have reached them: they poll, or their streams were lost
// and wait before they are opened again.
type Asker interface {
	// Behind returns how many subscriptions or streams are open, and how many of them
	// may not have received all events up to since. A poller has received them if a poll
	// that was sent at since or later was answered without hasMore; a long poll that the
	// target holds counts as sent now. A stream is behind while it is lost, unless it
	// has asked since and was refused without a wait, or waits for an answer for as long as a
	// call may take. Behind may be called at any time.
	Behind(since eventmeter.Instant) (behind, open int)
}
