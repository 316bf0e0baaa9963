package results

import "github.com/eventmeter/eventmeter/sinks/ledger"

// LaneCount is a count of a lane of which the archive has a second account, and which
// comparisons may judge.
type LaneCount struct {
	Name string // the path in result.json
	// Per is the name of the total that the count is a part of in comparisons; "" = it is not compared.
	Per string
	// Example is the kind of the count's examples; "" = there are none.
	Example ledger.ExampleKind
	// Loss is set for the ways in which an expected event can be lost.
	Loss bool
}

// LaneCounts are the counts of lanes, in the order of reports.
var LaneCounts = []LaneCount{
	{Name: "subscriptions"},
	{Name: "expected"},
	{Name: "delivered"},
	loss("lostSilent", ledger.ExampleLostSilent),
	loss("lostAnnounced", ledger.ExampleLostAnnounced),
	loss("lostOrderUnknown", ledger.ExampleLostOrderUnknown),
	loss("lostUndeliverable", ledger.ExampleLostUndeliverable),
	loss("lostRefused", ledger.ExampleLostRefused),
	loss("lostSuspended", ledger.ExampleLostSuspended),
	{Name: "duplicates.sameEvent"},
	{Name: "duplicates.sameEmission"},
	share("outOfOrder", ledger.ExampleOutOfOrder),
	share("orderConflicts", ""),
	share("late", ""),
	share("unexpected", ledger.ExampleUnexpected),
	share("recovered", ""),
	{Name: "gaps.incidents", Per: "expected"},
	share("gaps.falseAlarms", ""),
	{Name: "latency.fromIntended.count"},
	{Name: "latency.fromSent.count"},
}

func loss(name string, kind ledger.ExampleKind) LaneCount {
	return LaneCount{Name: name, Per: "expected", Example: kind, Loss: true}
}

func share(name string, kind ledger.ExampleKind) LaneCount {
	return LaneCount{Name: name, Per: "delivered", Example: kind}
}

// Read returns the count of a lane.
func (c LaneCount) Read(l *Lane) int64 { return l.count(c.Name) }

// Of returns the total of a lane that the count is a part of.
func (c LaneCount) Of(l *Lane) int64 { return l.count(c.Per) }

// count is a figure that is a count.
func (l *Lane) count(name string) int64 {
	v, _ := l.Figure(name)
	return int64(v)
}
