package ledger

import (
	"cmp"
	"slices"

	"github.com/eventmeter/eventmeter"
)

// ExampleKind is the kind of finding that an Example shows.
type ExampleKind string

// The kinds of examples.
const (
	ExampleLostSilent        ExampleKind = "lost"
	ExampleLostAnnounced     ExampleKind = "announced loss"
	ExampleLostOrderUnknown  ExampleKind = "lost, order unknown"
	ExampleLostUndeliverable ExampleKind = "undeliverable here"
	ExampleLostRefused       ExampleKind = "refused by this sink"
	ExampleLostSuspended     ExampleKind = "lost after suspension"
	ExampleDuplicate         ExampleKind = "duplicate"
	ExampleUnexpected        ExampleKind = "unexpected"
	ExampleOutOfOrder        ExampleKind = "out of order"
)

// Example is one finding, with what is needed to find it in the logs of a target.
type Example struct {
	Kind   ExampleKind
	Sub    eventmeter.Sub
	Source uint16
	// From and To are sequence numbers, equal for anything but a gap.
	From, To uint32
	// EventID is the hash of the target's event id, see eventmeter.HashID.
	EventID uint64
	// At is when the copy was read; for a gap when the first missing emission
	// was fired.
	At eventmeter.Instant
	// Bytes is the size of the copy as read, 0 where it is not known.
	Bytes int
	// Detail is the kind of duplicate or unexpected copy.
	Detail string
}

// exampleSet keeps the first findings of each kind.
type exampleSet struct {
	limit int
	list  []Example
	seen  [len(exampleKinds)]int
}

var exampleKinds = [...]ExampleKind{
	ExampleLostSilent,
	ExampleLostAnnounced,
	ExampleLostOrderUnknown,
	ExampleLostUndeliverable,
	ExampleLostRefused,
	ExampleLostSuspended,
	ExampleDuplicate,
	ExampleUnexpected,
	ExampleOutOfOrder,
}

func (x *exampleSet) add(e Example) {
	i := slices.Index(exampleKinds[:], e.Kind)
	if x.seen[i] >= x.limit {
		return
	}
	x.seen[i]++
	x.list = append(x.list, e)
}

// pick sorts the examples by kind and time, and keeps the first of each kind.
func (x *exampleSet) pick() []Example {
	slices.SortFunc(x.list, func(a, b Example) int {
		return cmp.Or(cmp.Compare(slices.Index(exampleKinds[:], a.Kind), slices.Index(exampleKinds[:], b.Kind)),
			cmp.Compare(a.At, b.At), cmp.Compare(a.Sub.Index, b.Sub.Index), cmp.Compare(a.Source, b.Source), cmp.Compare(a.From, b.From))
	})
	var n int
	var kind ExampleKind
	return slices.DeleteFunc(x.list, func(e Example) bool {
		if e.Kind != kind {
			kind, n = e.Kind, 0
		}
		n++
		return n > x.limit
	})
}
