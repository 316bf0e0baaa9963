// Package results holds the outcome of a run: the versioned [Result] and its
// JSON form, thresholds over its figures, and the archive directory that a run
// leaves behind.
//
// A Result is plain data. It is built once from a ledger's account (see
// [NewLane]) and never computed again: reports read it.
package results

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Schema is the version of the result format that this package writes. A
// reader accepts exactly this one.
const Schema = "eventmeter.result/1"

// Result is the outcome of a run. Durations are in nanoseconds unless a field says otherwise.
type Result struct {
	Schema string `json:"schema"` // always eventmeter.result/1
	// version of the program that wrote it
	Version string `json:"version"`
	// the run id that its probe ids carry, in hexadecimal
	Run string `json:"run"`
	// the name that a person gave the run (--name)
	Name     string    `json:"name,omitempty"`
	Started  time.Time `json:"started"`  // wall clock, UTC
	Finished time.Time `json:"finished"` // wall clock, UTC
	// whether the run ended before its profile was complete. The figures of a partial result cover
	// the events published until then.
	Partial bool   `json:"partial"`
	Reason  string `json:"reason,omitempty"` // why the run ended early
	// whether this result was written while the run was still going and never replaced: the process
	// was killed, or the machine went down. Events published less than phases.drain before the
	// checkpoint and not yet received are excused; for a poller, so are all events newer than its
	// last polls. Thresholds are not judged, and there are no histogram logs.
	Checkpoint bool `json:"checkpoint,omitempty"`
	// the profile as run, with overrides and without secrets
	Profile    json.RawMessage `json:"profile"`
	Target     Target          `json:"target"`     // the server that was measured
	Host       Host            `json:"host"`       // the machine that measured
	Phases     []Phase         `json:"phases"`     // in the order in which they ran
	Upstream   Upstream        `json:"upstream"`   // what was published
	Lanes      []Lane          `json:"lanes"`      // in the order of the profile
	Thresholds []Verdict       `json:"thresholds"` // one entry per threshold and lane
	// how exactly the latencies of phases.until are known, one entry per condition and lane
	Until []Precision `json:"until,omitempty"`
	// what the run saw of the rows by which servers of MCP Events are judged; absent where no lane
	// speaks that system. A threshold judges it as run.conformance.must == 0.
	Conformance *Conformance `json:"conformance,omitempty"`
	Generator   Generator    `json:"generator"` // the generator's own health
	Warnings    []Warning    `json:"warnings"`  // what a reader of the figures should know
	// the shard that wrote this result, where it is not a complete run. The thresholds of a shard
	// are judged on the merged result.
	Part *PartOf `json:"part,omitempty"`
	// the processes of a run that was split into shards. The figures above then cover all shards.
	Shards []Shard `json:"shards,omitempty"`
	// the share of (event, subscription) pairs that were published and received by the same shard,
	// above 0 and at most 1, for a run that was split into shards. The other pairs are load that
	// was not measured. 0 = the run was not split.
	Coverage float64 `json:"coverage,omitempty"`
}

// Took is the time from the beginning to the end.
func (r *Result) Took() Nanos { return Nanos(r.Finished.Sub(r.Started)) }

// PartOf is the place of a shard in its run.
type PartOf struct {
	Index int `json:"index"` // from 0
	Count int `json:"count"` // shards of the run
}

// Shard is one process of a run that was split.
type Shard struct {
	Index   int    `json:"index"`   // from 0
	Count   int    `json:"count"`   // shards of the run
	Machine string `json:"machine"` // host name of its machine
	// whether its result was missing from the merge
	Missing bool   `json:"missing,omitempty"`
	Partial bool   `json:"partial,omitempty"` // whether it ended early
	Reason  string `json:"reason,omitempty"`  // why it ended early
	// how much later than the first shard it began to publish, by the wall clocks of the machines
	Skew          Nanos `json:"skew"`
	Subscriptions int   `json:"subscriptions"` // of all lanes
	Published     int64 `json:"published"`     // events that it published in the measured phase
	Delivered     int64 `json:"delivered"`     // of all lanes
	Foreign       int64 `json:"foreign"`       // copies of events that other shards published
	// the health of this generator
	Generator Generator `json:"generator"`
}

// Phase is one phase of the run.
type Phase struct {
	Name string `json:"name"` // attach, wait (of a shard), warm-up, measure, drain, detach, cool-down
	// the lane, where lanes take turns
	Lane  string `json:"lane,omitempty"`
	Start Nanos  `json:"start"` // since the run began
	End   Nanos  `json:"end"`   // since the run began
}

// Upstream counts the events of the measured phase.
type Upstream struct {
	Kind    string `json:"kind"`    // as in the profile
	Sources int    `json:"sources"` // independent sequences of events
	// events that were due: published + dropped, with published = accepted + uncertain + refused
	Scheduled int64 `json:"scheduled"`
	Published int64 `json:"published"` // events that were published
	Accepted  int64 `json:"accepted"`  // the upstream confirmed them; only these are owed
	Uncertain int64 `json:"uncertain"` // published, outcome unknown
	Refused   int64 `json:"refused"`   // rejected, or never delivered to the upstream
	Dropped   int64 `json:"dropped"`   // due while no worker was free; never published
	// events published in the warm-up; they enter no figure
	Warmup int64 `json:"warmup"`
	// time from the scheduled instant to publishing
	Lag    Quantiles `json:"lag"`
	Answer Quantiles `json:"answer"` // time from publishing to the upstream's answer
	// further figures of this kind of upstream, defined in its section of docs/upstreams.md; absent
	// for most kinds
	Figures map[string]float64   `json:"figures,omitempty"`
	Timings map[string]Quantiles `json:"timings,omitempty"` // further timings of this kind of upstream; see figures
}

// Lane is the figures of one lane. Counts are pairs of a subscription and an
// emission.
type Lane struct {
	Name          string `json:"name"`          // as in the profile
	System        string `json:"system"`        // as in the profile
	Mode          string `json:"mode"`          // poll, push or webhook
	Subscriptions int    `json:"subscriptions"` // how many the profile asked for
	Ready         Ready  `json:"ready"`         // how its subscriptions became active
	// true where no order of its events is promised: webhooks may overtake each other, and a list shows
	// several changes at once. Earlier versions did not write it
	Unordered bool `json:"unordered,omitempty"`
	// owed deliveries: delivered + lostSilent + lostAnnounced + lostOrderUnknown +
	// lostUndeliverable + lostRefused + lostSuspended
	Expected   int64      `json:"expected"`
	Delivered  int64      `json:"delivered"`  // owed and received at least once
	Duplicates Duplicates `json:"duplicates"` // second and later copies
	OutOfOrder int64      `json:"outOfOrder"` // received after a later event of the same source
	// received after an event that other streams of the lane received later: the streams saw the
	// same events in different order
	OrderConflicts int64 `json:"orderConflicts"`
	Late           int64 `json:"late"`          // received more than phases.late after the scheduled instant
	LostSilent     int64 `json:"lostSilent"`    // never received and not announced
	LostAnnounced  int64 `json:"lostAnnounced"` // never received, and announced by the target
	// never received, and possibly announced: the event was published at the same time as one that
	// was received beside the announcement, so their order is unknown. By webhook, which has no
	// order: published before an announcement arrived
	LostOrderUnknown int64 `json:"lostOrderUnknown"`
	// never received, because connections of the target to this side's listener failed
	LostUndeliverable int64   `json:"lostUndeliverable"`
	LostRefused       int64   `json:"lostRefused"`   // every received copy was refused by this side
	LostSuspended     int64   `json:"lostSuspended"` // published while delivery was suspended, as the target reported
	Unexpected        int64   `json:"unexpected"`    // copies that were not owed
	Recovered         int64   `json:"recovered"`     // received although publishing failed
	Gaps              Gaps    `json:"gaps"`          // series of consecutive lost events
	Latency           Latency `json:"latency"`       // of first deliveries
	// events received in the whole run, once per subscription, warm-up included; the divisor of
	// process.cpu
	Received int64    `json:"received"`
	Overhead Overhead `json:"overhead"` // cost of traffic that carried no event
	Detail   Detail   `json:"detail"`   // counts that explain the others
	// further figures of the lane's system, defined on the system's page in docs/; empty for most
	Figures map[string]float64   `json:"figures"`
	Timings map[string]Quantiles `json:"timings"` // further timings of the lane's system; see figures
	// failed calls by method and kind
	Failures map[string]int64 `json:"failures"`
	Examples []Example        `json:"examples"` // examples of incidents
	// the target's use of its machine during this lane's turn, where lanes take turns
	Process *Process `json:"process,omitempty"`
}

// Ready describes how a lane's subscriptions became active.
type Ready struct {
	Active int64 `json:"active"` // subscriptions that became active
	Failed int64 `json:"failed"` // attempts that failed
	// time from the request to the confirmation, per subscription
	Time    Quantiles        `json:"time"`
	Reasons map[string]int64 `json:"reasons"` // why attempts failed
}

// Duplicates are second and later copies by kind.
type Duplicates struct {
	// copies whose event id had been delivered before
	SameEvent int64 `json:"sameEvent"`
	// copies of an event under another event id
	SameEmission int64 `json:"sameEmission"`
	// copies sent again because this side had refused an earlier one
	Requested int64 `json:"requested"`
	// (sameEvent + sameEmission) / delivered; it may exceed 1
	Rate float64 `json:"rate"`
}

// Gaps are series of consecutive events that one subscription lost.
type Gaps struct {
	Incidents  int64   `json:"incidents"`  // number of such series
	PerMillion float64 `json:"perMillion"` // incidents per million expected
	Longest    int64   `json:"longest"`    // events in the longest series
	// announcements of a loss where nothing was missing
	FalseAlarms int64 `json:"falseAlarms"`
	// cursors that arrived without an event (with a heartbeat, a confirmation or an empty poll) and
	// were the first to claim an event that was lost silently; push and poll only
	Overclaimed int64 `json:"overclaimed"`
	// subscriptions that were opened again with a kept cursor, and received none of the events that
	// were published meanwhile, although the target did not say truncated. Earlier versions did not write it
	NotReplayed int64 `json:"notReplayed,omitempty"`
}

// Latency of first deliveries.
type Latency struct {
	FromIntended Quantiles `json:"fromIntended"` // from the scheduled instant to receipt
	FromSent     Quantiles `json:"fromSent"`     // from sending to receipt
	// how exactly the figures above are known, by names such as fromSent.p50; a figure without an
	// entry has no samples, or is in a checkpoint of a run that was not split. See docs/statistics.md.
	Intervals map[string]Interval `json:"intervals"`
	// the figures above, such as fromSent.p50, that are below the resolution limit of the run
	// (generator.readDelay.p99): they describe the generator more than the target
	BelowResolution []string `json:"belowResolution"`
}

// Interval is the 95 % confidence interval of a latency figure, and what speaks against the figure.
type Interval struct {
	// lower end: in 1 of 40 runs the true figure is below it
	Low Nanos `json:"low"`
	// upper end: in 1 of 40 runs the true figure is above it; absent where the sample cannot carry the
	// figure
	High Nanos `json:"high,omitempty"`
	// number of independent deliveries that would be as informative. Deliveries of one event, or of
	// one slow moment, are not independent.
	Draws int64 `json:"draws"`
	// the figure over the first third of the run, where it rose or fell throughout by a quarter or
	// more
	First Nanos `json:"first,omitempty"`
	Last  Nanos `json:"last,omitempty"` // the figure over the last third; see first
	// why the figure does not stand for the target: few-events, off-schedule or drift; absent where
	// nothing speaks against it. A threshold on such a figure is not evaluated.
	Doubt string `json:"doubt,omitempty"`
}

// Quantiles summarise a histogram (HDR, three digits, 1 µs to 10 min).
type Quantiles struct {
	Count int64 `json:"count"` // samples
	Min   Nanos `json:"min"`   // least
	P50   Nanos `json:"p50"`   // median
	P90   Nanos `json:"p90"`   // 90th percentile
	P95   Nanos `json:"p95"`   // 95th percentile; 0 in results that were written before it existed
	P99   Nanos `json:"p99"`   // 99th percentile
	P999  Nanos `json:"p999"`  // 99.9th percentile
	Max   Nanos `json:"max"`   // greatest
	Mean  Nanos `json:"mean"`  // arithmetic mean
	// values outside the range of the histogram, counted at its edge
	OutOfRange int64 `json:"outOfRange"`
}

// Overhead is the protocol overhead: all traffic that carried no event. Opening and ending a
// subscription is paid once, however long the subscription lasts, and is kept apart from running
// costs. Sums cover the whole run; each ratio names its window.
type Overhead struct {
	// requests that carried no event
	Requests    int64 `json:"requests"`
	BytesUp     int64 `json:"bytesUp"`     // sent by this side
	BytesDown   int64 `json:"bytesDown"`   // received by this side
	Connections int64 `json:"connections"` // TCP connections opened
	// total time that subscriptions were active
	SubscriptionHours float64 `json:"subscriptionHours"`
	// subscribe attempts in the whole run; with churn, more than the lane has subscriptions
	Opened int64 `json:"opened"`
	// cost paid once per subscription: the causes subscribe, verification, unsubscribe and
	// discovery of the whole run, divided by opened
	PerSubscription Share `json:"perSubscription"`
	// running cost: empty polls, heartbeats, refreshes, retries and reconnects of the measured
	// window, divided by measured.subscriptionHours
	PerSubscriptionHour Share `json:"perSubscriptionHour"`
	PerDelivered        Share `json:"perDelivered"` // the same running cost, divided by measured.received
	// all traffic of the measured window, including events and subscribing, divided by
	// measured.received; zero where nothing was received in the window
	TotalPerDelivered Share `json:"totalPerDelivered"`
	// the lane's traffic in the measured window: the numerators and denominators of the ratios
	// above
	Measured OverheadWindow `json:"measured"`
	// all traffic by cause; the cause "events" carried events and is not part of the sums above
	Causes map[string]Traffic `json:"causes"`
}

// OverheadWindow is the cost of a lane and what it received within the measured window: from the
// end of the warm-up until the end of the phase "measure", or until the run was stopped.
type OverheadWindow struct {
	// events read in the window, once per subscription, including those published in the warm-up;
	// events published in the window and read after it do not count
	Received int64 `json:"received"`
	// total time within the window that subscriptions were active
	SubscriptionHours float64 `json:"subscriptionHours"`
	// all traffic of the window by cause; the cause "events" carried events
	Causes map[string]Traffic `json:"causes"`
}

// Share is traffic divided by a count or a duration.
type Share struct {
	Requests    float64 `json:"requests"`    // in either direction
	Bytes       float64 `json:"bytes"`       // up and down
	Connections float64 `json:"connections"` // TCP connections opened
}

// Traffic is an amount of traffic.
type Traffic struct {
	Requests    int64 `json:"requests"`    // in either direction
	BytesUp     int64 `json:"bytesUp"`     // sent by this side
	BytesDown   int64 `json:"bytesDown"`   // received by this side
	Connections int64 `json:"connections"` // TCP connections opened
}

// Detail holds the counts that explain the figures of a lane.
type Detail struct {
	// the lane's unexpected copies by kind
	UnexpectedBy map[string]int64 `json:"unexpectedBy"`
	// events without a probe id: other traffic of the same server
	Unprobed int64 `json:"unprobed"`
	// copies of events that another shard of the run published; that shard measures them where one
	// of its own subscriptions receives them
	Foreign int64 `json:"foreign,omitempty"`
	// deliveries of events that were on their way when the subscription began; they are neither
	// owed nor unexpected
	InFlight int64 `json:"inFlight"`
	// events that were on their way when the subscription ended, or came too late for its last
	// poll; they are not owed
	Excused int64 `json:"excused"`
	// events that may have been announced by an update that names no event; they are not in
	// expected
	Unidentified int64 `json:"unidentified"`
	// deliveries of events that are older than the subscription and were requested
	Replayed int64 `json:"replayed"`
	ledger.Notices
	// malformed, by what was wrong; absent when it is 0
	MalformedBy map[string]int64 `json:"malformedBy,omitempty"`
	// rejected, by what was wrong; absent when it is 0
	RejectedBy map[string]int64 `json:"rejectedBy,omitempty"`
	// undeliverable, by what went wrong; absent when it is 0
	UndeliverableBy map[string]int64 `json:"undeliverableBy,omitempty"`
	SuspendedBy     map[string]int64 `json:"suspendedBy,omitempty"` // suspended, by the words of the target; absent when it is 0
	OversizedBy     map[string]int64 `json:"oversizedBy,omitempty"` // oversized, by what was too large; absent when it is 0
	// requests of the target that this side answered with an error, by status; they are not
	// failures of the target
	AnsweredBy map[string]int64 `json:"answeredBy,omitempty"`
}

// Lost is the number of owed deliveries that were never received, for any reason.
func (l *Lane) Lost() int64 {
	return l.LostSilent + l.LostAnnounced + l.LostOrderUnknown + l.LostUndeliverable + l.LostRefused + l.LostSuspended
}

// Example is one incident to follow up.
type Example struct {
	Kind         string `json:"kind"`              // lost, duplicate, unexpected, out of order
	Subscription int    `json:"subscription"`      // its number in the lane
	Source       int    `json:"source"`            // number of the source
	FromSeq      int64  `json:"fromSeq"`           // first sequence number
	ToSeq        int64  `json:"toSeq"`             // last sequence number
	EventID      string `json:"eventId,omitempty"` // hash, hexadecimal
	At           Nanos  `json:"at"`                // since the run began
	// size of the copy as read, framing included; absent for losses, and where it is not known
	Bytes int64 `json:"bytes,omitempty"`
}

// Warning is something a reader of the figures should know.
type Warning struct {
	Code string `json:"code"`           // stable, for machines
	Lane string `json:"lane,omitempty"` // set where it concerns one lane
	Text string `json:"text"`           // for people
}

// Warned reports whether one of the warnings has the code.
func Warned(all []Warning, code string) bool {
	return slices.ContainsFunc(all, func(w Warning) bool { return w.Code == code })
}

// Verdict is the outcome of one threshold.
type Verdict struct {
	// the threshold as written
	Threshold string `json:"threshold"`
	Lane      string `json:"lane,omitempty"` // the lane on which it was checked; absent for figures of the run
	// whether it held; also false where the threshold was not evaluated
	Passed bool `json:"passed"`
	// why the threshold judged nothing; absent where it was evaluated. Such a threshold neither
	// held nor failed
	NotEvaluated string `json:"notEvaluated,omitempty"`
	// the figure in its own unit (ns for durations); null when there was nothing to measure
	Measured *float64 `json:"measured"`
	// the measured value for people, such as "12.3ms"
	Text string `json:"text"`
}

// Precision says how exactly a latency of phases.until is known.
type Precision struct {
	Condition string `json:"condition"` // as written
	Lane      string `json:"lane"`      // the lane on which it was judged
	Figure    string `json:"figure"`    // a name as in latency.intervals, such as fromIntended.p99
	// whether the condition holds, judged when all deliveries had arrived
	Reached bool  `json:"reached"`
	Value   Nanos `json:"value"` // the figure; 0 = nothing was received
	// half of the width of its interval, as a share of it; null where there is no upper end
	HalfWidth *float64 `json:"halfWidth"`
	AtMost    float64  `json:"atMost"` // largest halfWidth that the condition allows
	// what speaks against the figure, as in latency.intervals; a figure in doubt is not known
	Doubt    string `json:"doubt,omitempty"`
	Measured Nanos  `json:"measured"` // how long the lane was measured
	// what ended the measured phase: condition (all conditions held while events were published), bound
	// (phases.measureAtMost was over) or stop (the run ended early)
	EndedBy string `json:"endedBy"`
}

// What ended a measured phase; see [Precision].
const (
	EndedByCondition = "condition"
	EndedByBound     = "bound"
	EndedByStop      = "stop"
)

// Nanos is a duration in nanoseconds. It has a type of its own so that
// thresholds know which figures take a unit of time.
type Nanos int64

// Duration converts n.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }

// String writes n with three significant digits and a unit: 0, 532µs,
// 12.3ms, 1.25s.
func (n Nanos) String() string {
	d := n.Duration()
	if d < 0 {
		return "-" + (-max(n, -math.MaxInt64)).String()
	}
	if d == 0 {
		return "0"
	}
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	unit, name := float64(time.Nanosecond), "ns"
	switch {
	case d >= 999500*time.Microsecond:
		unit, name = float64(time.Second), "s"
	case d >= 999500*time.Nanosecond:
		unit, name = float64(time.Millisecond), "ms"
	case d >= time.Microsecond:
		unit, name = float64(time.Microsecond), "µs"
	}
	x := float64(d) / unit
	digits := 2
	if x >= 99.95 {
		digits = 0
	} else if x >= 9.995 {
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + name
}
