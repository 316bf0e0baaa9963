package ledger

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/eventmeter/eventmeter"
)

// Account holds the figures of a run. It is a copy that belongs to the caller;
// nothing in it changes later.
type Account struct {
	// Run is the run number that every probe id of this run carries.
	Run uint32 `merge:"-"`
	// At is when the account was drawn up. Subscriptions that are still
	// active are charged up to here.
	At eventmeter.Instant `merge:"max"`
	// Interval is the width of the intervals of every series. Interval k is
	// [k*Interval, (k+1)*Interval) on the run's clock.
	Interval time.Duration `merge:"-"`
	// Measured and WarmUp count the emissions of the two phases.
	Measured, WarmUp Scheduled
	// FireLatency is Acked-Fired of measured emissions that were accepted.
	FireLatency Timing
	// FireLag is Fired-Intended of every measured emission, however it ended.
	FireLag Timing
	// Lanes has one entry per lane, in the order of Options.Lanes.
	Lanes []LaneAccount `merge:"-"`
	// Misuse counts calls that broke the contract of eventmeter.Recorder.
	Misuse Misuse
}

// Scheduled counts what became of the emissions of one phase.
type Scheduled struct {
	// Fired = Accepted + Uncertain + Refused + Pending.
	Fired, Accepted, Uncertain, Refused int64
	// Pending emissions were fired and not resolved yet.
	Pending int64
	// Dropped emissions were due while no worker was free. They are not in Fired.
	Dropped int64
}

// Misuse counts calls that a recorder cannot make sense of. All are zero when
// the generator itself is sound; [Account.Check] fails when one is not.
type Misuse struct {
	// Fired: wrong run, no such source, or not the next sequence number.
	Fired int64
	// Resolved: no such emission, resolved before, or not an outcome.
	Resolved int64
	// Subscription: no such lane or no such index in it.
	Subscription int64
	// Transition: a state that cannot follow the state before.
	Transition int64
}

// Timing is a distribution of durations in nanoseconds, from 1 µs to 10
// minutes with three significant digits.
type Timing struct {
	// Histogram holds every sample; those out of range are in it at the bound.
	Histogram *hdrhistogram.Histogram
	// Below counts samples under 1 µs, which are recorded as 1 µs.
	Below int64
	// Above counts samples over 10 minutes, which are recorded as 10 minutes.
	Above int64
}

// Duplicates counts second and later copies of an emission at one
// subscription.
type Duplicates struct {
	// Requested: the sink had refused an earlier copy and so asked for it.
	Requested int64
	// SameEvent: under an event id that this subscription had seen for the
	// same emission, so a client can tell.
	SameEvent int64
	// SameEmission: under another event id, or without one, so a client
	// cannot tell.
	SameEmission int64
	// Forgotten: the subscription met so many emissions under ids of its own
	// that the ids of this one are no longer remembered.
	Forgotten int64
}

// Total is the number of duplicates of all kinds.
func (d Duplicates) Total() int64 {
	return d.Requested + d.SameEvent + d.SameEmission + d.Forgotten
}

// Unexpected counts copies that were not owed.
type Unexpected struct {
	// ForeignRun: the probe id belongs to another run.
	ForeignRun int64
	// NeverFired: the probe id names an emission that this run has not fired.
	NeverFired int64
	// NotSubscribed: from a source that the subscription is not owed, or
	// without there being a subscription.
	NotSubscribed int64
	// AfterEnd: fired after the subscription was over.
	AfterEnd int64
	// Stale: acknowledged to the upstream before the subscription was asked
	// for, on a lane that asked for no replay.
	Stale int64
}

// Total is the number of unexpected copies of all kinds.
func (u Unexpected) Total() int64 {
	return u.ForeignRun + u.NeverFired + u.NotSubscribed + u.AfterEnd + u.Stale
}

// SubCounts are the figures of one subscription, all its windows together.
// A window is the time from Active to the end of a subscription; one that is
// opened again has several.
type SubCounts struct {
	// Expected = Delivered + LostSilent + LostAnnounced + LostOrderUnknown +
	// LostUndeliverable + LostRefused + LostSuspended.
	Expected, Delivered       int64
	LostSilent, LostAnnounced int64
	// LostOrderUnknown: lost, and whether an announcement was about it cannot be
	// known, because its firing overlapped with that of an emission received
	// beside the announcement, or because the lane has no order.
	LostOrderUnknown int64
	// LostUndeliverable: published after everything that came to the
	// subscription, and a connection of the target to the lane's own listener
	// failed later, before it carried a request. Or published while this side had
	// no room for connections or deliveries, whatever came later. Of a lane it is
	// never more than LaneAccount.Undeliverable, of a subscription alone neither.
	LostUndeliverable int64
	// LostRefused: a copy came, and the sink refused every copy that came.
	LostRefused int64
	// LostSuspended: published while the target reported that delivery was
	// suspended or the subscription was gone.
	LostSuspended int64
	// AlsoSuspended are those of LostUndeliverable that would be LostSuspended
	// otherwise; 0 once LostUndeliverable is bounded.
	AlsoSuspended    int64
	Duplicates       Duplicates
	OutOfOrder, Late int64
	Unexpected       Unexpected
	Unprobed         int64
	// Foreign copies are of emissions that a sibling fired: owed here to nobody.
	Foreign             int64
	Recovered, InFlight int64
	Replayed, Excused   int64
	// Unidentified: owed, and an update without a payload came after it was
	// fired, which may have announced it. Not in Expected.
	Unidentified               int64
	Announcements, FalseAlarms int64
	// Overclaimed counts the cursors that were the first to claim something that
	// was lost silently.
	Overclaimed int64
	// NotReplayed counts the windows that resumed at a cursor and received nothing of
	// what was published while there was no subscription.
	NotReplayed int64
	// Undecided: first copies of emissions whose firing is still pending.
	// Zero once every emission is resolved.
	Undecided int64
	// GapIncidents is the number of runs of lost emissions, LongestGap the
	// length of the longest.
	GapIncidents int64
	LongestGap   int64 `merge:"max"`
	// Windows counts the times the subscription became active.
	Windows int64
	// Active is the time it was active.
	Active time.Duration
}

// The counts of a lane are declared here: the field of a struct is the figure,
// its JSON key where results have it is the tag, and what two parts of a run are
// together is the rule of figure.Add. Accounts, displays and results embed the
// structs, so that a count which is added here is in all of them. LaneMetrics
// says what shows it to Prometheus.

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
	// OrderConflicts counts first copies of measured emissions that came to a
	// stream after one that other streams of the lane saw later. It has no clock
	// and no sequence numbers: the streams are compared with each other.
	OrderConflicts int64
	// Broken counts subscriptions that failed after they had been active.
	Broken int64
}

// Notices counts notices, which a lane receives besides events, by kind.
type Notices struct {
	Rejected        int64 `json:"rejected"`        // webhook deliveries whose signature was wrong, missing or stale
	Malformed       int64 `json:"malformed"`       // messages that could not be read, or break the protocol in a way that affects clients
	Reconnects      int64 `json:"reconnects"`      // streams that were cut and opened again
	DeadStreams     int64 `json:"deadStreams"`     // streams that fell silent for twice the heartbeat interval
	Terminated      int64 `json:"terminated"`      // subscriptions that the target ended
	TransientErrors int64 `json:"transientErrors"` // error notifications, and calls that failed and were tried again
	// connections of the target to the lane's own listener that failed before they carried a
	// request, and deliveries that it had no memory for
	Undeliverable int64 `json:"undeliverable,omitempty"`
	// how often the target said that it had suspended delivery or lost a subscription
	Suspended int64 `json:"suspended,omitempty"`
	// streams, answers and webhook bodies that were given up because they were larger than their
	// bound, or because the memory budget (limits.memory) could not hold them
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
	eventmeter.Undeliverable: {
		func(n *Notices) *int64 { return &n.Undeliverable },
		func(n *LaneAccount) *Reasons { return &n.UndeliverableBy },
	},
	eventmeter.Suspended: {func(n *Notices) *int64 { return &n.Suspended }, func(n *LaneAccount) *Reasons { return &n.SuspendedBy }},
	eventmeter.Oversized: {func(n *Notices) *int64 { return &n.Oversized }, func(n *LaneAccount) *Reasons { return &n.OversizedBy }},
}

// LaneAccount holds the figures of one lane.
type LaneAccount struct {
	Name, System string          `merge:"-"`
	Mode         eventmeter.Mode `merge:"-"`
	Ordered      bool            `merge:"-"`
	// Subscriptions is the number the lane was declared with.
	Subscriptions int
	Ready         Ready
	LaneCounts
	// Sums is the sum over the lane's subscriptions (of LongestGap the
	// maximum). Check compares the two.
	Sums SubCounts
	Gaps Gaps `merge:"-"`
	// Latency of first deliveries of owed measured emissions.
	Latency  Latency
	Arrivals Arrivals
	// RejectedBy and those like it split a count of Notices by the detail of the
	// notices, most frequent first.
	RejectedBy, MalformedBy, UndeliverableBy, SuspendedBy, OversizedBy Reasons
	// AnsweredBy counts the target's requests that this side answered with an
	// error, by status.
	AnsweredBy Reasons
	// BrokenReasons splits Broken.
	BrokenReasons Reasons
	// Traffic is the lane's calls, by eventmeter.Cause.
	Traffic [eventmeter.Causes]Traffic
	// Measured is the part of the lane's traffic, events and active time that
	// lies in the measured window.
	Measured Window
	// Failures counts failed calls by "method failure", most frequent first.
	Failures Reasons
	// SubscriptionHours is the sum of the active times, in hours.
	SubscriptionHours float64 `merge:"-"`
	// Series has an entry for each interval in which anything happened, in
	// order.
	Series []LaneInterval `merge:"-"`
	// Examples are some of the lane's findings, for people to look into.
	Examples []Example `merge:"-"`
}

// Ready describes how the subscriptions of a lane became active.
type Ready struct {
	// Time is Attaching to Active, of those that became active.
	Time Timing
	// Attempts = those in Time + Failed + Cancelled + Open.
	Attempts int64
	Failed   int64
	Reasons  Reasons
	// Cancelled: ended by us before it was active.
	Cancelled int64
	// Open: asked for and not active yet.
	Open int64
}

// Reason is a short text and how often it was given.
type Reason struct {
	Text  string
	Count int64
}

// Reasons are texts and their counts, most frequent first, then by text.
type Reasons []Reason

// Gaps describes runs of lost emissions: consecutive among those that one
// subscription was owed from one source.
type Gaps struct {
	// Incidents is the number of runs.
	Incidents int64
	// PerMillion is Incidents per million expected deliveries.
	PerMillion float64
	// Longest is the length of the longest run, in emissions.
	Longest int64
}

// Latency is how long after the change a client learned of it.
type Latency struct {
	// FromIntended is At-Intended: what a client sees of a service that has
	// to keep the schedule.
	FromIntended Timing
	// FromSent is At-Fired: without delays of the generator itself.
	FromSent Timing
}

// Traffic is what the calls of one cause amounted to.
type Traffic struct {
	// Calls counts exchanges and lone messages, Requests only the former.
	Calls, Requests int64
	Up, Down        int64 // bytes
	Connections     int64
	Failures        int64
	// Took is the duration of the calls that reported one. Its Histogram is nil
	// if none did.
	Took Timing
}

// Window holds what a lane cost and received within the measured window of a
// run (see [Ledger.Measure]): the numerators and denominators of every ratio of
// cost.
type Window struct {
	// Traffic is the calls whose Call.At lies in the window, by eventmeter.Cause,
	// without Took.
	Traffic [eventmeter.Causes]Traffic
	WindowCounts
}

// WindowCounts is the part of a Window that is counted with every delivery.
type WindowCounts struct {
	// EventMessages and EventBytes are all copies of events read in the window.
	EventMessages, EventBytes int64
	// Received counts events read in the window, once for each subscription: see
	// LaneAccount.Received.
	Received int64
	// Active is the part of SubCounts.Active that lies in the window.
	Active time.Duration
}

// LaneInterval is one interval of a lane's series.
type LaneInterval struct {
	// Number is the interval's number since the start of the run's clock.
	Number int64 `merge:"-"`
	// Fired and FiredWarmUp are the emissions of all sources of the run whose
	// Fired lies in the interval; Dropped the measured emissions that were
	// intended in it and dropped.
	Fired, FiredWarmUp, Dropped int64
	// Delivered, Late and OutOfOrder count owed first deliveries read in the
	// interval; Duplicates and Unexpected the copies read in it.
	Delivered, Late, OutOfOrder int64
	Duplicates, Unexpected      int64
	// Skipped counts measured emissions that were found to be passed over by
	// a newer one, when that was read. They may come yet.
	Skipped int64
	// FromIntended and FromSent are the latencies of Delivered, in
	// nanoseconds: a sample belongs to the interval in which the delivery
	// was read, not to that in which the emission was fired. Nil when there
	// are none.
	FromIntended, FromSent *hdrhistogram.PackedHistogram `merge:"-"`
}
