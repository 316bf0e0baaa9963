package eventmeter

import "time"

// Mode is how a target hands events to a client.
type Mode string

// The delivery modes.
const (
	Poll    Mode = "poll"
	Push    Mode = "push"
	Webhook Mode = "webhook"
)

// Sub names one subscription of a run: the lane and the index within it, both
// from 0. A subscription keeps its name across reconnects and refreshes.
type Sub struct {
	Lane  uint16
	Index uint32
}

// Delivery is one copy of one event that reached a sink.
type Delivery struct {
	Sub Sub
	// Stamp is the probe id found in the message; Probed is false when there
	// was none, and then Stamp is zero.
	Stamp  Stamp
	Probed bool
	// Update is true when the message only says that something changed, and
	// carries no payload that could hold a probe id. It may stand for anything
	// that was fired before it came.
	Update bool
	// EventID is a 64-bit hash of the target's own event id (see [HashID]),
	// 0 when it gave none.
	EventID uint64
	// At is when the last byte of the message was read, or, where Kernel is
	// true, when the kernel had received it.
	At Instant
	// Waited is how long the message lay in the socket until it was read; only
	// known where Kernel is true.
	Waited time.Duration
	// Bytes is the size of the message as read, framing of the event included.
	Bytes int
	// Refused is true when the sink answered this copy, on purpose, in a way
	// that asks for another (a webhook answered 503): the client has learned of
	// the event, and the next copy is a duplicate that it asked for.
	Refused bool
	// Kernel is true when At is the kernel's receive time.
	Kernel bool
	// Shared is true when more was read together with the message, so that it
	// may have come earlier than At.
	Shared bool
}

// HashID hashes a target's event id (FNV-1a, 64 bit). It never returns 0 for
// an id that is not empty, and does not allocate.
func HashID(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	h := uint64(14695981039346656037)
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	if h == 0 {
		h = 1
	}
	return h
}

// NoticeKind is what a target told a subscription outside of events.
type NoticeKind uint8

const (
	// Truncated announces a gap: events were skipped (poll and active with
	// truncated, webhook gap).
	Truncated NoticeKind = iota + 1
	// Reconnected: the sink lost its stream and has it again.
	Reconnected
	// Terminated: the target ended the subscription.
	Terminated
	// TransientError: an error notification, or a call that failed and will
	// be tried again.
	TransientError
	// DeadStream: nothing was heard for twice the heartbeat interval.
	DeadStream
	// Rejected: a webhook delivery was refused because its signature was
	// wrong, missing or stale. It is not a Delivery.
	Rejected
	// Malformed: a message that could not be read, or that breaks the protocol.
	Malformed
	// Claimed: a cursor that came by itself (with a heartbeat, a confirmation or
	// an empty poll) is the one that stands for Notice.Stamp: the target says
	// that all up to there was delivered. A ledger finds out whether it was.
	Claimed
	// Undeliverable: a connection of the target to the lane's own listener
	// failed before it carried a request. No subscription is known, so only
	// the lane of Sub counts.
	Undeliverable
	// Suspended: the target said that from some moment after Since until At it
	// delivered nothing to the subscription, because it had suspended delivery
	// or no longer had the subscription.
	Suspended
	// Oversized: a stream, an answer or a body was given up because it was
	// larger than its bound, or because the memory budget had no room for it.
	Oversized
	// NoticeKinds is the length of arrays that are indexed by a kind.
	NoticeKinds = int(iota) + 1
)

// String returns the notice in lower case.
func (k NoticeKind) String() string {
	names := [...]string{"", "truncated", "reconnected", "terminated", "transient error", "dead stream", "rejected", "malformed", "claimed", "undeliverable", "suspended", "oversized"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Notice is something a sink learned about a subscription that is not an event.
type Notice struct {
	Sub    Sub
	Kind   NoticeKind
	At     Instant
	Detail string // one short line, for people; may be empty
	// Stamp is the emission that was claimed, of Claimed; else the probe id of a
	// copy that the sink refused and that is no Delivery, and Refused says that
	// there is one: only of Rejected and Malformed.
	Stamp   Stamp
	Refused bool
	// Since is the last moment at which the target is known to have delivered;
	// only of Suspended.
	Since Instant
}

// State is where a subscription stands.
type State uint8

const (
	// Attaching: the request to subscribe is about to be sent.
	Attaching State = iota + 1
	// Active: the target confirmed it. From here on emissions are owed.
	Active
	// Detaching: the request to end it is about to be sent. What is in flight
	// now is no longer owed.
	Detaching
	// Detached: it is over and confirmed.
	Detached
	// Failed: it could not be opened, or ended for good against our will.
	Failed
)

// Transition is a change of a subscription's state.
type Transition struct {
	Sub    Sub
	To     State
	At     Instant
	Reason string // for Failed: one short line
	// Seen is, of the state that ends a subscription, until when it could have
	// received what was fired: of a poller, when the last poll was sent that
	// reached the end of what there was. 0 means At.
	Seen Instant
}

// Cause is what a call, or a message without an event, was for.
type Cause uint8

// The causes. Only Events carries events; everything else is overhead.
const (
	Events Cause = iota
	Subscribe
	EmptyPoll
	Heartbeat
	Refresh
	Verification
	Retry
	Reconnect
	Unsubscribe
	Discovery
	// Control: an envelope of a webhook that is no event and no challenge, as
	// gap and terminated are.
	Control
	numCauses
)

// Causes is how many causes there are.
const Causes = int(numCauses)

// String returns the cause as it is spelled in results.
func (c Cause) String() string {
	names := [...]string{"events", "subscribe", "emptyPoll", "heartbeat", "refresh", "verification", "retry", "reconnect", "unsubscribe", "discovery", "control"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// Call is one exchange with the target, or one message without an event that
// came on an open stream (then Requests is 0).
type Call struct {
	Lane  uint16
	Cause Cause
	At    Instant
	// Requests is 1 for a request, in either direction.
	Requests int
	// Up and Down are bytes sent and received, message bodies and framing as
	// far as the transport lets them be seen (see the docs of the figure).
	Up, Down int64
	// Connections is the number of TCP connections that were opened for it.
	Connections int
	Took        time.Duration
	// Method is the JSON-RPC method, or the webhook envelope's type.
	Method string
	// Failure is empty on success, else a short stable word: "rpc -32013",
	// "http 429", "timeout", "connection refused".
	Failure string
	// Answered is the HTTP status of the answer to a request that the target
	// made, where this side answered it with an error; 0 = it did not. That is
	// no failure of the target's.
	Answered int
}
