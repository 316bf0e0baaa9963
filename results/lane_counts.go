package results

import "github.com/eventmeter/eventmeter/sinks/ledger"

// LaneCount is a count of a lane of which the archive has a second account, and which
// comparisons may judge.
type LaneCount struct {
	Name string // the path in result.json
	Read func(*Lane) int64
	// Of is the total that the count is a part of in comparisons; nil = it is not compared.
	Of func(*Lane) int64
	// Per is the name of Of.
	Per string
	// Example is the kind of the count's examples; "" = there are none.
	Example ledger.ExampleKind
	// Loss is set for the ways in which an expected event can be lost.
	Loss bool
}

// LaneCounts are the counts of lanes, in the order of reports.
var LaneCounts = []LaneCount{
	{Name: "subscriptions", Read: func(l *Lane) int64 { return int64(l.Subscriptions) }},
	{Name: "expected", Read: expectedOf},
	{Name: "delivered", Read: deliveredOf},
	loss("lostSilent", ledger.ExampleLostSilent, func(l *Lane) int64 { return l.LostSilent }),
	loss("lostAnnounced", ledger.ExampleLostAnnounced, func(l *Lane) int64 { return l.LostAnnounced }),
	loss("lostOrderUnknown", ledger.ExampleLostOrderUnknown, func(l *Lane) int64 { return l.LostOrderUnknown }),
	loss("lostUndeliverable", ledger.ExampleLostUndeliverable, func(l *Lane) int64 { return l.LostUndeliverable }),
	loss("lostRefused", ledger.ExampleLostRefused, func(l *Lane) int64 { return l.LostRefused }),
	loss("lostSuspended", ledger.ExampleLostSuspended, func(l *Lane) int64 { return l.LostSuspended }),
	{Name: "duplicates.sameEvent", Read: func(l *Lane) int64 { return l.Duplicates.SameEvent }},
	{Name: "duplicates.sameEmission", Read: func(l *Lane) int64 { return l.Duplicates.SameEmission }},
	share("outOfOrder", ledger.ExampleOutOfOrder, func(l *Lane) int64 { return l.OutOfOrder }),
	share("orderConflicts", "", func(l *Lane) int64 { return l.OrderConflicts }),
	share("late", "", func(l *Lane) int64 { return l.Late }),
	share("unexpected", ledger.ExampleUnexpected, func(l *Lane) int64 { return l.Unexpected }),
	share("recovered", "", func(l *Lane) int64 { return l.Recovered }),
	{Name: "gaps.incidents", Read: func(l *Lane) int64 { return l.Gaps.Incidents }, Of: expectedOf, Per: "expected"},
	share("gaps.falseAlarms", "", func(l *Lane) int64 { return l.Gaps.FalseAlarms }),
	{Name: "latency.fromIntended.count", Read: func(l *Lane) int64 { return l.Latency.FromIntended.Count }},
	{Name: "latency.fromSent.count", Read: func(l *Lane) int64 { return l.Latency.FromSent.Count }},
}

func expectedOf(l *Lane) int64  { return l.Expected }
func deliveredOf(l *Lane) int64 { return l.Delivered }

func loss(name string, kind ledger.ExampleKind, read func(*Lane) int64) LaneCount {
	return LaneCount{Name: name, Read: read, Of: expectedOf, Per: "expected", Example: kind, Loss: true}
}

func share(name string, kind ledger.ExampleKind, read func(*Lane) int64) LaneCount {
	return LaneCount{Name: name, Read: read, Of: deliveredOf, Per: "delivered", Example: kind}
}
