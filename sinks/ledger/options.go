package ledger

import (
	"time"

	"github.com/eventmeter/eventmeter"
)

// Options say what a Ledger keeps account of. Run, Sources and Lanes are
// what the run really has; the rest may be left zero.
type Options struct {
	// Clock is the run's clock; nil makes a new one. The ledger reads it only
	// to draw up accounts.
	Clock *eventmeter.Clock
	// Run is the run number in the stamps of this run.
	Run uint32
	// Sibling reports which other runs are this run's siblings: the shards that
	// load the same target at the same time, each with a ledger of its own. nil:
	// there are none. What a sibling fired is known by its run alone, so a copy
	// of it is Foreign where its subscription may get it, and unexpected where
	// not. It is called on the delivering goroutine, for copies of other runs.
	Sibling func(run uint32) bool
	// Sources is the number of sources, at least 1 and at most 65536.
	Sources int
	// Lanes are the groups of subscriptions, at most 65536.
	Lanes []LaneSpec
	// LateAfter is the latency from Intended above which a delivery counts as late. 0
	// counts none.
	LateAfter time.Duration
	// DetachGrace excuses a missing emission that was fired at most this long
	// before the subscription ended, or before it last asked (Transition.Seen).
	DetachGrace time.Duration
	// Interval is the width of the intervals that Live shows as recent; 0 is
	// one second.
	Interval time.Duration
	// Recorded is the width of the intervals of the account's time series, a
	// multiple of Interval; 0 is Interval. The memory that a long run takes
	// depends on it: every recorded interval holds two histograms a lane.
	Recorded time.Duration
	// Examples is how many findings of each kind a lane keeps; 0 is 20,
	// negative none.
	Examples int
	// Observe, when not nil, is called with every delivery after it was recorded,
	// on the delivering goroutine and with no lock held.
	Observe func(eventmeter.Delivery, Verdict)
}

// LaneSpec describes a group of subscriptions of one system in one mode.
type LaneSpec struct {
	Name, System string
	Mode         eventmeter.Mode
	// Subscriptions is how many the lane has, indexed from 0.
	Subscriptions int
	// Owed gives the sources that subscription index is owed. A nil function
	// and a nil result mean all of them; an empty result that is not nil means
	// none. It is called once per subscription, by New.
	Owed func(index int) []uint16
	// Broadcast tells whether what siblings fire from any source reaches
	// subscription index; otherwise only what they fire from a source it is owed
	// does. nil: none is reached. It is called on the delivering goroutine, for
	// copies that a sibling fired.
	Broadcast func(index int) bool
	// Ordered is set if the lane's mode promises order. Deliveries out of order are
	// counted either way. Without it, a loss that was fired before an announcement was
	// received counts as LostOrderUnknown.
	Ordered bool
	// Replay is set if the lane asks for events from before it subscribed.
	Replay bool
}

// Verdict is what the ledger made of one delivery.
type Verdict struct {
	Kind VerdictKind
	// Late and OutOfOrder qualify VerdictDelivered, and Late also
	// VerdictUndecided.
	Late, OutOfOrder bool
	// FromIntended and FromSent are set when the emission is known.
	FromIntended, FromSent time.Duration
	// Measured is true when the emission is known and measured.
	Measured bool
}

// VerdictKind classifies a delivered copy.
type VerdictKind uint8

// The verdicts.
const (
	// VerdictDelivered: the first copy of an owed emission.
	VerdictDelivered VerdictKind = iota + 1
	// VerdictUndecided: a first copy that came before its firing was resolved
	// or before the subscription was reported active. It is counted once that
	// is known; the observer is not told again.
	VerdictUndecided
	VerdictDuplicateRequested
	VerdictDuplicateSameEvent
	VerdictDuplicateSameEmission
	VerdictDuplicateForgotten
	VerdictForeignRun
	VerdictNeverFired
	VerdictNotSubscribed
	VerdictAfterEnd
	VerdictStale
	VerdictReplayed
	VerdictInFlight
	VerdictRecovered
	VerdictUnprobed
	// VerdictWarmUp: a copy of an emission of the warm-up; it enters no figure.
	VerdictWarmUp
	// VerdictIgnored: the delivery names no subscription of this run.
	VerdictIgnored
	// VerdictForeignShard: a copy of what a sibling fired.
	VerdictForeignShard
)

// Quantiles of a latency. All are zero when Count is.
type Quantiles struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// AddFrom implements [figure.Adder]. Quantiles cannot be added: those of
// whichever has the higher p99 stay, with the count of both.
func (q *Quantiles) AddFrom(from any) {
	r := *from.(*Quantiles)
	count := q.Count + r.Count
	if r.P99 > q.P99 || q.Count == 0 {
		*q = r
	}
	q.Count = count
}
