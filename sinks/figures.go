package sinks

import "github.com/eventmeter/eventmeter"

// The counts of a lane are declared here and in [SubCounts]: the field of a
// struct is the figure, its JSON key where results have it is the tag, and what
// two parts of a run are together is [figure.Add]'s rule. Accounts, displays and
// results embed the structs, so that a count which is added here is in all of
// them. [LaneMetrics] says what shows it to Prometheus.

// LaneCounts are the counts of a lane, in accounts and in displays of a run.
type LaneCounts struct {
	// SubCounts are the lane's figures. What is counted when it happens is
	// counted twice: here, and for the subscription alone.
	SubCounts
	Notices
	// EventMessages and EventBytes are all copies of all events that came,
	// whatever became of them, warm-up included.
	EventMessages, EventBytes int64
	// Received counts events, once for each subscription that they came to,
	// warm-up included: of copies that are known to be second ones, and of
	// unexpected ones, it has none. Events without a probe id, and those that a
	// sibling fired, count every time.
	Received int64
	// Broken counts subscriptions that failed after they had been active.
	Broken int64
}

// Notices counts what a lane was told outside of events, by kind.
type Notices struct {
	Rejected        int64 `json:"rejected"`        // webhook deliveries whose signature was wrong, missing or stale
	Malformed       int64 `json:"malformed"`       // messages that could not be read, or break the protocol in a way that clients feel
	Reconnects      int64 `json:"reconnects"`      // streams that were cut and opened again
	DeadStreams     int64 `json:"deadStreams"`     // streams that fell silent for twice the heartbeat interval
	Terminated      int64 `json:"terminated"`      // subscriptions that the target ended
	TransientErrors int64 `json:"transientErrors"` // error notifications, and calls that failed and were tried again
	// Undeliverable counts connections of the target to the lane's own listener
	// that failed before they carried a request.
	Undeliverable int64 `json:"undeliverable,omitempty"`
	// Suspended is how often the target said that it had suspended delivery or
	// lost a subscription.
	Suspended int64 `json:"suspended,omitempty"`
	// Oversized streams, answers and webhook bodies were given up because they
	// were larger than their bound, or because the memory budget (limits.memory)
	// could not hold them.
	Oversized int64 `json:"oversized"`
}

// notices says where each kind of notice is counted, and where its details are
// kept. A kind without a place is no count of its own.
var notices = [eventmeter.NoticeKinds]struct {
	count func(*Notices) *int64
	by    func(*LaneAccount) *Reasons
}{
	eventmeter.Reconnected:    {count: func(n *Notices) *int64 { return &n.Reconnects }},
	eventmeter.Terminated:     {count: func(n *Notices) *int64 { return &n.Terminated }},
	eventmeter.TransientError: {count: func(n *Notices) *int64 { return &n.TransientErrors }},
	eventmeter.DeadStream:     {count: func(n *Notices) *int64 { return &n.DeadStreams }},
	eventmeter.Rejected:       {func(n *Notices) *int64 { return &n.Rejected }, func(n *LaneAccount) *Reasons { return &n.RejectedBy }},
	eventmeter.Malformed:      {func(n *Notices) *int64 { return &n.Malformed }, func(n *LaneAccount) *Reasons { return &n.MalformedBy }},
	eventmeter.Undeliverable:  {func(n *Notices) *int64 { return &n.Undeliverable }, func(n *LaneAccount) *Reasons { return &n.UndeliverableBy }},
	eventmeter.Suspended:      {func(n *Notices) *int64 { return &n.Suspended }, func(n *LaneAccount) *Reasons { return &n.SuspendedBy }},
	eventmeter.Oversized:      {func(n *Notices) *int64 { return &n.Oversized }, func(n *LaneAccount) *Reasons { return &n.OversizedBy }},
}

// notices returns what the lane has counted of them.
func (n *lane) notices() (out Notices) {
	for kind, of := range notices {
		if of.count != nil {
			*of.count(&out) = n.noticed[kind].Load()
		}
	}
	return out
}
