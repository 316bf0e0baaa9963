package results_test

import (
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
