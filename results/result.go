// Package results holds the outcome of a run: the versioned [Result] and its
// JSON form, thresholds over its figures, and the archive directory that a run
// leaves behind.
//
// A Result is plain data. It is built once from a ledger's account (see
// [NewLane]) and never computed again: reports read it.
package results

import (
	"encoding/json"
	"time"

	"github.com/eventmeter/eventmeter/sinks"
)

// Schema is the version of the result format that this package writes. A
// reader accepts exactly this one.
const Schema = "eventmeter.result/1"

// Result is everything a run found out. Durations are in nanoseconds unless a
// field says otherwise.
type Result struct {
	Schema string `json:"schema"` // always eventmeter.result/1
	// Version of the program that made it.
	Version string `json:"version"`
	// Run is the run id that its probe ids carry, in hexadecimal.
	Run      string    `json:"run"`
	Started  time.Time `json:"started"`  // wall clock, UTC
	Finished time.Time `json:"finished"` // wall clock, UTC
	// Partial is true when the run ended before its profile said so; Reason
	// says why. The figures of a partial result are right for the published events.
	Partial bool   `json:"partial"`
	Reason  string `json:"reason,omitempty"` // why it is partial
	// Checkpoint is true when this was written while the run went on, and the run
	// did not live to replace it: it was killed, or the machine went down. What
	// was published within phases.drain of that moment and had not come is excused;
	// of a poller, all that is newer than what its last polls brought. Thresholds
	// are not judged, and there are no histogram logs.
	Checkpoint bool `json:"checkpoint,omitempty"`
	// Profile is the profile as run, overrides applied, without secrets.
	Profile    json.RawMessage `json:"profile"`
	Target     Target          `json:"target"`     // the server that was measured
	Host       Host            `json:"host"`       // the machine that measured
	Phases     []Phase         `json:"phases"`     // in the order in which they were run
	Upstream   Upstream        `json:"upstream"`   // what was published
	Lanes      []Lane          `json:"lanes"`      // in the order of the profile
	Thresholds []Verdict       `json:"thresholds"` // one entry per threshold and lane
	Generator  Generator       `json:"generator"`  // how the generator itself fared
	Warnings   []Warning       `json:"warnings"`   // what a reader should know
	// Part says which shard of a run this is the result of, where that is no run
	// of its own. Thresholds are then judged on the merged result, not here.
	Part *PartOf `json:"part,omitempty"`
	// Shards are the processes that the run was split into, where it was: the
	// figures above are then of all of them together.
	Shards []Shard `json:"shards,omitempty"`
	// Coverage is, of a run that was split, the share of the pairs of event and
	// subscription that one shard published and received, over 0 to 1: the rest was
	// loaded and not measured. 0 where the run was not split.
	Coverage float64 `json:"coverage,omitempty"`
}

// PartOf is the place of a shard in its run.
type PartOf struct {
	Index int `json:"index"` // from 0
	Count int `json:"count"` // shards of the run
}

// Shard is one process of a run that was split.
type Shard struct {
	Index   int    `json:"index"`   // from 0
	Count   int    `json:"count"`   // shards of the run
	Machine string `json:"machine"` // name of its machine
	// Missing is true when nothing of it was there to merge.
	Missing bool   `json:"missing,omitempty"`
	Partial bool   `json:"partial,omitempty"` // ended early
	Reason  string `json:"reason,omitempty"`  // why it ended early
	// Skew is how much later than the first shard it began to publish, by the
	// wall clocks of the machines.
	Skew          Nanos `json:"skew"`
	Subscriptions int   `json:"subscriptions"` // of all lanes
	Fired         int64 `json:"published"`     // measured events that it sent
	Delivered     int64 `json:"delivered"`     // of all lanes
	Foreign       int64 `json:"foreign"`       // copies of events of other shards
	// Generator is how this generator fared.
	Generator Generator `json:"generator"`
}

// Phase is one part of the run. Start and End are since the run began.
type Phase struct {
	Name string `json:"name"` // attach, wait (of a shard), warm-up, measure, drain, detach
	// Lane is set when lanes take turns.
	Lane  string `json:"lane,omitempty"`
	Start Nanos  `json:"start"` // since the run began
	End   Nanos  `json:"end"`   // since the run began
}

// Upstream is what was published in the measured part.
type Upstream struct {
	Kind    string `json:"kind"`    // as in the profile
	Sources int    `json:"sources"` // independent sequences of events
	// Scheduled = Fired + Dropped. Fired = Accepted + Uncertain + Refused.
	Scheduled int64 `json:"scheduled"`
	Fired     int64 `json:"published"` // events that were sent
	Accepted  int64 `json:"accepted"`  // the upstream took them; only these are owed
	Uncertain int64 `json:"uncertain"` // sent, and not known whether they were taken
	Refused   int64 `json:"refused"`   // not taken, or never reached anybody
	Dropped   int64 `json:"dropped"`   // due while no worker was free; never sent
	// Warmup is how many emissions were published before, and discarded.
	Warmup int64 `json:"warmup"`
	// Lag is from intended to sent, Answer from sent to the upstream's answer.
	Lag    Quantiles `json:"lag"`
	Answer Quantiles `json:"answer"` // from sent to answered
	// Figures and Timings are what the kind of upstream saw besides; its
	// section in docs/upstreams.md defines them. Absent for most kinds.
	Figures map[string]float64   `json:"figures,omitempty"`
	Timings map[string]Quantiles `json:"timings,omitempty"`
}

// Lane is the figures of one lane. Counts are pairs of a subscription and an
// emission.
type Lane struct {
	Name          string `json:"name"`          // as in the profile
	System        string `json:"system"`        // as in the profile
	Mode          string `json:"mode"`          // poll, push or webhook
	Subscriptions int    `json:"subscriptions"` // how many the profile asked for
	Ready         Ready  `json:"ready"`         // how they came up
	// Expected = Delivered + LostSilent + LostAnnounced + LostOrderUnknown +
	// LostUndeliverable + LostRefused + LostSuspended.
	Expected      int64      `json:"expected"`
	Delivered     int64      `json:"delivered"`     // owed and received at least once
	Duplicates    Duplicates `json:"duplicates"`    // second and later copies
	OutOfOrder    int64      `json:"outOfOrder"`    // received after one that happened later
	Late          int64      `json:"late"`          // received later than phases.late after intended
	LostSilent    int64      `json:"lostSilent"`    // never received, and nobody said so
	LostAnnounced int64      `json:"lostAnnounced"` // never received, and the target said so
	// LostOrderUnknown: never received, and nobody can tell whether an
	// announcement was about it, because its firing overlapped with that of an
	// event received beside the announcement.
	LostOrderUnknown int64 `json:"lostOrderUnknown"`
	// LostUndeliverable, LostRefused and LostSuspended are further losses whose
	// cause is known: connections of the target failed at this side's own
	// listener, every copy was refused by this side, or the target had suspended
	// delivery.
	LostUndeliverable int64   `json:"lostUndeliverable"`
	LostRefused       int64   `json:"lostRefused"`   // every copy that came was refused by this side
	LostSuspended     int64   `json:"lostSuspended"` // published while the target, by its own word, did not deliver
	Unexpected        int64   `json:"unexpected"`    // copies that should not have come
	Recovered         int64   `json:"recovered"`     // received although firing failed
	Gaps              Gaps    `json:"gaps"`          // runs of lost emissions
	Latency           Latency `json:"latency"`       // of first deliveries
	// Received counts the events that came in the whole run, once for each
	// subscription, warm-up included: what process.cpu is divided by.
	Received int64    `json:"received"`
	Overhead Overhead `json:"overhead"` // what carried no event
	Detail   Detail   `json:"detail"`   // counts that explain the others
	// Figures and Timings are what the lane's system has beyond the figures
	// above; the system's page in docs/ defines them. Empty for most.
	Figures map[string]float64   `json:"figures"`
	Timings map[string]Quantiles `json:"timings"` // see figures
	// Failures counts failed calls by method and kind.
	Failures map[string]int64 `json:"failures"`
	Examples []Example        `json:"examples"` // some of the findings, to follow up
	// Process is the target's use during this lane's turn, where lanes take turns.
	Process *Process `json:"process,omitempty"`
}

// Ready is how a lane's subscriptions came up.
type Ready struct {
	Active int64 `json:"active"` // subscriptions that became active
	Failed int64 `json:"failed"` // attempts that failed
	// Time is from the request to the confirmation, per subscription.
	Time    Quantiles        `json:"time"`
	Reasons map[string]int64 `json:"reasons"` // why attempts failed
}

// Duplicates are second and later copies by kind.
type Duplicates struct {
	// SameEvent: the event id had been delivered before.
	SameEvent int64 `json:"sameEvent"`
	// SameEmission: the same emission under another event id.
	SameEmission int64 `json:"sameEmission"`
	// Requested: the sink had refused an earlier copy.
	Requested int64 `json:"requested"`
	// Rate is SameEvent + SameEmission over Delivered, 0 to 1 and more.
	Rate float64 `json:"rate"`
}

// Gaps are runs of missing emissions.
type Gaps struct {
	Incidents  int64   `json:"incidents"`
	PerMillion float64 `json:"perMillion"` // incidents per million expected
	Longest    int64   `json:"longest"`    // emissions in the longest run
	// FalseAlarms are announcements with nothing missing.
	FalseAlarms int64 `json:"falseAlarms"`
	// Overclaimed are cursors that came by themselves, with a heartbeat, a
	// confirmation or an empty poll, and were the first to claim an event that was
	// lost silently. Push and poll only.
	Overclaimed int64 `json:"overclaimed"`
}

// Latency of first deliveries.
type Latency struct {
	FromIntended Quantiles `json:"fromIntended"` // from the scheduled instant to receipt
	FromSent     Quantiles `json:"fromSent"`     // from sending to receipt
	// BelowResolution names the figures above, such as fromSent.p50, that are below
	// the resolution limit of the run (Generator.ReadDelay.P99): they say more about
	// the generator than about the target.
	BelowResolution []string `json:"belowResolution"`
}

// Quantiles summarise a histogram (HDR, three digits, 1 µs to 10 min).
type Quantiles struct {
	Count int64 `json:"count"` // samples
	Min   Nanos `json:"min"`   // least
	P50   Nanos `json:"p50"`   // median
	P90   Nanos `json:"p90"`   // 90th percentile
	P99   Nanos `json:"p99"`   // 99th percentile
	P999  Nanos `json:"p999"`  // 99.9th percentile
	Max   Nanos `json:"max"`   // greatest
	Mean  Nanos `json:"mean"`  // arithmetic mean
	// OutOfRange values were counted at the edge of the histogram.
	OutOfRange int64 `json:"outOfRange"`
}

// Overhead is the protocol overhead: everything that carried no event. Opening
// and ending a subscription is paid once, however long it lasts, so it is kept
// apart from what goes on and on. Sums are of the whole run; every ratio names
// its window.
type Overhead struct {
	// Requests, bytes and connections without an event, all together.
	Requests    int64 `json:"requests"`
	BytesUp     int64 `json:"bytesUp"`     // sent by this side
	BytesDown   int64 `json:"bytesDown"`   // received by this side
	Connections int64 `json:"connections"` // TCP connections opened
	// SubscriptionHours is the time that subscriptions were active, added up.
	SubscriptionHours float64 `json:"subscriptionHours"`
	// Opened is how often a subscription was asked for in the whole run: more
	// than the lane has, where churn opens them again.
	Opened int64 `json:"opened"`
	// PerSubscription is the part that is paid once: the causes subscribe,
	// verification, unsubscribe and discovery of the whole run, over Opened.
	PerSubscription Share `json:"perSubscription"`
	// PerSubscriptionHour and PerDelivered are all the rest: empty polls,
	// heartbeats, refreshes, retries and reconnects. Both are of the measured
	// window: over Measured.SubscriptionHours and Measured.Received.
	PerSubscriptionHour Share `json:"perSubscriptionHour"`
	PerDelivered        Share `json:"perDelivered"` // see perSubscriptionHour
	// TotalPerDelivered is all traffic of the measured window, that of the
	// events and of opening subscriptions included, over Measured.Received. It
	// is zero where nothing was received in the window.
	TotalPerDelivered Share `json:"totalPerDelivered"`
	// Measured is the part of the lane's traffic that lies in the measured
	// window: the numerators and denominators of the ratios above.
	Measured OverheadWindow `json:"measured"`
	// Causes splits all traffic; the cause "events" is what did carry events
	// and is not part of the sums above.
	Causes map[string]Traffic `json:"causes"`
}

// OverheadWindow is what a lane cost and received within the measured window:
// from the end of the warm-up until the end of the phase "measure", or until
// the run was stopped.
type OverheadWindow struct {
	// Received counts the events read in the window, once for each
	// subscription, those of the warm-up included. Events published late in
	// the window and read after it are not.
	Received int64 `json:"received"`
	// SubscriptionHours is the time within the window in which subscriptions
	// were active, added up.
	SubscriptionHours float64 `json:"subscriptionHours"`
	// Causes splits all traffic of the window; the cause "events" is what
	// carried events.
	Causes map[string]Traffic `json:"causes"`
}

// Share is overhead divided by something.
type Share struct {
	Requests    float64 `json:"requests"`    // in either direction
	Bytes       float64 `json:"bytes"`       // up and down
	Connections float64 `json:"connections"` // TCP connections opened
}

// Traffic is an amount of it.
type Traffic struct {
	Requests    int64 `json:"requests"`    // in either direction
	BytesUp     int64 `json:"bytesUp"`     // sent by this side
	BytesDown   int64 `json:"bytesDown"`   // received by this side
	Connections int64 `json:"connections"` // TCP connections opened
}

// Detail holds the counts that explain the figures of a lane.
type Detail struct {
	// UnexpectedBy splits Lane.Unexpected.
	UnexpectedBy map[string]int64 `json:"unexpectedBy"`
	// Unprobed events carried no probe id: somebody else's traffic.
	Unprobed int64 `json:"unprobed"`
	// Foreign copies are of events that another shard of the run published; they
	// are that shard's to measure, where one of its own subscriptions receives them.
	Foreign int64 `json:"foreign,omitempty"`
	// InFlight deliveries were on their way when the subscription began; they
	// were neither demanded nor held against the target.
	InFlight int64 `json:"inFlight"`
	// Excused emissions were on their way when the subscription ended, or came
	// too late for its last poll.
	Excused int64 `json:"excused"`
	// Unidentified emissions may have been announced by an update that names no
	// event. They are not in expected.
	Unidentified int64 `json:"unidentified"`
	// Replayed deliveries are older than the subscription and were asked for.
	Replayed int64 `json:"replayed"`
	sinks.Notices
	// MalformedBy splits Malformed by what was wrong; absent when nothing was.
	MalformedBy map[string]int64 `json:"malformedBy,omitempty"`
	// RejectedBy splits Rejected by what was wrong; absent when nothing was.
	RejectedBy map[string]int64 `json:"rejectedBy,omitempty"`
	// UndeliverableBy splits Undeliverable, SuspendedBy Suspended by the words of
	// the target, and OversizedBy Oversized by what was too large; each is absent
	// when nothing was.
	UndeliverableBy map[string]int64 `json:"undeliverableBy,omitempty"`
	SuspendedBy     map[string]int64 `json:"suspendedBy,omitempty"` // see undeliverableBy
	OversizedBy     map[string]int64 `json:"oversizedBy,omitempty"` // see undeliverableBy
	// AnsweredBy counts the target's requests that this side answered with an
	// error, by status. They are no failures of the target's.
	AnsweredBy map[string]int64 `json:"answeredBy,omitempty"`
}

// Lost is the number of owed pairs that were never received, for whatever
// reason.
func (l *Lane) Lost() int64 {
	return l.LostSilent + l.LostAnnounced + l.LostOrderUnknown + l.LostUndeliverable + l.LostRefused + l.LostSuspended
}

// Example is one incident that can be followed up.
type Example struct {
	Kind         string `json:"kind"`              // lost, duplicate, unexpected, out of order
	Subscription int    `json:"subscription"`      // its number in the lane
	Source       int    `json:"source"`            // number of the source
	FromSeq      int64  `json:"fromSeq"`           // first sequence number
	ToSeq        int64  `json:"toSeq"`             // last sequence number
	EventID      string `json:"eventId,omitempty"` // hash, hexadecimal
	At           Nanos  `json:"at"`                // since the run began
}

// Warning is something a reader of the figures should know.
type Warning struct {
	Code string `json:"code"`           // stable, for machines
	Lane string `json:"lane,omitempty"` // where it is about one lane
	Text string `json:"text"`           // for people
}

// Verdict is one threshold, checked.
type Verdict struct {
	// Threshold as written; Lane is the lane that it was checked on ("" for
	// figures of the run).
	Threshold string `json:"threshold"`
	Lane      string `json:"lane,omitempty"` // the lane that it was checked on
	// Passed is whether it held. It is false as well where the threshold was not
	// evaluated.
	Passed bool `json:"passed"`
	// NotEvaluated says why the threshold judged nothing; it is absent where the
	// threshold was evaluated. Such a threshold neither held nor failed.
	NotEvaluated string `json:"notEvaluated,omitempty"`
	// Measured is the figure in its own unit (ns for durations), null when
	// there was nothing to measure.
	Measured *float64 `json:"measured"`
	// Text is the measured value for people: "12.3ms".
	Text string `json:"text"`
}

// Nanos is a duration in nanoseconds. It has a type of its own so that
// thresholds know which figures take a unit of time.
type Nanos int64

// Duration converts n.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }
