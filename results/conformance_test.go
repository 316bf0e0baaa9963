package results_test

import (
	"cmp"
	"testing"

	"github.com/eventmeter/eventmeter/internal/conform"
	"github.com/eventmeter/eventmeter/results"
)

// TestConformance: every row is held, broken or not seen, and thresholds judge the
// broken ones by level, unless no row was seen.
func TestConformance(t *testing.T) {
	if results.NewConformance(nil) != nil {
		t.Error("nobody judged, and there is a verdict")
	}
	check := func(r *results.Result, text string) results.Verdict {
		t.Helper()
		th, err := results.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		return th.Check(r)[0]
	}
	r := &results.Result{}
	if v := check(r, "run.conformance.must == 0"); v.Passed || v.NotEvaluated == "" {
		t.Errorf("without a verdict: %+v", v)
	}
	r.Conformance = results.NewConformance(conform.Account{})
	if v := check(r, "run.conformance.must == 0"); v.Passed || v.NotEvaluated == "" {
		t.Errorf("without a row that was seen: %+v", v)
	}
	r.Conformance = results.NewConformance(conform.Account{"occurrence-name": {Seen: 9}, "stream-heartbeat-interval": {Seen: 5, Broken: 5}})
	if v := check(r, "run.conformance.must == 0"); !v.Passed || v.NotEvaluated != "" {
		t.Errorf("with a row that held and one that did not: %+v", v)
	}
	first := &conform.Example{Lane: "push", Subscription: 4, At: 7, Message: "x"}
	r.Conformance = results.NewConformance(conform.Account{
		"delivery-410-non-retryable": {Seen: 8, Broken: 2, First: first},
		"stream-heartbeat-interval":  {Seen: 5, Broken: 5},
		"occurrence-name":            {Seen: 9},
	})
	c := r.Conformance
	if c.Held != 1 || c.Broken != 2 || c.NotSeen != 132 || c.Must != 1 || c.Should != 1 || c.Shape != 0 || len(c.Rows) != 135 {
		t.Errorf("%+v", *c)
	}
	for _, row := range c.Rows {
		switch {
		case row.Row == "delivery-410-non-retryable":
			if row.Verdict != results.RowBroken || row.Share != 0.25 || row.First == nil ||
				*row.First != (results.ConformanceExample{Lane: "push", Subscription: 4, At: 7, Message: "x"}) {
				t.Errorf("%+v, %+v", row, row.First)
			}
		case row.Verdict == results.RowNotSeen && row.Why == "":
			t.Errorf("%s does not say why it was not seen", row.Row)
		}
	}
	if v := check(r, "run.conformance.must == 0"); v.Passed || v.NotEvaluated != "" {
		t.Errorf("a broken must row passes: %+v", v)
	}
	if v := check(r, "run.conformance.shape == 0"); !v.Passed {
		t.Errorf("no broken shape row, and it fails: %+v", v)
	}
}

// TestCheckJudges: a row is judged in both stages, and counted once.
func TestCheckJudges(t *testing.T) {
	rest := results.CheckSeen{
		Account: conform.Account{
			"delivery-410-non-retryable": {Seen: 5}, "stream-heartbeat-required": {Seen: 3, Broken: 3}, "occurrence-name": {Seen: 9},
		},
		Why: map[string]string{"occurrence-event-id": "nothing came", "occurrence-name": "it is held"},
	}
	load := results.CheckSeen{Account: conform.Account{
		"delivery-410-non-retryable": {Seen: 5, Broken: 2}, "stream-heartbeat-required": {Seen: 4},
		"stream-heartbeat-interval": {Seen: 5, Broken: 5}, "occurrence-event-id": {Seen: 1},
	}}
	var c results.Check
	c.Judge(rest, load)
	all := len(conform.Rows)
	if c.UnderLoad != 1 || c.Broken != 2 || c.Held != 2 || c.NotSeen != all-5 || c.Must != 2 || len(c.Rows) != all {
		t.Errorf("%d under load, %d broken, %d held, %d not seen, %d must", c.UnderLoad, c.Broken, c.Held, c.NotSeen, c.Must)
	}
	want := map[string]string{
		"delivery-410-non-retryable": results.RowBrokenUnderLoad, "stream-heartbeat-required": results.RowBroken,
		"stream-heartbeat-interval": results.RowBroken, "occurrence-name": results.RowHeld, "occurrence-event-id": results.RowHeld,
	}
	for i, row := range c.Rows {
		if row.Row != conform.Rows[i].Name || row.Finding != cmp.Or(want[row.Row], results.RowNotSeen) {
			t.Errorf("row %d: %+v", i, row)
		}
		if (row.AtRest.Why == "nothing came") != (row.Row == "occurrence-event-id") || row.AtRest.Why == "it is held" {
			t.Errorf("%s was not seen because %s", row.Row, row.AtRest.Why)
		}
	}
	c = results.Check{}
	c.Judge(results.CheckSeen{}, load)
	if c.UnderLoad != 0 || c.Broken != 2 || c.Held != 2 || c.Rows[0].AtRest != nil || c.Rows[0].UnderLoad == nil {
		t.Errorf("without a stage at rest: %d under load, %d broken, %d held", c.UnderLoad, c.Broken, c.Held)
	}
}
