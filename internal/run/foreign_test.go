package run

import (
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/results"
)

// TestForeign checks what shards make of copies of each other's emissions.
func TestForeign(t *testing.T) {
	t.Parallel()
	p := parseProfile(t, `
name: foreign
lanes:
  - {name: all, mode: push, subscriptions: 2, event: e}
  - {name: own, mode: push, subscriptions: 2, event: e, sources: "{{.Index}}"}
upstream: {sources: 2, payload: {text: "{{.Probe}}"}}
schedule: {rate: 10/s}
`)
	b := book(t, p, testShard(0, 2))
	mine, other := b.plan.Owner[0], uint16(1)
	if mine != 0 || b.plan.Owner[1] != 1 {
		t.Fatal(b.plan.Owner)
	}
	sibling, _ := (&run{opts: Options{Shard: testShard(1, 2)}, id: b.id, lanes: b.lanes}).runID(0)
	for lane := range uint16(2) {
		sub := eventmeter.Sub{Lane: lane}
		b.ledger.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Attaching, At: 1})
		b.ledger.Changed(eventmeter.Transition{Sub: sub, To: eventmeter.Active, At: 2})
		for _, stamp := range []eventmeter.Stamp{
			{Run: sibling, Source: other, Seq: 1}, {Run: sibling + 2, Source: other, Seq: 1}, // of its next pass
			{Run: sibling, Source: 9, Seq: 1}, {Run: sibling + 4, Seq: 1}, {Run: b.ledger.Run() + 2, Seq: 1},
		} {
			b.ledger.Delivered(eventmeter.Delivery{Sub: sub, Stamp: stamp, Probed: true, At: 5, Bytes: 3})
		}
	}
	part := b.closeBook(t)
	all, own := part.Account.Lanes[0], part.Account.Lanes[1]
	if all.Foreign != 2 || all.Unexpected.NeverFired != 1 || all.Unexpected.ForeignRun != 2 || all.Unexpected.NotSubscribed != 0 {
		t.Errorf("a lane that hears everything: %d foreign, %+v", all.Foreign, all.Unexpected)
	}
	if own.Foreign != 0 || own.Unexpected.NotSubscribed != 2 || own.Unexpected.NeverFired != 1 || own.Unexpected.ForeignRun != 2 {
		t.Errorf("a lane that hears its own: %d foreign, %+v", own.Foreign, own.Unexpected)
	}
	if got := results.NewLane(&part.Account.Lanes[0]); got.Detail.Foreign != 2 || got.Expected != 0 {
		t.Errorf("in the result: %+v", got.Detail)
	}
}
