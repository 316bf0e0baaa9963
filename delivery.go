package eventmeter

import "time"

// Mode is how a target delivers events to a client.
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
	// Update is true when the message only says that something changed and has
	// no payload for a probe id. It may stand for any event published before it
	// arrived.
	Update bool
	// EventID is a 64-bit hash of the target's event id (see [HashID]), 0 if there
	// is none.
	EventID uint64
	// At is when the last byte of the message was read, or, where Kernel is
	// true, when the kernel had received it.
	At Instant
	// Waited is how long the message was in the socket before it was read. It is
	// known only if Kernel is true.
	Waited time.Duration
	// Bytes is the size of the message as read, framing of the event included.
	Bytes int
	// Refused is true when the sink deliberately requested another copy (a
	// webhook answered 503): the client has received the event, and the next
	// copy is a requested duplicate.
	Refused bool
	// Kernel is true when At is the kernel's receive time.
	Kernel bool
	// Shared is true when one read returned the message together with other
	// bytes, so that it may have arrived before At.
	Shared bool
	// Stray is true when the event was published after the subscription had ended with an
	// answer of the target. It is unexpected, and no cost of deliveries.
	Stray bool
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

// NoticeKind is the kind of a [Notice].
type NoticeKind uint8

const (
	// Truncated announces a gap: events were skipped (poll and active with
	// truncated, webhook gap).
	Truncated NoticeKind = iota + 1
	// Reconnected: the sink lost its stream and opened it again.
	Reconnected
	// Terminated: the target ended the subscription.
	Terminated
	// TransientError: an error notification, or a call that failed and will
	// be tried again.
	TransientError
	// DeadStream: nothing was received for twice the heartbeat interval.
	DeadStream
	// Rejected: a webhook delivery was refused because its signature was
	// wrong, missing or stale. It is not a Delivery.
	Rejected
	// Malformed: a message that could not be read, or that breaks the protocol.
	Malformed
	// Claimed: a cursor without an event (of a heartbeat, a confirmation or an
	// empty poll) is the cursor of Notice.Stamp: the target claims that it
	// delivered everything up to there. The ledger checks the claim.
	Claimed
	// Undeliverable: a connection of the target to the lane's own listener
	// failed before it carried a request. No subscription is known, so only
	// the lane of Sub counts.
	Undeliverable
	// Suspended: the target announced that from some time after Since until At
	// it delivered nothing to the subscription, because it had suspended
	// delivery or lost the subscription.
	Suspended
	// Oversized: a stream, a response or a body was abandoned because it exceeded
	// its limit or the memory budget.
	Oversized
	// Resumed: the subscription was opened again at the cursor that it had, and the
	// target did not say that anything was skipped. What was published after Since,
	// while there was no subscription, has to come.
	Resumed
	// NoticeKinds is the length of arrays that are indexed by a kind.
	NoticeKinds = int(iota) + 1
)

// String returns the notice in lower case.
func (k NoticeKind) String() string {
	names := [...]string{
		"",
		"truncated",
		"reconnected",
		"terminated",
		"transient error",
		"dead stream",
		"rejected",
		"malformed",
		"claimed",
		"undeliverable",
		"suspended",
		"oversized",
		"resumed",
	}
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
	// Stamp is the claimed emission of Claimed. For Rejected and Malformed it is
	// the probe id of a copy that the sink refused, which is not a Delivery;
	// Refused is true if there is one.
	Stamp   Stamp
	Refused bool
	// Since is when the target said that it stopped, for Suspended; for Resumed, the
	// time before which no events are asked for. Where Later is true the target stopped
	// later than Since, after the newest event that was fired by At and came.
	Since Instant
	Later bool
	// Own is true, for Undeliverable only, if this side had no room: it closed a
	// connection, or turned a delivery away before it was read.
	Own bool
	// Before is true, for Truncated only, if the subscription began at a cursor and
	// the gap may be before its beginning. Such an announcement is not false where
	// nothing that was owed is missing.
	Before bool
}

// State is the state of a subscription.
type State uint8

const (
	// Attaching: the request to subscribe is about to be sent.
	Attaching State = iota + 1
	// Active: the target confirmed it. Events are expected from now on.
	Active
	// Detaching: the request to end it is about to be sent. Events in flight are
	// no longer expected.
	Detaching
	// Detached: its end is confirmed.
	Detached
	// Failed: it could not be opened, or the target ended it for good.
	Failed
)

// Transition is a change of a subscription's state.
type Transition struct {
	Sub    Sub
	To     State
	At     Instant
	Reason string // for Failed: one short line
	// Seen is, for the state that ends a subscription, the time up to which it
	// could receive published events: for a poller, when it sent the last poll
	// that reached the end of the events. 0 means At.
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
	// Control: a webhook envelope that is neither an event nor a challenge, such
	// as gap and terminated.
	Control
	// Token: a request for an access token, what looks for the token endpoint,
	// and a request that was refused because its token had expired, and is sent
	// again with another.
	Token
	numCauses
)

// Causes is the number of causes.
const Causes = int(numCauses)

// String returns the cause as spelled in results.
func (c Cause) String() string {
	names := [...]string{
		"events",
		"subscribe",
		"emptyPoll",
		"heartbeat",
		"refresh",
		"verification",
		"retry",
		"reconnect",
		"unsubscribe",
		"discovery",
		"control",
		"token",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// Call is one exchange with the target, or one message without an event on an
// open stream (then Requests is 0).
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
	// Answered is the HTTP status of an error with which this side answered a
	// request of the target; 0 = none. It is not a failure of the target.
	Answered int
}
