package ledger_test

import (
	"testing"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

func TestLedgerEmission(t *testing.T) {
	l, err := ledger.New(ledger.Options{Run: 7, Sources: 2, Lanes: []ledger.LaneSpec{{Name: "a", Subscriptions: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	s := eventmeter.Stamp{Run: 7, Source: 1, Seq: 1}
	if _, _, ok := l.Emission(s); ok {
		t.Error("known before it was fired")
	}
	l.Fired(eventmeter.Emission{Stamp: s, Intended: 10, Fired: 12, Measured: true})
	e, o, ok := l.Emission(s)
	if !ok || o != eventmeter.Pending || e.Intended != 10 || e.Fired != 12 || !e.Measured || e.Stamp != s {
		t.Errorf("%+v %v %v", e, o, ok)
	}
	l.Resolved(s, eventmeter.Accepted, 20)
	if _, o, _ := l.Emission(s); o != eventmeter.Accepted {
		t.Errorf("outcome %v", o)
	}
	for _, other := range []eventmeter.Stamp{
		{Run: 8, Source: 1, Seq: 1}, {Run: 7, Source: 2, Seq: 1},
		{Run: 7, Source: 1, Seq: 2}, {Run: 7, Source: 1},
	} {
		if _, _, ok := l.Emission(other); ok {
			t.Errorf("%+v is known", other)
		}
	}
}
