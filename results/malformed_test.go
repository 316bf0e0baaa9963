package results_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/eventmeter/eventmeter/results"
	"github.com/eventmeter/eventmeter/sinks/ledger"
)

// Malformed messages are counted by what was wrong; the map is absent where nothing was.
func TestMalformedBy(t *testing.T) {
	l, err := ledger.New(ledger.Options{Sources: 1, Lanes: []ledger.LaneSpec{{Name: "a", Subscriptions: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	account := l.Account()
	text, err := json.Marshal(results.NewLane(&account.Lanes[0]))
	if err != nil || strings.Contains(string(text), "malformedBy") {
		t.Errorf("without any: %v %s", err, text)
	}
	n := &account.Lanes[0]
	n.Malformed, n.MalformedBy = 3, []ledger.Reason{{Text: "no object", Count: 2}, {Text: "no id", Count: 1}}
	n.Oversized, n.OversizedBy = 4, []ledger.Reason{{Text: "a cursor", Count: 4}}
	d := results.NewLane(n).Detail
	if want := map[string]int64{"no object": 2, "no id": 1}; d.Malformed != 3 || !maps.Equal(d.MalformedBy, want) {
		t.Errorf("got %d %v", d.Malformed, d.MalformedBy)
	}
	if want := map[string]int64{"a cursor": 4}; d.Oversized != 4 || !maps.Equal(d.OversizedBy, want) {
		t.Errorf("oversized: got %d %v", d.Oversized, d.OversizedBy)
	}
}
