package results

import (
	"fmt"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/figure"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// NewLane computes the figures of a lane from its account.
func NewLane(a *ledger.LaneAccount) Lane {
	return Lane{
		Name:          a.Name,
		System:        a.System,
		Unordered:     !a.Ordered,
		Mode:          string(a.Mode),
		Subscriptions: a.Subscriptions,
		Ready: Ready{
			Active:  activated(a),
			Failed:  a.Ready.Failed,
			Time:    Summarise(a.Ready.Time),
			Reasons: counts(a.Ready.Reasons),
		},
		Expected:          a.Expected,
		Delivered:         a.Delivered,
		LostSilent:        a.LostSilent,
		LostAnnounced:     a.LostAnnounced,
		LostOrderUnknown:  a.LostOrderUnknown,
		LostUndeliverable: a.LostUndeliverable,
		LostRefused:       a.LostRefused,
		LostSuspended:     a.LostSuspended,
		Duplicates: Duplicates{
			SameEvent: a.Duplicates.SameEvent,
			// If the first id is no longer remembered, a copy cannot be distinguished from one
			// under a new id. A client sees the same.
			SameEmission: a.Duplicates.SameEmission + a.Duplicates.Forgotten,
			Requested:    a.Duplicates.Requested,
			Rate:         ShareOf(a.Duplicates.Total()-a.Duplicates.Requested, a.Delivered),
		},
		OutOfOrder:     a.OutOfOrder,
		OrderConflicts: a.OrderConflicts,
		Late:           a.Late,
		Unexpected:     a.Unexpected.Total(),
		Recovered:      a.Recovered,
		Gaps: Gaps{
			Incidents:   a.Gaps.Incidents,
			PerMillion:  a.Gaps.PerMillion,
			Longest:     a.Gaps.Longest,
			FalseAlarms: a.FalseAlarms,
			Overclaimed: a.Overclaimed,
			NotReplayed: a.NotReplayed,
		},
		Latency:  newLatency(a),
		Received: a.Received,
		Overhead: newOverhead(a),
		Detail:   newDetail(a),
		Figures:  map[string]float64{},
		Timings:  map[string]Quantiles{},
		Failures: counts(a.Failures),
		Examples: newExamples(a.Examples),
	}
}

func newDetail(a *ledger.LaneAccount) Detail {
	return Detail{
		UnexpectedBy: map[string]int64{
			"foreignRun":    a.Unexpected.ForeignRun,
			"neverFired":    a.Unexpected.NeverFired,
			"notSubscribed": a.Unexpected.NotSubscribed,
			"afterEnd":      a.Unexpected.AfterEnd,
			"stale":         a.Unexpected.Stale,
		},
		Unprobed:        a.Unprobed,
		Foreign:         a.Foreign,
		InFlight:        a.InFlight,
		Excused:         a.Excused,
		Unidentified:    a.Unidentified,
		Replayed:        a.Replayed,
		Notices:         a.Notices,
		MalformedBy:     someCounts(a.MalformedBy),
		RejectedBy:      someCounts(a.RejectedBy),
		UndeliverableBy: someCounts(a.UndeliverableBy),
		SuspendedBy:     someCounts(a.SuspendedBy),
		AnsweredBy:      someCounts(a.AnsweredBy),
		OversizedBy:     someCounts(a.OversizedBy),
	}
}

// activated is the number of subscriptions that became active at least once. With churn there are
// more attempts than subscriptions.
func activated(a *ledger.LaneAccount) int64 {
	return min(a.Ready.Attempts-a.Ready.Failed-a.Ready.Cancelled-a.Ready.Open, int64(a.Subscriptions))
}

func counts(rs []ledger.Reason) map[string]int64 {
	m := make(map[string]int64, len(rs))
	for _, r := range rs {
		m[r.Text] += r.Count
	}
	return m
}

// someCounts is counts, but nil where nothing was counted.
func someCounts(rs []ledger.Reason) map[string]int64 {
	if len(rs) == 0 {
		return nil
	}
	return counts(rs)
}

func newOverhead(a *ledger.LaneAccount) Overhead {
	o := Overhead{SubscriptionHours: a.SubscriptionHours, Opened: a.Ready.Attempts}
	o.Causes = trafficByCause(&a.Traffic, a.EventBytes)
	w := &o.Measured
	w.Received, w.SubscriptionHours = a.Measured.Received, a.Measured.Active.Hours()
	w.Causes = trafficByCause(&a.Measured.Traffic, a.Measured.EventBytes)
	once, ongoing, _ := splitTraffic(o.Causes)
	o.PerSubscription = once.over(float64(o.Opened))
	once.add(ongoing)
	o.Requests, o.BytesUp, o.BytesDown, o.Connections = once.Requests, once.BytesUp, once.BytesDown, once.Connections
	once, ongoing, events := splitTraffic(w.Causes)
	o.PerSubscriptionHour = ongoing.over(w.SubscriptionHours)
	o.PerDelivered = ongoing.over(float64(w.Received))
	events.add(once)
	events.add(ongoing)
	o.TotalPerDelivered = events.over(float64(w.Received))
	return o
}

// trafficByCause leaves out causes without traffic. Events on an open stream are no calls; their
// bytes are counted with the deliveries.
func trafficByCause(all *[eventmeter.Causes]ledger.Traffic, eventBytes int64) map[string]Traffic {
	out := map[string]Traffic{}
	for c, t := range all {
		if eventmeter.Cause(c) == eventmeter.Events {
			t.Down = max(t.Down, eventBytes)
		}
		if t.Calls > 0 || t.Down > 0 {
			out[eventmeter.Cause(c).String()] = Traffic{Requests: t.Requests, BytesUp: t.Up, BytesDown: t.Down, Connections: t.Connections}
		}
	}
	return out
}

// splitTraffic adds up the traffic paid once per subscription, the running traffic, and the traffic
// that carried events.
func splitTraffic(causes map[string]Traffic) (once, ongoing, events Traffic) {
	for cause, t := range causes {
		switch cause {
		case eventmeter.Events.String():
			events.add(t)
		case eventmeter.Subscribe.String(),
			eventmeter.Verification.String(),
			eventmeter.Unsubscribe.String(),
			eventmeter.Discovery.String():
			once.add(t)
		default:
			ongoing.add(t)
		}
	}
	return once, ongoing, events
}

func (t *Traffic) add(u Traffic) {
	figure.AddCounts(t, &u)
}

// over divides t by n. The result is zero if n is not positive.
func (t Traffic) over(n float64) Share {
	if n <= 0 {
		return Share{}
	}
	return Share{Requests: float64(t.Requests) / n, Bytes: float64(t.BytesUp+t.BytesDown) / n, Connections: float64(t.Connections) / n}
}

func newExamples(es []ledger.Example) []Example {
	out := make([]Example, len(es))
	for i, e := range es {
		out[i] = Example{
			Kind: string(e.Kind), Subscription: int(e.Sub.Index), Source: int(e.Source),
			FromSeq: int64(e.From), ToSeq: int64(e.To), At: Nanos(e.At), Bytes: int64(e.Bytes),
		}
		if e.Detail != "" {
			out[i].Kind += ": " + e.Detail
		}
		if e.EventID != 0 {
			out[i].EventID = fmt.Sprintf("%016x", e.EventID)
		}
	}
	return out
}

// ShareOf returns part/whole, or 0 if whole is 0 or less.
func ShareOf(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
